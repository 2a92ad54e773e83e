"""`holdfast events`: facts as JSON lines, with cursors that lose and repeat nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.running import wait_for_events
from tests.support.waiting import eventually


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(20).state == "ended"
    return run


def _positions(lines):
    return [(line["run"], line["seq"]) for line in lines]


def test_the_events_of_one_run(holdfast, runs):
    run = _end(runs, "sh", "-c", "exit 3", name="x")
    _end(runs, "true", name="other")
    lines = holdfast("events", "x", expect=0).json_lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["run"] for line in lines} == {run.id}
    assert {line["name"] for line in lines} == {"x"}
    assert lines[0]["kind"] == "supervised"
    assert lines[-1]["kind"] == "ended"
    assert lines[-1]["exit_code"] == 3
    assert holdfast("events", "x", "--json", expect=0).json_lines == lines
    assert holdfast("events", "-f", "x", expect=0).json_lines == lines


def test_the_events_of_all_runs_are_in_the_order_of_time(holdfast, runs):
    for number in range(3):
        _end(runs, "true", name=f"run{number}")
    lines = holdfast("events", expect=0).json_lines
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert len({line["run"] for line in lines}) == 3


def test_each_cursor_goes_on_exactly_after_its_event(holdfast, runs):
    going = runs.start(["sleep", "600"], name="going")
    for number in range(2):
        _end(runs, "true", name=f"run{number}")
    wait_for_events("going", "workload_resolved")
    lines = holdfast("events", expect=0).json_lines
    for place in (0, 1, len(lines) // 2, len(lines) - 1):
        rest = holdfast("events", "--since", lines[place]["cursor"], expect=0).json_lines
        assert _positions(rest) == _positions(lines[place + 1 :])
    going.stop(grace=5)
    rest = holdfast("events", "--since", lines[-1]["cursor"], expect=0).json_lines
    assert rest
    assert {line["run"] for line in rest} == {going.id}
    assert rest[-1]["kind"] == "ended"


def test_now_leaves_out_what_has_happened(holdfast, runs):
    _end(runs, "true", name="x")
    assert holdfast("events", "--since", "now", expect=0).json_lines == []


def test_following_tells_of_new_runs_until_interrupted(holdfast, runs):
    _end(runs, "true", name="before")
    follower = subprocess.Popen(
        holdfast.argv("events", "-f", "--since", "now"), stdout=subprocess.PIPE, text=True
    )
    assert follower.stdout is not None
    _asleep(follower.pid)
    run = _end(runs, "true", name="after")
    seen: list[dict[str, object]] = []
    while not seen or seen[-1]["kind"] != "ended":
        seen.append(json.loads(follower.stdout.readline()))
    assert {line["run"] for line in seen} == {run.id}
    assert [line["seq"] for line in seen] == list(range(1, len(seen) + 1))
    follower.send_signal(2)
    assert follower.wait(20) == 130
    follower.stdout.close()


def _asleep(pid: int) -> None:
    """Wait until it waits for something to happen."""
    eventually(
        lambda: "poll" in Path(f"/proc/{pid}/wchan").read_text(), ignoring=(OSError,), why="asleep"
    )


@pytest.mark.parametrize(
    "cursor", ["", "x", "e1", "e1.x.", "e2..", "e1..short-1", "e1.." + "a" * 99]
)
def test_what_is_no_cursor_is_refused(holdfast, cursor):
    done = holdfast("events", "--json", f"--since={cursor}", expect=2)
    assert done.json["error"]["code"] == "invalid-option"


def test_damaged_events_are_told_and_the_rest_is_given(holdfast, runs):
    run = _end(runs, "true", name="x")
    _end(runs, "true", name="y")
    path = Path(run.directory.events_path)
    first, second, *_ = path.read_text().splitlines(keepends=True)
    path.write_text(first + second + "not JSON\n")
    done = holdfast("events", expect=0)
    assert [seq for one, seq in _positions(done.json_lines) if one == run.id] == [1, 2]
    assert "y" in {line["name"] for line in done.json_lines}
    assert f"the events of run {run.id} are damaged" in done.stderr


def test_no_home_no_events(holdfast, tmp_path):
    home = tmp_path / "none"
    assert holdfast("events", env={"HOLDFAST_HOME": str(home)}, expect=0).stdout == ""
    assert not home.exists()
    assert holdfast("events", "nobody").returncode == 3
