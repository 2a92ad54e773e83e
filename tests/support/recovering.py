"""Takes shims away from runs, and looks at what is left. Used by tests and fault campaigns."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.process.identity import ProcessIdentity
from holdfast.run.facts import State
from tests.support.cli import CommandLine
from tests.support.running import ended, info_of, run_of, wait_for_events
from tests.support.waiting import eventually, open_for_reader, wait_until_reaped

OTHER_BOOT = "11111111-2222-4333-8444-555555555555\n"


def known(name: str) -> Any:
    """What is known of a run; a test says itself which fields can't be None."""
    return info_of(name)


def over(name: str) -> Any:
    """The same, once it has ended."""
    return ended(name)


def kill(identity: Any) -> None:
    """SIGKILL to one recorded process, and wait until it has ended."""
    with ProcessIdentity.from_json(identity).hold() as held:
        signal.pidfd_send_signal(held.fd, signal.SIGKILL)
        assert select.select([held.fd], [], [], 20)[0], f"{identity['pid']} does not end"


def kill_shim(name: str) -> dict[str, Any]:
    """Kill the shim alone; its identity."""
    shim = info_of(name).shim
    assert shim is not None
    kill(shim)
    return shim


def kill_shims(*names: str) -> None:
    """Kill them all with none left to rescue another: each stands still before the first dies."""
    shims = [info_of(name).shim for name in names]
    with contextlib.ExitStack() as stack:
        for shim in shims:
            assert shim is not None
            held = stack.enter_context(ProcessIdentity.from_json(shim).hold())
            signal.pidfd_send_signal(held.fd, signal.SIGSTOP)
        for shim in shims:
            kill(shim)


def shim_is_dead(name: str, timeout: float = 60) -> None:
    """Until nobody holds the run's lock: its shim has ended, or let go."""
    directory = run_of(name).directory
    eventually(
        lambda: not directory.lock_is_held(),
        timeout,
        f"the lock is free of {name}",
        watching=lambda: [directory.path],
    )


def orphan(holdfast: CommandLine, name: str, *words: object) -> Any:
    """A run whose shim is gone and whose workload lives; as it was while supervised."""
    (supervised,) = orphans(holdfast, name, words=words)
    return supervised


def orphans(holdfast: CommandLine, *names: str, words: Sequence[object]) -> list[Any]:
    """Several, of which none was rescued by the shim of another."""
    for name in names:
        holdfast("run", "-n", name, *words, expect=0)
        wait_for_events(name, "members_seen", why="the shim has looked around")
    supervised = [info_of(name) for name in names]
    kill_shims(*names)
    for name in names:
        assert info_of(name).state is State.ORPHANED, info_of(name).evidence
    return supervised


def recovered(holdfast: CommandLine, *words: object) -> dict[str, dict[str, Any]]:
    """What `recover` told, by name."""
    told = holdfast("recover", *words, "--json", expect=0).json
    return {one["name"] or one["id"]: one for one in told["runs"]}


def wait_gone(process: Any) -> None:
    """Until a recorded process has ended, and has been reaped."""
    wait_until_reaped(process["pid"])


def gated(gate: Path, then: str) -> list[str]:
    """A command that writes until the gate's file appears, and then does what is asked."""
    return ["sh", "-c", f"while [ ! -e '{gate}' ]; do echo tick; sleep 0.02; done; {then}"]


def log_bytes(name: str) -> int:
    return os.path.getsize(run_of(name).directory.output_path)


@contextlib.contextmanager
def nobody_rescues(fifo: Path) -> Iterator[None]:
    """Inside this block no shim that comes up rescues another run: it stands still before it."""
    os.mkfifo(fifo)
    held = {"HOLDFAST_HOLD_AT": "shim.rescue-found", "HOLDFAST_HOLD_FIFO": str(fifo)}
    os.environ.update(held)
    try:
        yield
    finally:
        for name in held:
            del os.environ[name]
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))


@contextlib.contextmanager
def held_at(
    holdfast: CommandLine, fifo: Path, point: str, *words: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A command of ours, or the shim that it starts, stands still at a point inside this block."""
    os.mkfifo(fifo)
    env = {**os.environ, "HOLDFAST_HOLD_AT": point, "HOLDFAST_HOLD_FIFO": str(fifo)}
    process = subprocess.Popen(
        holdfast.argv(*words), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    gate = open_for_reader(fifo)  # when it has arrived
    try:
        yield process
    finally:
        os.close(gate)
        process.communicate(timeout=60)
