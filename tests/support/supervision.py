"""A supervisor above a tree, in a process of its own, and who is alive afterwards.

Who is alive is looked up in /proc directly, without the code under test.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import Delivery
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import Cleanup, TreeStop, stop_tree
from tests.support import tree_actors
from tests.support.cgroups import CGroup

Facts = dict[str, Any]
Checkpoint = Callable[[Any], None]


@contextlib.contextmanager
def started(
    actor: str, members: int, cgroup: str | None = None, *, own_session: bool = True
) -> Iterator[int]:
    """A root that plays the actor, all of whose members are in place. Gives its PID."""
    reader, writer = os.pipe()
    root = os.fork()
    if root == 0:
        os.close(reader)
        try:
            if own_session:  # as below a shim: the scheduler then shares by session, not by head
                os.setsid()
            if cgroup is not None:
                CGroup(Path(cgroup)).add_self()
            getattr(tree_actors, actor)(lambda: os.write(writer, b"."))
        finally:
            os._exit(0)
    os.close(writer)
    seen = 0
    while seen < members:
        if not select.select([reader], [], [], 20)[0]:
            raise AssertionError(f"only {seen} of {members} members came up")
        seen += len(os.read(reader, members - seen))
    try:
        yield root
    finally:
        os.close(reader)


def stopped(
    root: int,
    *,
    grace_seconds: float,
    is_reaper: bool = True,
    reaps: bool = False,
    identity: ProcessIdentity | None = None,
    **options: Any,
) -> Facts:
    """Stop the tree of that root from here; the root is a child of ours."""
    sent: list[tuple[str, str]] = []

    def record(delivery: Delivery, why: str) -> None:
        sent.append((signal.Signals(delivery.signal).name, str(delivery.fate)))
        assert why

    identity = identity or _identity_of(root)
    reaper = ProcessIdentity.current() if is_reaper else None
    began = time.monotonic()
    if reaps:
        cleanup = _stop_as_a_shim_does(identity, reaper, grace_seconds, record)
    else:
        cleanup = stop_tree(
            identity, grace_seconds=grace_seconds, reaper=reaper, record=record, **options
        )
    return {
        **cleanup.to_json(),
        "root": root,
        "seconds": time.monotonic() - began,
        "sent": sorted({f"{name} {fate}" for name, fate in sent}),
    }


def _stop_as_a_shim_does(
    root: ProcessIdentity,
    reaper: ProcessIdentity | None,
    grace_seconds: float,
    record: Callable[[Delivery, str], None],
) -> Cleanup:
    """Step by step, reaping in between: what has ended leaves the listing of children."""
    with Tree([root], reaper=reaper) as tree:
        stop = TreeStop(tree, [root], grace_seconds=grace_seconds, record=record)
        while stop.result is None:
            pause = stop.step()
            select.select([], [], [], min(pause, 0.02))
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        return stop.result


def _identity_of(root: int) -> ProcessIdentity:
    # The root may have ended by itself (a daemon's starter): it is a zombie of ours until reaped.
    try:
        return ProcessIdentity.of(root)
    except Exception:  # noqa: BLE001 - whichever way it says so
        return ProcessIdentity.current().replace(pid=root, start_ticks=1, pidfd_inode=1)


def in_child(
    body: Callable[[Checkpoint], Facts],
    at_checkpoint: Callable[[Any], contextlib.AbstractContextManager[object]] | None = None,
) -> Facts:
    """Run `body` in a forked child that leads its own descendants; its facts come back.

    `checkpoint(value)` in the child waits until this process has entered `at_checkpoint(value)`,
    which it leaves when the child has ended: whatever that starts is no descendant of the child.
    """
    reader, writer = os.pipe()
    go_reader, go_writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.close(go_writer)
        _lead(body, writer, go_reader)
    os.close(writer)
    os.close(go_reader)
    with contextlib.ExitStack() as meanwhile, os.fdopen(reader, "rb") as file:
        for line in file:
            message = json.loads(line)
            if "error" in message:
                raise AssertionError(message["error"])
            if "facts" in message:
                break
            if at_checkpoint is not None:
                meanwhile.enter_context(at_checkpoint(message["checkpoint"]))
            os.write(go_writer, b".")
        else:
            raise AssertionError(f"no facts; status {os.waitpid(child, 0)[1]}")
        os.close(go_writer)
        os.waitpid(child, 0)
    facts: Facts = message["facts"]
    return facts


def _lead(body: Callable[[Checkpoint], Facts], writer: int, go: int) -> NoReturn:
    def say(message: Facts) -> None:
        left = json.dumps(message).encode() + b"\n"
        while left:
            left = left[os.write(writer, left) :]

    def checkpoint(value: Any) -> None:
        say({"checkpoint": value})
        os.read(go, 1)

    try:
        say({"facts": body(checkpoint)})
    except BaseException:  # noqa: BLE001 - shown by the scene
        say({"error": traceback.format_exc()})
    os._exit(0)


def living() -> dict[int, str]:
    """Every process of this PID namespace that is not a zombie, by PID, with its name and state."""
    found = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit():
                stat = Path(f"/proc/{name}/stat").read_bytes().decode(errors="replace")
                comm, _, rest = stat.partition("(")[2].rpartition(")")
                if rest.split()[0] not in "ZX":
                    found[int(name)] = f"{comm} {rest.split()[0]}"
    return found


def all_go(before: dict[int, str]) -> bool:
    """Whether all that were not there before are gone in a while."""
    deadline = time.monotonic() + 10
    while left_over(before, looks=1):
        if time.monotonic() > deadline:
            return False
    return True


def left_over(before: dict[int, str], looks: int = 20) -> dict[int, str]:
    """Who was not there before. Many looks, since a comet is seldom there twice."""
    left = {}
    for _ in range(looks):
        left.update({pid: what for pid, what in living().items() if pid not in before})
        time.sleep(0.002)
    return left
