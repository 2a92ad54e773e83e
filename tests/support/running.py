"""Looks at runs that a test started, through the library, and waits for what it needs of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import RunNotFound
from holdfast.manage.info import RunInfo
from holdfast.manage.runs import Run, Runs
from holdfast.run.facts import State
from tests.support.cli import CommandLine
from tests.support.waiting import eventually


def run_of(name: str) -> Run:
    """A run of the test's own home."""
    return Runs().get(name)


def info_of(name: str) -> RunInfo:
    return run_of(name).info()


def ended(name: str, timeout: float = 30) -> RunInfo:
    """The run, once its ending is recorded. Looks only: nothing is adopted by it."""

    def look() -> RunInfo | None:
        info = info_of(name)
        return info if info.state is State.ENDED else None

    return eventually(look, timeout, f"{name} has ended")


def settled(name: str, timeout: float = 30) -> RunInfo:
    """The run, once it has ended and its shim is gone: nothing is written or changes any more."""
    ended(name, timeout)

    def look() -> RunInfo | None:
        info = info_of(name)
        return info if info.shim is None or info.shim["verdict"] != "SAME" else None

    return eventually(look, timeout, f"the shim of {name} is gone")


def output_of(name: str) -> bytes:
    return run_of(name).output()


def wait_for_output(name: str, text: bytes, timeout: float = 30) -> bytes:
    """All output, once the text is in it."""

    def look() -> bytes | None:
        found = output_of(name)
        return found if text in found else None

    why = f"{name} has written {text!r}"
    return eventually(look, timeout, why, ignoring=(RunNotFound,))


def events_of(name: str, kind: str | None = None) -> list[dict[str, Any]]:
    events = [event.to_json() for event in run_of(name).directory.read_events().events]
    return [event for event in events if kind in (None, event["kind"])]


def root_pid(name: str) -> int:
    """Of the process that was started, whatever it is to become."""
    pid: int = events_of(name, "attempt_started")[-1]["root"]["pid"]
    return pid


def workload_pid(name: str) -> int:
    workload = eventually(lambda: info_of(name).workload, why=f"the workload of {name} is known")
    pid: int = workload["pid"]
    return pid


def shim_pid(name: str) -> int:
    shim = info_of(name).shim
    assert shim is not None
    pid: int = shim["pid"]
    return pid


def is_alive(pid: int) -> bool:
    """Whether a process of that number runs: in a test nobody recycles it meanwhile."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@contextlib.contextmanager
def in_foreground(
    holdfast: CommandLine, *words: object, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """`run -F` under way, its stdout and stderr piped to us."""
    with subprocess.Popen(
        holdfast.argv("run", "-F", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        **options,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def start_all(
    holdfast: CommandLine, commands: Sequence[Sequence[object]]
) -> list[subprocess.Popen[str]]:
    """All of these at once; each has ended when this returns, and its output can be read."""
    started = [
        subprocess.Popen(
            holdfast.argv(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for words in commands
    ]
    for process in started:
        process.said, process.complained = process.communicate(timeout=110)  # type: ignore[attr-defined]
    return started


def stop(holdfast: CommandLine, *names: str) -> None:
    """Stop runs that a test no longer needs."""
    holdfast("stop", "--grace", "0", *names, expect=0)


def environment_of(name: str) -> dict[str, str]:
    """The environment that a workload shows the kernel; in the middle of its exec that is empty."""
    path = Path(f"/proc/{workload_pid(name)}/environ")
    data = eventually(path.read_bytes, why="its exec is over")
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}


@contextlib.contextmanager
def kill_later(name: str) -> Iterator[None]:
    """What a run has started is killed at the end, for a test that takes its record away."""
    pids = (shim_pid(name), workload_pid(name))
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
