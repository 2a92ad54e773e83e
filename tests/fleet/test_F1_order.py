"""F1, F2: the order of writes, with an engine of files: whoever dies where, one start for a key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import AlreadyRunning, DamagedRecord, NoAnswer
from holdfast.fleet.ledger import HomeLedger, UnreadablePlacement
from holdfast.fleet.order import Settled
from holdfast.fleet.placement import Reservation
from holdfast.run.crashpoints import POINTS
from holdfast.run.home import Home
from tests.fleet.fake_engine import FakeEngine, place_one, recover, request_of, wanted
from tests.support.kernel_lab import ROOT

SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "engine")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return Path(Home(str(tmp_path / "home")).prepare().path)


@pytest.fixture
def ledger(home: Path) -> HomeLedger:
    return HomeLedger(Home(str(home)))


def submit(home: Path, engine: FakeEngine, key: str, **more: object) -> subprocess.Popen[bytes]:
    """A submitter in a process of its own."""
    crash_at = more.pop("crash_at", None)
    arguments = {"home": str(home), "engine": str(engine.path), "key": key, **more}
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    if crash_at is not None:
        env["HOLDFAST_CRASH_AT"] = f"{crash_at}@submitter"
    command = [sys.executable, "-m", "tests.fleet.fake_engine", json.dumps(arguments)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("point", SUBMITTER_POINTS)
@pytest.mark.parametrize("then", ["same key", "recover"])
def test_F1_a_submitter_dies_at(point, then, home, engine, ledger):
    killed = submit(home, engine, "k", crash_at=point)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, "it came by, and died there"
    assert len(engine.started) == (1 if point == "submitter.committed" else 0)
    if then == "recover":
        (found,) = recover(home, engine)
        expected = Settled.FOUND if point == "submitter.committed" else Settled.STARTED
        assert found.outcome is expected
    placed = place_one(home, engine, "k")
    assert engine.started == [placed.placement.id]
    assert engine.held == [placed.placement.id]
    assert [one.id for one in ledger.active()] == [placed.placement.id]
    assert ledger.unfinished() == []


def test_F2_many_submitters_of_one_key_at_once_make_one_start(tmp_path, home, ledger):
    engine = FakeEngine(tmp_path / "moving", moves=True)  # each of them reserves another place
    every = [submit(home, engine, "k", moves=True) for _ in range(6)]
    ids = {one.communicate(timeout=60)[0].decode().strip() for one in every}
    assert [one.returncode for one in every] == [0] * 6
    assert ids == set(engine.started)
    (placement,) = ledger.active()
    assert ids == {placement.id}
    assert engine.held == [placement.bound.handle["number"]], "the losers gave theirs back"


def test_a_binding_is_decided_once(ledger):
    placement = ledger.intend(wanted("k", request_of()))
    first = ledger.bind(placement.id, Reservation("fake", {"number": "1"}))
    second = ledger.bind(placement.id, Reservation("fake", {"number": "2"}))
    assert first.bound == second.bound == Reservation("fake", {"number": "1"})


def test_a_refusal_of_the_node_leaves_nothing_behind(home, engine, ledger):
    (engine.path / "refuses").touch()
    with pytest.raises(AlreadyRunning):
        place_one(home, engine, "k")
    assert (engine.held, engine.started, list(ledger.every())) == ([], [], [])
    (engine.path / "refuses").unlink()
    place_one(home, engine, "k")  # its key is free
    assert len(engine.started) == 1


def test_a_refusal_is_told_also_where_its_place_is_not_given_back(home, engine, ledger):
    for name in ("refuses", "silent"):
        (engine.path / name).touch()
    with pytest.raises(
        NoAnswer, match="the name is taken there; its place could not be given"
    ) as e:
        place_one(home, engine, "k")
    assert isinstance(e.value.__cause__, AlreadyRunning)
    (known,) = ledger.every()
    assert engine.held == [known.id]
    (engine.path / "silent").unlink()
    with pytest.raises(AlreadyRunning):
        place_one(home, engine, "k")
    assert (engine.held, engine.started, list(ledger.every())) == ([], [], [])


def test_the_key_of_a_submitter_that_died_early_may_go_to_another_place(home, engine):
    submit(home, engine, "k", crash_at="submitter.intended").communicate(timeout=60)
    placed = place_one(home, engine, "k", target="ssh:n2")
    assert placed.placement.target == "ssh:n2"
    assert engine.started == [placed.placement.id]


def test_a_bound_key_stays_where_it_is_whatever_place_is_asked_for_now(home, engine):
    submit(home, engine, "k", crash_at="submitter.bound").communicate(timeout=60)
    placed = place_one(home, engine, "k", target="ssh:n2")
    assert placed.placement.target == "ssh:n1"
    assert engine.started == [placed.placement.id]


def test_what_needs_secrets_is_not_started_by_recover_and_its_key_goes_on_with_it(home, engine):
    env = {"TOKEN": "hunter2"}
    submit(home, engine, "k", crash_at="submitter.bound", env=env).communicate(timeout=60)
    (found,) = recover(home, engine)
    assert found.outcome is Settled.UNKNOWN
    assert engine.started == []
    place_one(home, engine, "k", env=env)
    assert len(engine.started) == 1


def test_an_unreserved_placement_whose_secrets_are_gone_is_forgotten(home, engine, ledger):
    env = {"TOKEN": "hunter2"}
    submit(home, engine, "k", crash_at="submitter.intended", env=env).communicate(timeout=60)
    (found,) = recover(home, engine)
    assert (found.outcome, list(ledger.every())) == (Settled.WITHDRAWN, [])


def test_a_damaged_placement_is_listed_and_its_key_starts_nothing(home, engine, ledger):
    placed = place_one(home, engine, "k").placement
    path = home / "fleet" / "placements" / f"{placed.id}.json"
    path.write_bytes(path.read_bytes()[:40])
    assert [type(one) for one in ledger.every()] == [UnreadablePlacement]
    with pytest.raises(DamagedRecord):
        place_one(home, engine, "k")
    path.unlink()
    with pytest.raises(DamagedRecord, match="may have been started"):
        place_one(home, engine, "k")
    assert engine.started == [placed.id]


def test_given_up_frees_the_key_and_removed_does_too(home, engine, ledger):
    first = place_one(home, engine, "k").placement
    ledger.note(first.id, given_up={"by": "me", "at": first.created_at})
    second = place_one(home, engine, "k").placement
    assert first.id != second.id
    ledger.forget(second.id)
    assert place_one(home, engine, "k").placement.id not in (first.id, second.id)
    assert [one.id for one in ledger.called("a")][1:] == []


def test_a_refused_start_and_a_removed_run_leave_the_name_to_the_one_before(home, engine, ledger):
    first, second = (place_one(home, engine, None).placement for _ in range(2))
    for one in (first, second):
        ledger.note(one.id, ended_at=one.created_at)
    (engine.path / "refuses").touch()
    with pytest.raises(AlreadyRunning):
        place_one(home, engine, None)
    assert [one.id for one in ledger.called("A")] == [second.id]
    ledger.forget(second.id)
    assert [one.id for one in ledger.called("a")] == [first.id]
    ledger.forget(first.id)
    assert ledger.called("a") == []
    assert list((home / "fleet" / "names").iterdir()) == []


def test_a_placement_is_found_by_its_name_wherever_the_write_of_another_was_cut_off(home, ledger):
    kept = ledger.intend(wanted(None, request_of()))
    ledger.note(kept.id, given_up={"by": "me", "at": kept.created_at})
    cut = ledger.intend(wanted(None, request_of()))
    (home / "fleet" / "placements" / f"{cut.id}.json").unlink()
    assert [one.id for one in ledger.called("a")] == [kept.id]
    assert ledger.active() == []
