"""Q4: shims watch one another; a run whose shim is killed is adopted with no command given."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

from holdfast.manage.info import RunInfo
from holdfast.manage.runs import Runs
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.run.facts import State
from holdfast.run.names import id_seconds
from tests.support.neighbours import wait_until_watched, watched_by
from tests.support.recovering import gated, kill_shim, known, over
from tests.support.running import (
    events_of,
    is_alive,
    run_of,
    shim_pid,
    stop,
    wait_for,
    wait_for_events,
    workload_pid,
)
from tests.support.waiting import eventually, wait_until_reaped


def adopted(name: str, before: Any) -> Any:
    """The run, once another shim than that one is recorded; its lock is taken before that."""

    def look(info: RunInfo) -> RunInfo | None:
        is_new = info.shim is not None and info.shim["token"] != before["token"]
        return info if info.state is State.RUNNING and is_new else None

    return wait_for(name, look, why=f"{name} is adopted")


def start(holdfast, tmp_path, name, then="exit 0"):
    holdfast("run", "-n", name, *gated(tmp_path / f"gate-{name}", then), expect=0)


def wait_for_a_later_second() -> None:
    """Until a new run is the newest one: ids are in order from one second to the next."""
    newest = max(map(id_seconds, Runs().home.run_ids()))
    eventually(lambda: time.time() >= newest + 1)


def start_newest(holdfast, tmp_path, name):
    """Start a run that is the newest one by its id."""
    if Runs().home.run_ids():
        wait_for_a_later_second()
    start(holdfast, tmp_path, name)
    return name


def parent_of(pid: int) -> int | None:
    stat = procfs.stat_or_none(pid)
    return None if stat is None else stat.ppid


def inner_words(tmp_path):
    return ("run", "-n", "inner", *gated(tmp_path / "gate-inner", "exit 0"))


def test_Q4_a_killed_shim_s_run_is_adopted_with_no_command_and_its_code_is_recorded(
    holdfast, tmp_path
):
    for name, then in (("a", "exit 7"), ("b", "exit 8")):
        start(holdfast, tmp_path, name, then)
    for name in ("a", "b", "a"):
        wait_until_watched("a", "b")
        assert adopted(name, kill_shim(name)).attempt == 1
    assert [event["how"] for event in events_of("a", "supervised")] == [
        "launched",
        "adopted",
        "adopted",
    ]
    for name, code in (("a", 7), ("b", 8)):
        (tmp_path / f"gate-{name}").touch()
        assert over(name).exit_code == code


def test_Q4_stopping_the_neighbour_leaves_a_rescued_run_alone(holdfast, tmp_path):
    for name in ("a", "b"):
        start(holdfast, tmp_path, name, "exit 5")
    wait_until_watched("a", "b")
    adopted("a", kill_shim("a"))
    shim, workload = shim_pid("a"), workload_pid("a")
    stop(holdfast, "b")
    assert known("b").cleanup["survivors"] == []
    assert is_alive(shim), "the adopter is below the shim of b, and is not b's"
    assert is_alive(workload)
    struck = {row["to"].split(".")[1] for row in run_of("b").directory.read_signals()}
    assert not struck & {str(shim), str(workload)}
    (tmp_path / "gate-a").touch()
    assert over("a").exit_code == 5


def test_Q4_a_rescued_run_that_starts_again_below_its_rescuer_is_not_the_rescuer_s(
    holdfast, tmp_path
):
    script = f"[ -e {tmp_path}/again ] && exec sleep 1000; touch {tmp_path}/again; exec sleep 1001"
    holdfast("run", "-n", "a", "--restart", "on-failure", "sh", "-c", script, expect=0)
    start(holdfast, tmp_path, "b")
    wait_until_watched("a", "b")
    adopted("a", kill_shim("a"))
    os.kill(workload_pid("a"), signal.SIGKILL)
    wait_for_events("a", "running", 2)
    again = workload_pid("a")
    wait_for("b", lambda info: info.workload)
    stop(holdfast, "b")
    assert is_alive(again)
    assert again not in {
        ProcessIdentity.parse(member["token"]).pid
        for event in events_of("b", "members_seen")
        for member in event["members"]
    }
    stop(holdfast, "a")


def test_Q4_a_ring_of_50_of_which_25_are_killed_at_once_heals(holdfast, tmp_path):
    gate = tmp_path / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.5; done; exit 3"
    names = [f"r{number:02}" for number in range(50)]
    for name in names:
        holdfast("run", "-n", name, "--sample-interval", "0", "sh", "-c", script, expect=0)
    wait_until_watched(*names)
    # Every other one, and a row of neighbours.
    victims = names[:30:2] + names[30:40]
    before = {name: known(name).shim for name in names}
    for name in victims:
        os.kill(before[name]["pid"], signal.SIGKILL)
    for name in victims:
        wait_until_reaped(before[name]["pid"])
    for name in victims:
        adopted(name, before[name])
    wait_until_watched(*names)
    gate.touch()
    assert {over(name).exit_code for name in names} == {3}
    for name in set(names) - set(victims):
        assert len(events_of(name, "supervised")) == 1


def test_Q4_a_shim_watches_nobody_but_its_neighbour_and_lets_go_of_one_that_ends(
    holdfast, tmp_path
):
    holdfast("run", "-n", "a", "sleep", "1000", expect=0)
    start(holdfast, tmp_path, "b")
    wait_until_watched("a", "b")
    other = shim_pid("b")
    (tmp_path / "gate-b").touch()
    over("b")
    eventually(lambda: other not in watched_by(shim_pid("a")), why="b is let go of")
    assert not Path(run_of("a").directory.rescued_path).exists()
    stop(holdfast, "a")


def test_Q4_a_run_whose_ending_its_shim_could_not_record_is_recorded(holdfast, tmp_path):
    start(holdfast, tmp_path, "a")
    start(holdfast, tmp_path, "b")
    wait_until_watched("a", "b")
    # Both are gone at once: its end was not seen.
    workload = workload_pid("a")
    os.kill(shim_pid("a"), signal.SIGSTOP)
    os.kill(workload, signal.SIGKILL)
    kill_shim("a")
    wait_for_events("a", "ended", why="the neighbour has it recorded")
    assert known("a").state is State.ENDED
    stop(holdfast, "b")


def test_Q4_a_rescued_run_is_left_alone_by_whoever_is_above_its_rescuer(holdfast, tmp_path):
    # Three in a ring, b above a above c: b has a adopted, and a has c adopted.
    names = [start_newest(holdfast, tmp_path, name) for name in ("c", "a", "b")]
    wait_until_watched(*names)
    adopted("a", kill_shim("a"))
    wait_until_watched(*names)
    adopted("c", kill_shim("c"))
    shim = shim_pid("c")
    (tmp_path / "gate-a").touch()
    over("a")
    eventually(lambda: parent_of(shim) == shim_pid("b"), why="the shim of c is below that of b now")
    stop(holdfast, "b")
    assert is_alive(shim)
    assert known("b").cleanup["survivors"] == []
    (tmp_path / "gate-c").touch()
    assert over("c").exit_code == 0


def test_Q4_a_run_that_is_rescued_inside_another_is_left_alone_by_the_outer_one(holdfast, tmp_path):
    inner = " ".join(map(shlex.quote, map(str, holdfast.argv(*inner_words(tmp_path)))))
    os.mkfifo(tmp_path / "go")
    script = f"read go < {tmp_path}/go; {inner}; sleep 1000"
    holdfast("run", "-n", "outer", "sh", "-c", script, expect=0)
    start_newest(holdfast, tmp_path, "c")
    wait_for_a_later_second()
    (tmp_path / "go").write_text("\n")
    wait_for("inner", lambda info: info.state is State.RUNNING)
    wait_until_watched("outer", "c", "inner")
    adopted("c", kill_shim("c"))
    shim = shim_pid("c")
    (tmp_path / "gate-inner").touch()
    over("inner")
    eventually(lambda: parent_of(shim) == shim_pid("outer"), why="it is below the outer shim now")
    stop(holdfast, "outer")
    assert is_alive(shim)
    (tmp_path / "gate-c").touch()
    assert over("c").exit_code == 0
