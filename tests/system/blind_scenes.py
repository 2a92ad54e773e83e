"""Runs whose shim loses a sense: no inotify, no holes, no /proc, no room, no descriptors.

Each is played in a mount namespace, and gives back what became of the run.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.support.disk_scenes import fill
from tests.support.recovery_scenes import holdfast
from tests.support.running import ended, events_of, run_of, wait_for_events
from tests.support.waiting import eventually

Facts = dict[str, Any]

IDLE_SECONDS = "4"
STEADY = "for i in $(seq 46); do echo $i; sleep 0.1; done"
"""Writes for longer than it may be silent."""


def _mounted(path: str, kind: str, options: str) -> Path:
    home = Path(path) / kind
    home.mkdir()
    subprocess.run(["mount", "-t", kind, "-o", options, "none", str(home)], check=True)
    os.environ["HOLDFAST_HOME"] = str(home)
    return home


def _become_of(name: str, timeout: float = 60) -> Facts:
    info = ended(name, timeout)
    degraded = [event["degraded"] for event in events_of(name, "watching")]
    return {
        "outcome": info.outcome,
        "exit_code": info.exit_code,
        "watching": info.watching,
        "degraded": degraded,
        "faults": [event["where"] for event in events_of(name, "fault")],
    }


def without_holes(path: str) -> Facts:
    """A file system on which nothing can be given back, with a bound for the log."""
    _mounted(path, "ramfs", "mode=0700")
    words = ["--idle-timeout", IDLE_SECONDS, "--log-max", "4K", "--done-when", "fin+", "--drain"]
    script = "yes | head -c 20000; " + STEADY + "; echo finn; sleep 600"
    holdfast("run", "-n", "a", *words, "0", "--grace", "0", "sh", "-c", script)
    return _become_of("a")


def without_proc(path: str) -> Facts:
    """/proc is covered by something else for a while."""
    _mounted(path, "tmpfs", "size=16m,mode=0700")
    words = ["--idle-timeout", IDLE_SECONDS, "--sample-interval", "0.2"]
    holdfast("run", "-n", "a", *words, "sh", "-c", STEADY)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
    wait_for_events("a", "ended", why="it has ended")
    subprocess.run(["umount", "/proc"], check=True)
    return _become_of("a")


def without_room(path: str) -> Facts:
    """The disk is full: what the workload writes is nowhere to be seen."""
    home = _mounted(path, "tmpfs", "size=2m,mode=0700")
    gate = Path(path) / "gate"
    write = "head -c 5000 /dev/zero | tr '\\0' x"
    script = f"until [ -e {gate} ]; do {write}; sleep 0.05; done 2>/dev/null; exit 0"
    holdfast("run", "-n", "a", "--idle-timeout", "1", "--grace", "0", "sh", "-c", script)
    fill(str(home / "fill"))
    _await_quiet(run_of("a").directory.output_path, seconds=6)  # more than any extension
    os.unlink(home / "fill")
    gate.touch()
    return _become_of("a")


def silent_without_room(path: str) -> Facts:
    """A run that is silent on a full disk, where it could not be heard; then there is room."""
    home = _mounted(path, "tmpfs", "size=2m,mode=0700")
    holdfast("run", "-n", "a", "--idle-timeout", "0.5", "--grace", "0", "sleep", "600")
    fill(str(home / "fill"))
    told = eventually(lambda: events_of("a", "watching") or events_of("a", "ended"), 60)
    os.unlink(home / "fill")
    return {**_become_of("a"), "told": told[0].get("degraded")}


def _await_quiet(path: str, seconds: float) -> None:
    """Until the file has not grown for so long, or its run has ended."""
    size, since = -1, time.monotonic()

    def is_quiet() -> bool:
        nonlocal size, since
        if os.stat(path).st_size != size:
            size, since = os.stat(path).st_size, time.monotonic()
        return time.monotonic() - since > seconds or bool(events_of("a", "ended"))

    eventually(is_quiet, 60, f"nothing was written for {seconds} s")
