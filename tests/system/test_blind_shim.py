"""A shim that can't observe says so, looks by other means, and never ends a run for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.running import (
    ended,
    events_of,
    info_of,
    limit_descriptors,
    loaded_shim,
    wait_for,
    wait_for_events,
    wait_for_output,
)
from tests.system import blind_scenes
from tests.system.blind_scenes import IDLE_SECONDS, STEADY

NO_INOTIFY = 'echo 0 >/proc/sys/user/max_inotify_instances; exec "$0" "$@"'


def _without_inotify(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a user namespace that has no inotify instance."""
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_INOTIFY, *argv]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_without_inotify_output_is_looked_at(holdfast):
    needs("pid_namespace")
    options = ["--idle-timeout", IDLE_SECONDS, "--done-when", "fin+", "--drain", "0"]
    script = f"{STEADY}; yes | head -c 200000; echo finn; sleep 600"
    words = ["run", "-n", "a", *options, "--grace", "0", "--log-max", "64K", "sh", "-c", script]
    started = _without_inotify(holdfast.argv(*words))
    assert started.returncode == 0, started.stderr
    info = ended("a", timeout=60)
    assert (info.outcome, info.exit_code) == ("completed", None), info.evidence
    assert info.watching == {"degraded": ["inotify"]}
    assert [event["degraded"] for event in events_of("a", "watching")] == [["inotify"]]
    assert events_of("a", "output_trimmed"), "the log is bounded all the same"
    shown = holdfast("status", "a", expect=0).stdout
    assert "watching" in shown
    assert "without inotify" in shown
    assert holdfast("status", "--json", "a").json["watching"] == {"degraded": ["inotify"]}


def test_a_run_that_can_be_watched_says_nothing(holdfast):
    holdfast("run", "-n", "a", "--done-when", "x+", "--idle-timeout", "60", "true", expect=0)
    assert ended("a").watching is None
    assert events_of("a", "watching") == []
    assert "watching" not in holdfast("status", "a").stdout


def test_where_no_hole_can_be_punched_the_log_grows_and_is_watched_on(tmp_path: Path):
    needs("pid_namespace")
    seen = run_in(Place(), blind_scenes.without_holes, path=str(tmp_path), timeout=120)
    assert (seen["outcome"], seen["watching"]) == ("completed", {"degraded": ["log_max"]}), seen
    assert seen["degraded"] == [["log_max"]]


def test_where_proc_can_not_be_read_nobody_is_taken_for_idle(tmp_path: Path):
    needs("pid_namespace")
    seen = run_in(Place(), blind_scenes.without_proc, path=str(tmp_path), timeout=120)
    assert (seen["outcome"], seen["exit_code"]) == ("succeeded", 0), seen
    assert ["proc"] in seen["degraded"]


def test_on_a_full_disk_a_run_that_tries_to_write_is_not_silent(tmp_path: Path):
    needs("pid_namespace")
    seen = run_in(Place(), blind_scenes.without_room, path=str(tmp_path), timeout=120)
    assert (seen["outcome"], seen["exit_code"]) == ("succeeded", 0), seen


def test_on_a_full_disk_silence_is_not_judged(tmp_path: Path):
    needs("pid_namespace")
    seen = run_in(Place(), blind_scenes.silent_without_room, path=str(tmp_path), timeout=120)
    assert seen["told"] == ["disk"], "said while it lasts"
    assert (seen["outcome"], seen["watching"]) == ("stalled", None), "judged when there is room"


def test_without_descriptors_a_run_that_writes_goes_on(holdfast, tmp_path):
    wait = "until [ -e {} ]; do echo more; sleep 0.1; done"
    begin, end = tmp_path / "begin", tmp_path / "end"
    parts = [wait.format(begin), STEADY, "echo steady", wait.format(end), "echo finn"]
    options = ["--idle-timeout", IDLE_SECONDS, "--done-when", "fin+", "--drain", "0"]
    words = ["sh", "-c", "; ".join([*parts, "exec sleep 600"])]
    holdfast("run", "-n", "a", *options, "--grace", "0", *words, expect=0)
    wait_for_events("a", "workload_resolved", why="its shim has looked")
    loaded_shim("a")
    limit_descriptors("a", 3)
    begin.touch()
    wait_for_output("a", b"steady", timeout=60)
    assert info_of("a").state == "running", "it was not silent, whatever the shim could open"
    limit_descriptors("a", 256)
    end.touch()
    assert ended("a", timeout=60).outcome == "completed", "and is watched on"


def test_stderr_alone_is_output_too(holdfast):
    script = f"({STEADY}) >&2"
    words = ["--split-stderr", "--idle-timeout", IDLE_SECONDS, "--grace", "0"]
    holdfast("run", "-n", "a", *words, "sh", "-c", script, expect=0)
    wait_for("a", lambda info: info.last_output_at, why="stderr is seen")
    info = ended("a", timeout=60)
    assert (info.outcome, info.log_bytes) == ("succeeded", 0), info.evidence


@pytest.mark.parametrize("words", [[], ["--split-stderr"]], ids=["one log", "two logs"])
def test_silence_is_still_told(holdfast, words):
    options = ["--idle-timeout", "1", "--grace", "0", *words]
    holdfast("run", "-n", "a", *options, "sh", "-c", "echo x >&2; exec sleep 600", expect=0)
    assert ended("a", timeout=60).outcome == "stalled"
