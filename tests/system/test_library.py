"""The library: what `Runs` and `Run` do, against real processes."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time

import pytest

from holdfast import (
    AlreadyRunning,
    Cleanup,
    Event,
    NotFound,
    Outcome,
    RunInfo,
    RunNotFound,
    Runs,
    State,
    WrongUse,
)
from holdfast.errors import InvalidName, InvalidOption, NoStdin
from holdfast.manage.listing import list_runs
from holdfast.manage.reading.cursor import SETTLE_SECONDS, CursorPosition, parse_cursor
from holdfast.run.names import new_id
from tests.support.shims import kill_shim
from tests.support.waiting import eventually


def test_a_run_from_start_to_end(runs):
    run = runs.start(["sh", "-c", "echo hello; exit 3"], name="x", tags={"a": "b"})
    info = run.wait(20)
    assert isinstance(info, RunInfo)
    assert (info.state, info.outcome, info.exit_code) == (State.ENDED, Outcome.FAILED, 3)
    assert info.id == run.id == runs.get("x").id == runs.get(run.id[:12]).id
    assert run.output() == b"hello\n"
    assert run.wait().outcome is Outcome.FAILED
    assert repr(run) == f"Run({run.id!r})"


def test_a_command_that_can_not_be_started_is_a_value(runs):
    info = runs.start(["nonesuch-command"]).info()
    assert (info.outcome, info.exit_code) == (Outcome.NEVER_STARTED, 127)


def test_waiting_has_a_timeout_and_stop_ends_the_tree(runs):
    run = runs.start(["sh", "-c", "sleep 600 & sleep 600"])
    assert run.wait(timeout=0.05).state is State.RUNNING
    cleanup = run.stop(grace=5)
    assert isinstance(cleanup, Cleanup)
    assert cleanup.complete is True
    assert run.info().outcome is Outcome.STOPPED
    assert run.stop() == cleanup


def test_waiting_for_any_and_for_all(runs):
    slow = runs.start(["sleep", "600"], name="slow")
    quick = runs.start(["true"], name="quick")
    infos = runs.wait([slow, "quick"], any=True, timeout=20)
    assert [info.name for info in infos] == ["slow", "quick"]
    assert infos[0].state is State.RUNNING
    assert infos[1].outcome is Outcome.SUCCEEDED
    slow.stop(grace=5)
    assert all(info.state is State.ENDED for info in runs.wait([slow, quick], timeout=20))


def test_L2_a_name_has_one_live_run(runs):
    first = runs.start(["sleep", "600"], name="x")
    with pytest.raises(AlreadyRunning) as refused:
        runs.start(["sleep", "600"], name="X")
    assert refused.value.run == first.id
    assert refused.value.exit_code == 4
    second = runs.start(["true"], name="x", replace=True, grace=5)
    assert second.id != first.id
    assert first.info().outcome is Outcome.STOPPED


def test_L12_a_key_has_one_run(runs):
    first = runs.start(["true"], key="k1")
    first.wait(20)
    assert runs.start(["false"], key="k1").id == first.id


def test_tags_are_given_to_starts_and_limit_what_is_seen(tmp_path, runs):
    team = Runs(tmp_path, tags={"team": "a"})
    ours = team.start(["true"], tags={"x": "1"})
    theirs = runs.start(["true"], tags={"team": "b"})
    runs.wait([ours, theirs], timeout=20)
    assert ours.info().tags == {"team": "a", "x": "1"}
    assert [info.id for info in team.list()] == [ours.id]
    assert [info.id for info in team.list(tags={"x": "2"})] == []
    assert {info.id for info in runs.list()} == {ours.id, theirs.id}
    assert {event.run for event in team.events(follow=False)} == {ours.id}


def test_lists_by_activity_outcome_time_and_number(runs):
    bad = runs.start(["false"])
    going = runs.start(["sleep", "600"])
    bad.wait(20)
    assert [info.id for info in runs.list(active=True)] == [going.id]
    assert [info.id for info in runs.list(active=False)] == [bad.id]
    assert [info.id for info in runs.list(outcome="failed")] == [bad.id]
    assert [info.id for info in runs.list(since=time.time() + 60)] == [going.id]
    assert len(runs.list(limit=1)) == 1


def test_lists_by_every_selector_of_the_command_line(runs):
    bad = runs.start(["false"], name="Train-1", tags={"team": "a"})
    good = runs.start(["true"], name="train-2", tags={"team": "b", "x": "1"})
    going = runs.start(["sleep", "600"], name="serve", tags={"team": "c"}, agent="claude")
    runs.wait([bad, good], timeout=20)

    def ids(**selectors) -> set[str]:
        return {info.id for info in runs.list(**selectors)}

    assert ids(state="running") == ids(state=State.RUNNING) == {going.id}
    assert ids(state=["ended", "running"]) == {going.id, good.id, bad.id}
    assert ids(outcome=(Outcome.FAILED, "killed")) == {bad.id}
    assert ids(agent="claude") == {going.id}
    assert ids(name="train-*") == {good.id, bad.id}
    assert ids(name=["serve", "*-1"]) == {going.id, bad.id}
    assert ids(tags={"x": None}) == {good.id}
    assert ids(tags={"team": ["a", "b"]}) == {good.id, bad.id}
    assert ids(tags={"team": ["a", "b"], "x": "1"}, outcome="succeeded") == {good.id}
    assert len(ids(name="train-*", active=False, limit=1)) == 1
    assert ids(state="running", active=False) == set()


def test_what_is_no_state_and_no_text_is_refused(runs):
    with pytest.raises(InvalidOption, match="'asleep' is none of queued, starting") as refused:
        runs.list(state=["running", "asleep"])
    assert (refused.value.option, refused.value.value) == ("state", "asleep")
    with pytest.raises(InvalidOption, match="name: 7 is not a text"):
        runs.list(name=[7])


def test_an_outcome_that_there_is_not_is_refused(runs):
    assert runs.list(outcome=Outcome.LOST) == runs.list(outcome="lost") == []
    with pytest.raises(InvalidOption, match="'xx' is none of succeeded, failed") as refused:
        runs.list(outcome="xx")
    assert (refused.value.option, refused.value.value) == ("outcome", "xx")


def test_a_list_that_looks_less_closely_says_the_same(runs):
    runs.start(["sleep", "600"], name="going")
    kill_shim(runs.start(["sleep", "600"], name="orphan"))
    for argv in (["false"], ["nonesuch-command"], ["sh", "-c", "kill -9 $$"]):
        runs.start(argv).wait(20)
    people = {"command", "attempts", "evidence", "shim", "workload", "wrappers"}
    figures = {"duration_seconds", "usage", "now"}  # of another moment, or not for the table
    left_out = people | figures

    def differences() -> set[str]:
        close, quick = list_runs(runs.home), list_runs(runs.home, closely=False)
        assert [info.command for info in quick] == [None] * 5
        return {
            name
            for one, other in zip(close, quick, strict=True)
            for name in set(RunInfo._fields) - left_out
            if getattr(one, name) != getattr(other, name)
        }

    # Between the two looks the shim that goes on may have recorded something.
    eventually(lambda: not differences(), why="both looks say the same")


def test_output_from_a_byte_its_tail_and_line_by_line(runs):
    run = runs.start(["sh", "-c", "printf 'one\\ntwo\\r\\n\\nlast'"])
    run.wait(20)
    assert run.output(since_byte=4) == b"two\r\n\nlast"
    assert run.output(tail=2) == b"\nlast"
    assert list(run.lines()) == [b"one", b"two\r", b"", b"last"]
    assert b"".join(chunk.data for chunk in run.follow(since_byte=4)) == b"two\r\n\nlast"
    with pytest.raises(WrongUse):
        run.output(since_byte=-1)


def test_following_gives_output_as_it_comes(runs, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = runs.start(["sh", "-c", f"echo one; cat {gate}; echo two"])
    lines = run.lines()
    assert next(lines) == b"one"
    assert run.info().state is State.RUNNING
    gate.write_text("go\n")
    assert list(lines) == [b"go", b"two"]
    assert run.wait(20).outcome is Outcome.SUCCEEDED


def test_an_abandoned_follower_closes_what_it_opened(runs):
    run = runs.start(["sh", "-c", "echo one; sleep 600"])
    before = len(os.listdir("/proc/self/fd"))
    lines = run.lines()
    assert next(lines) == b"one"
    lines.close()
    run.follow()  # never begun
    events = runs.events()
    next(events)
    events.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_send_writes_to_a_stdin_that_is_a_pipe(runs):
    run = runs.start(["head", "-n", "1"], stdin="pipe")
    run.send(b"hello\n")
    assert run.wait(20).outcome is Outcome.SUCCEEDED
    assert run.output() == b"hello\n"
    closed = runs.start(["sleep", "600"])
    with pytest.raises(NoStdin):
        closed.send(b"x")


def test_stdin_from_bytes_and_from_a_file(runs, tmp_path):
    assert _output(runs.start(["cat"], stdin=b"bytes")) == b"bytes"
    (tmp_path / "in").write_bytes(b"file")
    assert _output(runs.start(["cat"], stdin=tmp_path / "in")) == b"file"


def _output(run) -> bytes:
    assert run.wait(20).outcome is Outcome.SUCCEEDED
    return run.output()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": "../x"}, InvalidName),
        ({"name": ""}, InvalidName),
        ({"timeout": -1}, InvalidOption),
        ({"timeout": "soon"}, InvalidOption),
        ({"restart": "sometimes"}, InvalidOption),
        ({"tags": {"": "x"}}, InvalidOption),
        ({"agent": "nonesuch"}, NotFound),
        ({"colour": "red"}, WrongUse),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_made(runs, tmp_path, options, error):
    with pytest.raises(error) as refused:
        runs.start(["true"], **options)
    assert pickle.loads(pickle.dumps(refused.value)).message == refused.value.message
    assert not list(tmp_path.glob("runs/*"))


def test_what_is_not_there(runs):
    with pytest.raises(RunNotFound):
        runs.get("nobody")
    with pytest.raises(InvalidName):
        runs.get("../../etc")


# Events


def test_events_go_on_from_any_cursor(runs):
    names = ["a", "b", "c"]
    runs.wait([runs.start(["true"], name=name) for name in names], timeout=20)
    events = list(runs.events(follow=False))
    assert all(isinstance(event, Event) for event in events)
    assert {event.name for event in events} == set(names)
    for place, event in enumerate(events):
        rest = list(runs.events(since=event.cursor, follow=False))
        assert [one.replace(cursor="") for one in rest] == [
            one.replace(cursor="") for one in events[place + 1 :]
        ]
    with pytest.raises(InvalidOption):
        runs.events(since="nonsense")


def test_following_events_sees_a_run_that_starts_later(runs):
    events = runs.events(since="now")
    run = runs.start(["true"], name="later")
    seen = [next(events)]
    while seen[-1].kind != "ended":
        seen.append(next(events))
    assert {event.run for event in seen} == {run.id}
    events.close()


def test_a_cursor_forgets_what_is_done_with():
    """However long the history, a cursor names only what may still have events."""
    place = CursorPosition()
    ids = sorted(new_id() for _ in range(50))
    for run_id in ids:
        assert place.begin(run_id) == 0
        place.give(run_id, 7, is_last=run_id != ids[10])
    place.settle(time.time() + 2 * SETTLE_SECONDS, unread=None)
    assert str(place) == f"e1.{ids[-1]}.{ids[10]}-7"
    again = parse_cursor(str(place))
    assert again.begin(ids[0]) is None
    assert again.begin(ids[10]) == 7
    assert again.begin(new_id()) in (0, None)


def test_events_of_a_slow_launcher_are_not_left_out():
    """A run whose id was made before another one's may get its directory after that has ended."""
    early, later = sorted((new_id(), new_id()))
    place = CursorPosition()
    place.begin(later)
    place.give(later, 9, is_last=True)
    place.settle(time.time(), unread=None)
    assert parse_cursor(str(place)).begin(early) == 0
    assert parse_cursor(str(place)).begin(later) == 9


