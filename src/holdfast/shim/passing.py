"""Passes a signal on as if the command had been started without Holdfast.

`kill` reaches the process that was started, the root; a terminal's ctrl-c reaches its whole
process group. Everybody is struck one by one, through the gate.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process import procfs
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
    held = supervisor.root if supervisor.root_exit is None else supervisor.workload
    if held is None:
        return
    yield held.identity
    if not to_group:
        return
    # The root leads a session and a group of its own: its number is the group's.
    for member in supervisor.tree.walk():
        try:
            group = procfs.read_stat(member.identity.pid).pgrp
        except HoldfastError:
            continue
        if group == held.identity.pid and member.identity != held.identity:
            yield member.identity
