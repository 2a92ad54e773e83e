"""Circles: runs that have slots and wait, through runs inside them, for one another's slots.

A run inside another that waits in a queue of the outer one is refused at its submission. Across
queues nobody sees it coming: `queue` names the runs, and breaks nothing.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.manage.queueing.submission import queues_behind
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.manage.queueing.view import QueueInfo
    from holdfast.run.home import Home

    Json = dict[str, Any]
    # By queue: for each run that has a slot of it, the queues in which a run inside it waits.
    Holders = Mapping[str, Sequence[set[str]]]


def stuck_queues(holders: Holders) -> set[str]:
    """The queues of which every slot is held by a run that waits for a slot of such a queue."""
    stuck = set(holders)
    while True:
        free = {q for q in stuck if not all(wanted & stuck for wanted in holders[q])}
        if not free:
            return stuck
        stuck -= free


def with_circles(home: Home, queues: Sequence[QueueInfo]) -> list[QueueInfo]:
    """The queues; each in a circle names the runs that hold it up, and what those wait in."""
    full = {
        one.name.lower(): one
        for one in queues
        if one.waiting and one.limit is not None and len(one.active) >= one.limit
    }
    rows = {name: [_row(home, name, run) for run in one.active] for name, one in full.items()}
    stuck = stuck_queues({name: [row["waits_in"] for row in rows[name]] for name in rows})
    circle = [
        {**row, "waits_in": sorted(row["waits_in"] & stuck)}
        for name in sorted(stuck)
        for row in rows[name]
    ]
    return [
        one.replace(circle=tuple(circle)) if one.name.lower() in stuck else one for one in queues
    ]


def _row(home: Home, queue: str, run: Json) -> Json:
    wanted = _waits_inside(RunDirectory(home, run["id"]))
    return {"id": run["id"], "name": run["name"], "queue": queue, "waits_in": wanted}


def _waits_inside(outer: RunDirectory) -> set[str]:
    """The queues in which runs inside it wait, however deep."""
    found: set[str] = set()
    todo, seen = outer.inner_runs(), {outer.id}
    while todo:
        inner = todo.pop()
        if inner.id in seen or inner.home.path != outer.home.path:
            continue
        seen.add(inner.id)
        found |= {name.lower() for _, name in queues_behind(inner.home, [inner.id])}
        try:
            if not inner.read_spec().wanted.independent:
                todo += inner.inner_runs()
        except (HoldfastError, OSError):  # what is inside it is not known
            continue
    return found
