"""Which of a queue's waiting runs may start now, and why the others may not. Pure.

A waiter starts only itself, and only when the plan that it makes under the baton names it. Readers
make the same plan to show positions and reasons. Nobody overtakes: a run that does not fit yet
holds up those behind it, so it starts in the end.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Reason(StrEnum):
    """Why a run may not start. The words are those of `waits_for.kind`."""

    SLOT = "slot"
    MEMORY = "memory"
    PAUSED = "paused"
    SHIM = "shim"  # its shim is gone: it can't start


class Waiter(Record):
    """A run that waits for its turn."""

    id: str
    order: str  # a listing in this order is the line
    needs_bytes: int = 0
    is_gone: bool = False  # it has no shim, or one that does not answer: others go past it


class QueuePlace(Record):
    """Where a run stands in the line. `reason` None: it may start now."""

    id: str
    position: int  # from 1
    reason: Reason | None
    behind: str | None = None  # of MEMORY: the run ahead that does not fit


def plan(
    waiting: Iterable[Waiter],
    *,
    limit: int,
    active: int,
    is_paused: bool = False,
    free_bytes: int | None = None,
    nothing_active: bool = False,
    left_out: Collection[str] = (),
) -> list[QueuePlace]:
    """The place of each waiter, in order.

    `active`: how many runs have a slot. `free_bytes`: memory for new ones; None: not looked at.
    `nothing_active`, in any queue: then one is admitted even if it does not fit. `left_out`: runs
    that did not start though they could.
    """
    slots, free, alone = limit - active, free_bytes, nothing_active
    places, behind = [], None
    for position, one in enumerate(sorted(waiting, key=lambda one: one.order), 1):
        reason: Reason | None = None
        if is_paused:
            reason = Reason.PAUSED
        elif one.is_gone or one.id in left_out:
            reason = Reason.SHIM
        elif slots <= 0:
            reason = Reason.SLOT
        elif behind is not None or _lacks_memory(one, free, alone):
            reason, slots = Reason.MEMORY, slots - 1
        else:
            slots, alone = slots - 1, False
            free = None if free is None else free - one.needs_bytes
        is_memory = reason is Reason.MEMORY
        places.append(QueuePlace(one.id, position, reason, behind if is_memory else None))
        if is_memory and behind is None:
            behind = one.id  # those after it wait with it
    return places


def _lacks_memory(one: Waiter, free: int | None, alone: bool) -> bool:
    return bool(one.needs_bytes) and free is not None and one.needs_bytes > free and not alone


def order_of(priority: int, submitted_ns: int) -> str:
    """What sorts by priority, the highest first, and then by submission."""
    return f"{MOST_PRIORITY - priority:04}.{submitted_ns:020}"


def priority_in(order: str) -> int:
    """What `order_of` was made from."""
    return MOST_PRIORITY - int(order.partition(".")[0])


def submitted_in(order: str) -> int:
    """The other part."""
    return int(order.partition(".")[2])


def is_order(text: str) -> bool:
    """Whether `order_of` can have made it."""
    priority, dot, submitted = text.partition(".")
    return bool(dot) and _is_number(priority) and _is_number(submitted)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


MOST_PRIORITY = 1000  # and as much below 0
