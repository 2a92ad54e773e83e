"""Looks at runs that a test started, through the library, and waits for what it needs of them."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import RunNotFound
from holdfast.manage.info import RunInfo
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.shim_client import reach
from holdfast.process.identity import ProcessIdentity
from holdfast.run.facts import State
from tests.support.cli import CommandLine
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from holdfast.manage.operations import Steps

T = TypeVar("T")


def run_of(name: str) -> Run:
    """A run of the test's own home."""
    return Runs().get(name)


def delete_below_its_shim(path: str | Path) -> None:
    """Delete a directory in which a live shim may make a file at any moment."""

    def is_gone() -> bool:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)
        return not os.path.lexists(path)

    eventually(is_gone, 30, f"{path} is deleted", ignoring=(OSError,))


def info_of(name: str) -> RunInfo:
    return run_of(name).info()


def wait_for(
    name: str, look: Callable[[RunInfo], T | None], timeout: float = 60, why: str = ""
) -> T:
    """The first truthy look at the run, there or not yet. Nothing is adopted by it."""
    return eventually(
        lambda: look(info_of(name)),
        timeout,
        why,
        ignoring=(RunNotFound,),
        watching=lambda: where_is(name),
    )


def wait_for_events(name: str, kind: str, count: int = 1, why: str = "") -> list[dict[str, Any]]:
    """The events of that kind, once there are so many."""

    def look() -> list[dict[str, Any]] | None:
        found = events_of(name, kind)
        return found if len(found) >= count else None

    told = why or f"{name} has recorded {kind}"
    return eventually(look, 60, told, ignoring=(RunNotFound,), watching=lambda: where_is(name))


def limit_descriptors(name: str, number: int) -> None:
    """How many descriptors the run's shim may have."""
    shim = shim_pid(name)
    hard = resource.prlimit(shim, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(shim, resource.RLIMIT_NOFILE, (number, hard))


def where_is(name: str) -> list[str]:
    """Where a change of the run shows, for `watching`."""
    try:
        return [run_of(name).directory.path]
    except RunNotFound:
        home = os.environ["HOLDFAST_HOME"]
        return [home, f"{home}/names", f"{home}/runs"]


def ended(name: str, timeout: float = 30) -> RunInfo:
    """The run, once it has ended: recorded, or proven by a look. Nothing is adopted by it."""
    return wait_for(
        name,
        lambda info: info if info.state is State.ENDED else None,
        timeout,
        f"{name} has ended",
    )


def settled(name: str, timeout: float = 30) -> RunInfo:
    """The run, once it has ended and its shim is gone: nothing is written or changes any more."""
    shim = ended(name, timeout).shim
    if shim is not None:
        assert ProcessIdentity.from_json(shim).wait(timeout), f"the shim of {name} is gone"
    return info_of(name)


def output_of(name: str) -> bytes:
    return run_of(name).output()


def wait_for_output(name: str, text: bytes, timeout: float = 30) -> bytes:
    """All output, once the text is in it."""

    def look() -> bytes | None:
        found = output_of(name)
        return found if text in found else None

    why = f"{name} has written {text!r}"
    return eventually(look, timeout, why, ignoring=(RunNotFound,), watching=lambda: where_is(name))


def events_of(name: str, kind: str | None = None) -> list[dict[str, Any]]:
    events = [event.to_json() for event in run_of(name).directory.read_events().events]
    return [event for event in events if kind in (None, event["kind"])]


def root_pid(name: str) -> int:
    """Of the process that was started, whatever it is to become."""
    pid: int = events_of(name, "attempt_started")[-1]["root"]["pid"]
    return pid


def workload_pid(name: str) -> int:
    workload = wait_for(name, lambda info: info.workload, why=f"the workload of {name} is known")
    pid: int = workload["pid"]
    return pid


def shim_pid(name: str) -> int:
    shim = info_of(name).shim
    assert shim is not None
    pid: int = shim["pid"]
    return pid


def loaded_shim(name: str) -> int:
    """The PID of a shim whose loop runs: all that it needs is loaded."""
    directory = run_of(name).directory

    def ping() -> Steps[object]:
        link = yield from reach(directory)
        assert link is not None
        with link:
            return (yield from link.ask({"do": "ping"}))

    assert run_steps(ping()) == {"ok": True}
    return shim_pid(name)


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