def test_a_removed_run_does_not_disturb_a_follower(runs):
    run = runs.start(["true"], name="gone")
    run.wait(20)
    events = runs.events()
    next(events)
    for entry in os.scandir(run.directory.path):
        os.unlink(entry.path)
    os.rmdir(run.directory.path)
    other = runs.start(["true"], name="here")
    kinds = {(event.run, event.kind) for event in _until_ended(events, other.id)}
    assert (other.id, "ended") in kinds
    events.close()


def _until_ended(events, run_id):
    for event in events:
        yield event
        if (event.run, event.kind) == (run_id, "ended"):
            return


def test_a_reader_is_not_confused_by_a_starting_run(runs):
    """Looked at while it starts, again and again: never an error, never a wrong state."""
    states = set()
    errors: list[BaseException] = []

    def start() -> None:
        try:
            runs.start(["true"], name="x").wait(20)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    while thread.is_alive():
        for info in runs.list():
            states.add(info.state)
    thread.join()
    assert errors == []
    assert states <= {State.STARTING, State.RUNNING, State.STOPPING, State.ENDED}


def test_python_m_runs_the_same_library(runs, holdfast):
    run = runs.start([sys.executable, "-c", "print('hi')"], name="x")
    run.wait(20)
    assert holdfast("status", "x", "--json", expect=0).json["id"] == run.id
    started = holdfast("run", "-n", "y", "true", expect=0).stdout.strip()
    assert eventually(lambda: runs.get(started).info().outcome) is Outcome.SUCCEEDED
