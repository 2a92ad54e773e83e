"""A process of an inner PID namespace, and a stranger that has its number outside."""

from __future__ import annotations

import os
import signal
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.process.held import hold_here
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import stop_tree
from tests.support import recycling
from tests.support.kernel_lab import Place, announce, start_in

Facts = dict[str, Any]


NUMBER = 300


def announce_a_parent() -> None:
    """A process with a child, announced by their tokens; both wait to be ended."""
    parent = recycling.spawn(NUMBER, action=_with_a_child)
    tokens = {"parent": _token(parent.pid), "child": _token(_await_child(parent.pid))}
    announce(tokens)
    signal.pause()


def _token(pid: int) -> str:
    return ProcessIdentity.of(pid).token


def walk_into_another_namespace() -> Facts:
    """Walk down from, and stop, a process whose number is that of a stranger here."""
    with start_in(Place(), announce_a_parent) as scene:
        tokens = scene.announced()
        inner = ProcessIdentity.parse(tokens["parent"])
        stranger = recycling.spawn(inner.pid, action=_with_a_child)
        below = _await_child(stranger.pid)
        with Tree([inner]) as tree:
            walked = {member.identity.pid for member in tree.walk()}
        with hold_here(inner) as held:
            facts: Facts = {
                "number differs": held.identity.pid != inner.pid,
                "same inode": held.identity.pidfd_inode == inner.pidfd_inode,
            }
        # Held before the stop: once reaped, no look from here can tell it from a hidden process.
        held_child = hold_here(ProcessIdentity.parse(tokens["child"]))
        facts["met the stranger"] = bool(walked & {stranger.pid, below})
        facts["met its own child"] = len(walked) == 2
        stop_tree(inner, grace_seconds=0)
        facts["inner"] = str(inner.verdict())
        with held_child:
            facts["inner child ended"] = held_child.has_exited()
        facts["stranger untouched"] = stranger.untouched()
        facts["its child lives"] = recycling.await_state(below, "S") == "S"
        os.kill(below, signal.SIGKILL)
        stranger.end()
        return facts


def _with_a_child() -> None:
    if os.fork() == 0:
        signal.pause()
        os._exit(0)


def _await_child(pid: int) -> int:
    while True:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            found = file.read().split()
        if found:
            return int(found[0])


def hold_of_another(token: str) -> str:
    """What holding an identity from here comes to."""
    try:
        with hold_here(ProcessIdentity.parse(token)):
            return "held"
    except HoldfastError as error:
        return error.code
