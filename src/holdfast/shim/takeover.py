"""Stops a run whose shim is stopped or hangs, while that shim is still the subreaper.

The shim is proven first and ended last: until then no orphan of the tree can slip away to PID 1.
Every strike goes through the gate, and is in the run's history of signals.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.lean import signal
from holdfast.process import pidfd
from holdfast.process.held import hold_here
from holdfast.process.identity import HeldProcess
from holdfast.process.signals import parse_signal, signal_held
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import Cleanup, TreeStop, drive
from holdfast.record import Record
from holdfast.run.crashpoints import crash_point
from holdfast.run.inner_runs import InnerRuns
from holdfast.run.lifecycle import fold
from holdfast.run.signal_log import signal_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.signals import Delivery
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts

_SHIM_SECONDS = 10.0


class Takeover(Record):
    """What ending a hung shim and its tree came to; processes stay held for their exit status."""

    cleanup: Cleanup
    held: dict[str, HeldProcess]
    struck: tuple[str, ...]  # tokens; they are recorded once the lock is ours


def end_hung_shim(directory: RunDirectory, stop: dict[str, Any]) -> Takeover | None:
    """Empty the tree below the shim, then end the shim. None: it is not the recorded one."""
    facts = fold(directory.read_events().events)
    if facts.shim is None or facts.has_ended:
        return None
    try:
        shim = hold_here(facts.shim)
    except HoldfastError:  # gone: a plain adoption; unproven: the lock decides
        return None

    struck: dict[str, None] = {}

    def record(delivery: Delivery, why: str) -> None:
        if delivery.identity != shim.identity:
            struck[delivery.identity.token] = None
        try:
            directory.append_signal(signal_row(delivery, f"hung shim: {why}", stop.get("by")))
        except OSError:  # a full disk must not leave the tree half stopped
            pass

    with shim:
        held = _hold_recorded(facts)
        spare = InnerRuns(directory).owns
        with Tree(
            [one.identity for one in held.values()], reaper=shim.identity, spare=spare
        ) as tree:
            cleanup = stop_as_asked(tree, [one.identity for one in held.values()], stop, record)
        crash_point("adopter.tree-emptied")
        record(signal_held(shim, signal.SIGKILL), "it did not answer; its tree is stopped")
        pidfd.wait_exited(shim.fd, _SHIM_SECONDS)
        crash_point("adopter.shim-ended")
    return Takeover(cleanup, held, tuple(struck))


def stop_as_asked(
    tree: Tree,
    asked: list[ProcessIdentity],
    stop: dict[str, Any],
    record: Callable[[Delivery, str], None],
) -> Cleanup:
    """Stop a tree with the signal and the grace of a request."""
    machine = TreeStop(
        tree,
        asked,
        polite=parse_signal(stop.get("signal") or "SIGTERM"),
        grace_seconds=float(stop.get("grace_seconds") or 0),
        record=record,
    )
    return drive(machine, tree)


def _hold_recorded(facts: RunFacts) -> dict[str, HeldProcess]:
    held: dict[str, HeldProcess] = {}
    for identity in (facts.attempt.root, facts.attempt.workload_identity):
        if identity is not None and identity.token not in held:
            try:
                held[identity.token] = hold_here(identity)
            except HoldfastError:  # gone, or not proven: never signalled
                continue
    return held
