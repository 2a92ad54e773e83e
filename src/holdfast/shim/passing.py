"""Passes a signal on as if the command had been started without Holdfast.

`kill` reaches the process that was started, the root; a terminal's ctrl-c reaches its whole
process group. Each process is signalled by itself, through the gate.
"""

from __future__ import annotations

from holdfast.process.signals import Fate, send_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.process.identity import ProcessIdentity
    from holdfast.shim.supervisor import Supervisor


def pass_on(supervisor: Supervisor, sig: int, by: Any, *, to_group: bool) -> str:
    """Signal the root, or the workload that outlives it; what became of the first signal."""
    fates: list[Fate] = []
    for identity in _addressees(supervisor, to_group):
        delivery = send_signal(identity, sig)
        supervisor.journal.record_delivery(delivery, "passed on", by)
        fates.append(delivery.fate)
    return (fates[0] if fates else Fate.GONE).value


def _addressees(supervisor: Supervisor, to_group: bool) -> Iterator[ProcessIdentity]:
    attempt = supervisor.attempt
    held = attempt.root if attempt.end.root_exit is None else attempt.workload
    if held is None:
        return
    yield held.identity
    if not to_group:
        return
    # The root leads a session and a group of its own: its number is the group's.
    for member in supervisor.tree.walk():
        is_in_group = member.stat is not None and member.stat.pgrp == held.identity.pid
        if is_in_group and member.identity != held.identity:
            yield member.identity
