"""F1, F2, F6 with the ledger in a real PostgreSQL: one start for a key, from several machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import NoAnswer
from holdfast.fleet.order import Settled
from holdfast.fleet.placement import Reservation
from holdfast.fleet.postgres import PostgresLedger
from holdfast.run.crashpoints import POINTS
from tests.fleet.fake_engine import FACTS, FakeEngine, place_one, recover, request_of, wanted
from tests.fleet.postgres_cluster import Database
from tests.support.kernel_lab import ROOT
from tests.support.waiting import eventually

SUBMITTER_POINTS = [point for point in POINTS if point.startswith("submitter.")]


@pytest.fixture
def engine(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path / "engine")


def submit(home: Path, engine: FakeEngine, url: str, **more: object) -> subprocess.Popen[bytes]:
    """A submitter in a process of its own, with a home of its own."""
    crash_at = more.pop("crash_at", None)
    arguments = {"home": str(home), "engine": str(engine.path), "key": "k", "ledger": url, **more}
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    if crash_at is not None:
        env["HOLDFAST_CRASH_AT"] = f"{crash_at}@submitter"
    command = [sys.executable, "-m", "tests.fleet.fake_engine", json.dumps(arguments)]
    return subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE)


@pytest.mark.parametrize("point", SUBMITTER_POINTS)
def test_F1_a_submitter_dies_at(point, tmp_path, engine, ledger, database):
    killed = submit(tmp_path / "one", engine, database.url, crash_at=point)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, "it came by, and died there"
    if point == "submitter.bound":
        (found,) = recover(ledger, engine)
        assert found.outcome is Settled.STARTED
    placed = place_one(ledger, engine, "k")  # from another machine
    assert (engine.started, engine.held) == ([placed.placement.id], [placed.placement.id])
    assert [one.id for one in ledger.active()] == [placed.placement.id]
    assert ledger.unfinished() == []


def test_F2_submitters_on_many_machines_of_one_key_at_once_make_one_start(
    tmp_path, ledger, database
):
    engine = FakeEngine(tmp_path / "moving", moves=True)  # each of them reserves another place
    homes = [tmp_path / f"home{number}" for number in range(5)]
    every = [submit(home, engine, database.url, moves=True) for home in homes]
    ids = {one.communicate(timeout=60)[0].decode().strip() for one in every}
    assert [one.returncode for one in every] == [0] * 5
    (placement,) = ledger.active()
    assert ids == set(engine.started) == {placement.id}
    assert engine.held == [placement.bound.handle["number"]], "the losers gave theirs back"


def test_a_binding_is_decided_once(ledger):
    placement = ledger.intend(wanted("k", request_of()))
    assert ledger.intend(wanted("k", request_of())).id == placement.id
    first = ledger.bind(placement.id, Reservation("fake", {"number": "1"}))
    second = ledger.bind(placement.id, Reservation("fake", {"number": "2"}))
    assert first.bound == second.bound == Reservation("fake", {"number": "1"})
    ledger.withdraw(placement.id)  # it is bound
    assert ledger.get(placement.id) == second


def test_names_ids_looks_and_nodes_are_found_again(ledger):
    both = [ledger.intend(wanted(None, request_of())) for _ in range(2)]
    first, second = sorted(both, key=lambda one: one.id)
    assert [one.id for one in ledger.called("A")] == [second.id, first.id]
    assert [one.id for one in ledger.beginning(first.id)] == [first.id]
    assert ledger.recall(first.id) is None
    for state in ("queued", "running"):
        ledger.remember(first.id, {"state": state})
    assert ledger.recall(first.id).run == {"state": "running"}
    ledger.see(FACTS, "ssh", "ssh:n1")
    ledger.see(FACTS, "ssh", "ssh:n2")
    assert [(one.facts, one.target) for one in ledger.nodes()] == [(FACTS, "ssh:n2")]
    ledger.note(first.id, ended_at=first.created_at)
    assert [one.id for one in ledger.active()] == [second.id]
    assert [one.id for one in ledger.called("a")] == [second.id]
    ledger.forget(first.id)
    assert (ledger.get(first.id), ledger.recall(first.id)) == (None, None)


def test_a_given_up_key_is_free(engine, ledger):
    first = place_one(ledger, engine, "k").placement
    ledger.note(first.id, given_up={"by": "me", "at": first.created_at})
    assert place_one(ledger, engine, "k").placement.id != first.id
    assert ledger.get(first.id).key == "k", "what was asked stays on record"


def test_F6_a_database_that_is_down_is_told_and_the_ledger_goes_on_when_it_is_back(shared, engine):
    database = Database(shared / "pg")
    database.start()
    ledger = PostgresLedger(database.url)
    try:
        placed = place_one(ledger, engine, "k").placement
        database.stop()
        with pytest.raises(NoAnswer, match="does not answer"):
            place_one(ledger, engine, "other")
        assert engine.started == [placed.id], "nothing was started that is not on record"
        database.start()
        assert ledger.get(placed.id) == placed, "what was recorded survived"
        assert place_one(ledger, engine, "k").placement.id == placed.id
    finally:
        ledger.close()
        database.stop()


@pytest.mark.usefixtures("ledger")
def test_F6_a_run_over_ssh_is_unharmed_and_known_to_another_submitter(world, database):
    one, two = world.submitter("one"), world.submitter("two")
    world.node("n1")
    world.configure(f'[fleet]\nledger = "{database.url}"\n')
    run = ("run", "--on", "ssh:n1", "--key", "k", "-n", "a", "--json", "sleep", "600")
    placed = one(*run, expect=0).json["id"]
    assert two(*run, expect=0).json["id"] == placed
    assert world.run_ids(world.nodes["n1"]) == [placed]
    assert two.info("a")["state"] == "running"
    two("stop", "a", expect=0)
    assert one.info("a")["outcome"] == "stopped"
    one("run", "-n", "here", "sleep", "600", expect=0)
    world.configure(f'[fleet]\nledger = "{database.url}-not-there"\n')
    assert one.info("here")["state"] == "running", "a local run needs no database"
    one("stop", "here", expect=0)
    assert one("status", "a").returncode == 6
    down = one("run", "--on", "ssh:n1", "true")
    assert (down.returncode, "PostgreSQL" in down.stderr) == (6, True)


def test_F6_a_wait_goes_on_while_the_database_is_down(world, shared):
    database = Database(shared / "pg")
    database.start()
    submitter = world.submitter()
    node = world.node("n1")
    world.configure(f'[fleet]\nledger = "{database.url}"\n')
    try:
        run = ("run", "--on", "ssh:n1", "-n", "a", "--stdin", "pipe", "sh", "-c", "read x; exit 5")
        submitter(*run, expect=0)
        waiting = submitter.start("wait", "a")
        eventually(lambda: len(node.commands()) == 1, 60, "it has somebody there")
        database.stop()
        node.kill_sessions()
        eventually(lambda: len(node.commands()) == 1, 60, "it has somebody there again")
        assert submitter("wait", "--timeout", "2s", "a").returncode == 125
        findings = submitter("fleet", "check", "ssh:n1", "--json").json["findings"]
        statuses = {one["name"]: one["status"] for one in findings}
        assert (statuses["ledger"], statuses["reach"], statuses["clock"]) == ("fail", "ok", "ok")
        assert world.on(node, "send", "a", "go").returncode == 0
        _, said = waiting.communicate(timeout=90)
        assert waiting.returncode == 5, said
    finally:
        database.stop()


def test_without_the_extra_the_command_says_what_to_install(config):
    config('[fleet]\nledger = "postgresql://db/holdfast"\n')
    hide = "import sys; sys.modules['psycopg'] = None; from holdfast.cli import main; "
    command = [sys.executable, "-c", f"{hide}sys.exit(main(['fleet', 'nodes']))"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, "holdfast[postgres]" in said.stderr) == (6, True), said


def test_F5_a_node_with_the_same_ledger_answers_for_its_own_runs_alone(tmp_path, ledger, database):
    """Else it would look for a run that it does not have where it was placed: at itself."""
    placement = ledger.intend(wanted("k", request_of()))
    ledger.bind(placement.id, Reservation("ssh", {"node": FACTS.node}))
    config = tmp_path / "config" / "holdfast" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[fleet]\nledger = "{database.url}"\n[fleet.engine.n1]\nkind = "ssh"\n')
    places = {"HOLDFAST_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/src", **places}
    asked = {"words": ["status", placement.id, "--json"], "node": None}
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "fleet", "relay"],
        input=json.dumps(asked) + "\n",
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert '"ended":3' in done.stdout.replace(" ", ""), done
    assert "run_not_found" in done.stdout.replace("-", "_")
