"""Stops, on request, what outlived a run that has ended: survivors, and what it was to keep.

Under the run's lock and through the gate: only a recorded process that is still the same one.
"""

from __future__ import annotations

from holdfast.process.tree import Tree
from holdfast.process.tree_stop import Cleanup
from holdfast.process.verdict import Verdict
from holdfast.run.events import Kind
from holdfast.run.inner_runs import InnerRuns
from holdfast.shim.takeover import stop_as_asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.signals import Delivery
    from holdfast.run.directory import RunDirectory
    from holdfast.shim.journal import Journal


def strike_survivors(directory: RunDirectory, journal: Journal, stop: dict[str, Any]) -> None:
    """Try again, and append the result; a process that can't be seen from here is still named."""
    before = Cleanup.from_json(journal.facts.cleanup or {})
    word = "survivor" if before.survivors else "leftover"

    def record(delivery: Delivery, why: str) -> None:
        journal.record_delivery(delivery, f"{word}: {why}", stop.get("by"))

    unclear = [one for one in before.survivors if one.identity.verdict() is Verdict.UNKNOWN]
    with Tree(journal.facts.named_processes(), spare=InnerRuns(directory).owns) as tree:
        tree.let_go_of_spared()
        if not before.survivors and not tree.held():
            return
        now = stop_as_asked(tree, [held.identity for held in tree.held()], stop, record)
    cleanup = now.added_to(before)
    if unclear:
        cleanup = cleanup.replace(survivors=(*now.survivors, *unclear), complete=False)
    journal.record(Kind.CLEANED, sync=True, **cleanup.to_json())
