"""Digests of running runs: a list keeps what it would read, and no longer than that holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.manage.info import examine_run
from holdfast.manage.overview import Overview
from holdfast.manage.reading.digests import Digests, _with_checksum
from holdfast.manage.selection import Selection
from holdfast.manage.words.views import NO_FIGURES, row_of
from holdfast.run.facts import State
from tests.support.recovering import kill_shim
from tests.support.running import loaded_shim, run_of, wait_for, wait_for_output
from tests.support.waiting import eventually

MOVING = ("duration_seconds", "now")
NOT_LISTED = ("attempts", "shim", "workload", "wrappers")


@pytest.fixture
def home(holdfast, runs):
    words = ("--timeout", "1h", "--tag", "a=b", "sh", "-c", "echo begun; exec sleep 600")
    holdfast("run", "-n", "one", *words, expect=0)
    wait_for_output("one", b"begun")
    loaded_shim("one")
    wait_for("one", lambda info: info.workload_resolution)
    return runs.home


def _listed(home):
    """As one list gives it, and whether it was read for that."""
    digests = Digests(home)
    directory = run_of("one").directory
    info, view = digests.examine(directory)
    assert [*digests.stored_after(iter([info]))] == [info]
    return info, view is not None


def _settle(home):
    """Until a list finds all as the list before has left it."""
    eventually(lambda: not _listed(home)[1], why="its files do not change any more")


def _without(info, *names):
    return {name: value for name, value in info.to_json().items() if name not in names}


def test_a_run_is_given_as_if_it_was_read(home):
    _settle(home)
    info, was_read = _listed(home)
    read, _ = examine_run(run_of("one").directory, closely=False)
    assert not was_read
    assert _without(info, *MOVING, *NOT_LISTED) == _without(read, *MOVING, *NOT_LISTED)
    assert (type(info), info.attempts, info.wrappers) == (type(read), [], [])
    assert row_of(info).replace(figures=NO_FIGURES) == row_of(read).replace(figures=NO_FIGURES)
    assert info.state is State.RUNNING
    assert info.duration_seconds is not None
    assert read.duration_seconds is not None
    assert 0 < info.duration_seconds <= read.duration_seconds
    assert info.deadline_at is not None


def test_output_is_seen_though_no_event_tells_of_it(home):
    _settle(home)
    path = Path(run_of("one").directory.output_path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    info, was_read = _listed(home)
    assert (was_read, info.last_output_at) == (False, "2023-11-14T22:13:20.000000Z")


def test_an_event_makes_it_be_read(home, holdfast):
    _settle(home)
    holdfast("adjust", "one", "--timeout", "2h", expect=0)
    info, was_read = _listed(home)
    assert was_read
    assert info.wanted["timeout_seconds"] == 7200


def test_a_run_without_its_shim_is_read(home):
    _settle(home)
    kill_shim("one")
    info, was_read = _listed(home)
    assert (was_read, info.state) == (True, State.ORPHANED)


def test_an_ended_run_is_read(home, holdfast):
    _settle(home)
    holdfast("stop", "one", expect=0)
    info, was_read = _listed(home)
    assert (was_read, info.state, info.outcome) == (True, State.ENDED, "stopped")


SPOILT: dict[str, Callable[[Path, str], object]] = {
    "cut": lambda path, text: path.write_text(text[: len(text) // 2]),
    "other": lambda path, _: path.write_text("[1]"),
    "boot": lambda path, text: path.write_text(text.replace('"boot_id":"', '"boot_id":"x', 1)),
    "version": lambda path, text: path.write_text(text.replace('"version":3', '"version":1', 1)),
    "field": lambda path, text: path.write_text(text.replace('"pty":', '"x":')),
    "options": lambda path, text: path.write_text(text.replace('"wanted":[{', '"wanted":[7,{')),
    "place": lambda path, text: path.write_text(text.replace('"wanted":0', '"wanted":1')),
    "no list": lambda path, text: path.write_text(text.replace('"wanted":[', '"wanted":7,"x":[')),
    "no table": lambda path, text: _with_runs(path, text, lambda _: [1]),
    "no digest": lambda path, text: _with_runs(path, text, lambda runs: dict.fromkeys(runs, 7)),
    "no stamp": lambda path, text: _with_runs(path, text, lambda runs: {key: {} for key in runs}),
    "wrong time": lambda path, text: _with_info(path, text, created_at="x"),
    "wrong name": lambda path, text: _with_info(path, text, name=-5),
    "wrong id": lambda path, text: _with_info(path, text, id=[]),
    "wrong attempt": lambda path, text: _with_info(path, text, attempt="x"),
    "gone": lambda path, _: path.unlink(),
    "fifo": lambda path, _: _replace(path, os.mkfifo),
    "link": lambda path, _: _replace(path, lambda path: path.symlink_to("/etc/passwd")),
}


def _with_runs(path: Path, text: str, changed: Callable[[Any], object]) -> None:
    document = json.loads(text)
    path.write_text(json.dumps({**document, "runs": changed(document["runs"])}))


def _with_info(path: Path, text: str, **wrong: object) -> None:
    (digest,) = json.loads(text)["runs"].values()
    info = {**digest["info"], **wrong}
    _with_runs(path, text, lambda runs: {key: {**digest, "info": info} for key in runs})


def _replace(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


def test_a_file_that_is_not_sound_is_gone_round_and_made_anew(home):
    path = Path(home.digests_path)
    for how, spoil in SPOILT.items():
        _settle(home)
        text = path.read_text()
        spoil(path, text)
        assert path.is_fifo() or how == "gone" or path.read_text() != text, how
        info, was_read = _listed(home)
        assert (was_read, info.name, info.state) == (True, "one", State.RUNNING), how
    _settle(home)
    assert json.loads(path.read_text())["version"] == 3


def test_options_that_runs_share_are_kept_once_and_those_of_no_run_go(home, holdfast):
    _settle(home)
    path = Path(home.digests_path)
    document = json.loads(path.read_text())
    (run_id,) = document["runs"]
    others = {"timeout_seconds": 5.0}
    document["wanted"].insert(0, others)
    document["runs"][run_id]["wanted"] = 1
    document["runs"]["0" * 20] = {**document["runs"][run_id], "wanted": 0}
    del document["checksum"]
    path.write_bytes(_with_checksum(document))
    info, was_read = _listed(home)
    assert (was_read, info.wanted["timeout_seconds"]) == (False, 3600)
    holdfast("adjust", "one", "--timeout", "2h", expect=0)
    _listed(home)
    stored = json.loads(path.read_text())
    assert [one["timeout_seconds"] for one in stored["wanted"]] == [7200]
    assert [one["wanted"] for one in stored["runs"].values()] == [0]


def test_a_home_that_can_not_be_written_is_listed(home):
    os.mkdir(home.digests_path)
    assert [_listed(home)[1] for _ in range(2)] == [True, True]


def test_a_list_of_few_keeps_nothing_and_of_many_does(home, monkeypatch):
    assert [info.name for info in Overview(home)] == ["one"]
    assert not os.path.exists(home.digests_path)
    monkeypatch.setattr("holdfast.manage.overview._MANY", 1)
    assert [info.name for info in Overview(home)] == ["one"]
    assert os.path.exists(home.digests_path)


def test_a_list_of_the_first_few_keeps_what_it_read_and_forgets_no_other(
    home, holdfast, monkeypatch
):
    monkeypatch.setattr("holdfast.manage.overview._MANY", 1)
    holdfast("run", "-n", "two", "--tag", "two", "sleep", "600", expect=0)
    loaded_shim("two")
    wait_for("two", lambda info: info.workload_resolution)

    def stored():
        return set(json.loads(Path(home.digests_path).read_text())["runs"])

    both = {run_of(name).directory.id for name in ("one", "two")}
    eventually(lambda: [*Overview(home, limit=1)] and stored() == both, ignoring=(OSError,))
    holdfast("adjust", "two", "--timeout", "2h", expect=0)
    assert [info.name for info in Overview(home, Selection(tags={"two": None}))] == ["two"]
    assert stored() == both
