"""Strikes, on request, whoever outlived a run that has ended: survivors, and what it was to keep.

Under the run's lock and through the gate: only a recorded process that is still the same one.
"""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import Tree
from holdfast.process.signals import parse_signal
from holdfast.process.tree import Cleanup, TreeStop, drive
from holdfast.process.verdict import Verdict
from holdfast.run.events import Kind
from holdfast.shim.inner import InnerRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.signals import Delivery
    from holdfast.run.directory import RunDirectory
    from holdfast.shim.journal import Journal


def strike_survivors(directory: RunDirectory, journal: Journal, stop: dict[str, Any]) -> None:
    """Try again, and append what came of it; whoever can't be told from here is still named."""
    before = Cleanup.from_json(journal.facts.cleanup or {})
    word = "survivor" if before.survivors else "leftover"

    def record(delivery: Delivery, why: str) -> None:
        journal.record_delivery(delivery, f"{word}: {why}", stop.get("by"))

    unclear = [one for one in before.survivors if one.identity.verdict() is Verdict.UNKNOWN]
    named = [one.identity for one in before.survivors]
    named += map(ProcessIdentity.parse, journal.facts.members)
    with Tree(named, spare=InnerRuns(directory).owns) as tree:
        tree.let_go_of_spared()
        if not before.survivors and not tree.held():
            return
        machine = TreeStop(
            tree,
            [held.identity for held in tree.held()],
            polite=parse_signal(stop.get("signal") or "SIGTERM"),
            grace_seconds=float(stop.get("grace_seconds") or 0),
            record=record,
        )
        now = drive(machine, tree)
    cleanup = now.added_to(before)
    if unclear:
        cleanup = cleanup.replace(survivors=(*now.survivors, *unclear), complete=False)
    journal.record(Kind.CLEANED, sync=True, **cleanup.to_json())
