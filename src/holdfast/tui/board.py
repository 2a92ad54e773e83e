"""The rows of the list: which, in what order, which are marked, and where the cursor is. Pure.

The cursor stays with its run while rows come, go and change places: what a key does is done to
the run that was looked at.
"""

from __future__ import annotations

import bisect

from holdfast.record import Record
from holdfast.tui.filtering import RowFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.manage.words.views import Row

    Key = tuple[Any, ...]

_MANY = 200  # changes at once: then all is sorted anew


class RowOrder(Record):
    """What the list is sorted by; None: what needs a person first."""

    column: str | None = None
    is_reversed: bool = False


class Board:
    """Rows by id, and the ids that are shown, in their order."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.ids: list[str] = []
        self.marked: set[str] = set()
        self.filter = RowFilter()
        self.order = RowOrder()
        self.place = 0  # of the cursor
        self.name_width = 4  # of the longest name so far
        self.node_width = 0  # of the longest name of a node; none: all runs are here
        self.has_tokens = False
        self.has_cost = False
        self._keys: dict[str, Key] = {}
        self._sorted: list[Key] = []

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.ids[self.place]] if self.ids else None

    def chosen(self) -> list[Row]:
        """The marked rows that are shown, else the one under the cursor."""
        marked = [self.rows[one] for one in self.ids if one in self.marked] if self.marked else []
        current = self.current
        return marked or ([] if current is None else [current])

    def take(self, changed: Iterable[Row], gone: Iterable[str]) -> None:
        """What the live model told."""
        fresh, kept = list(changed), self._current_id
        left = list(gone)
        for row in fresh:
            self.rows[row.id] = row
            self._notice(row)
        if len(fresh) + len(left) > _MANY:
            for run_id in left:
                self._forget(run_id)
            self._sort_all()
        else:
            for run_id in left:
                self._take_out(run_id)
                self._forget(run_id)
            for row in fresh:
                self._put(row)
        self._settle(kept)

    def set_filter(self, wanted: RowFilter) -> None:
        """Show those alone."""
        kept, self.filter = self._current_id, wanted
        self._sort_all()
        self._settle(kept)

    def set_order(self, order: RowOrder) -> None:
        """Sort by that."""
        kept, self.order = self._current_id, order
        self._sort_all()
        self._settle(kept)

    def move_to(self, place: int) -> None:
        """Put the cursor there, or as near as can be."""
        self.place = max(0, min(place, len(self.ids) - 1))

    def toggle_mark(self) -> None:
        """Mark the row under the cursor, or no longer."""
        if self.ids:
            self.marked ^= {self.ids[self.place]}

    def mark_all(self) -> None:
        """Mark every row that is shown."""
        self.marked.update(self.ids)

    def _notice(self, row: Row) -> None:
        self.name_width = max(self.name_width, len(row.name))
        self.node_width = max(self.node_width, len(row.node))
        self.has_tokens = self.has_tokens or row.tokens is not None
        self.has_cost = self.has_cost or row.cost_usd is not None

    def _forget(self, run_id: str) -> None:
        self.rows.pop(run_id, None)
        self.marked.discard(run_id)

    @property
    def _current_id(self) -> str | None:
        return self.ids[self.place] if self.ids else None

    def _settle(self, kept: str | None) -> None:
        """The cursor goes with its run; where that is gone, it stays in its place."""
        if kept is not None and kept in self._keys:
            self.place = bisect.bisect_left(self._sorted, self._keys[kept])
        else:
            self.move_to(self.place)

    def _sort_all(self) -> None:
        fits, key = self.filter.fits, self._key_maker()
        self._keys = {row.id: key(row) for row in self.rows.values() if fits(row)}
        self._sorted = sorted(self._keys.values())
        self.ids = [one[-1] for one in self._sorted]

    def _put(self, row: Row) -> None:
        if not self.filter.fits(row):
            self._take_out(row.id)
            return
        key = self._key_maker()(row)
        if self._keys.get(row.id) == key:
            return
        self._take_out(row.id)
        place = bisect.bisect_left(self._sorted, key)
        self._sorted.insert(place, key)
        self.ids.insert(place, row.id)
        self._keys[row.id] = key

    def _take_out(self, run_id: str) -> None:
        key = self._keys.pop(run_id, None)
        if key is not None:
            place = bisect.bisect_left(self._sorted, key)
            del self._sorted[place], self.ids[place]

    def _key_maker(self) -> Callable[[Row], Key]:
        value, reverse = ORDERS.get(self.order.column), self.order.is_reversed
        if value is None:
            return lambda row: (row.urgency.place, -(row.ended or row.created or 0.0), row.id)
        if value is _by_name:
            return lambda row: (
                _reversed_text(row.name.lower()) if reverse else row.name.lower(),
                row.id,
            )
        sign = -1 if reverse else 1

        def key(row: Row) -> Key:
            found = value(row)
            return (found is None, 0 if found is None else sign * found, row.id)

        return key


def _by_name(_row: Row) -> float | None:
    """Sorted as text: see `_key_maker`."""
    return None


def _reversed_text(text: str) -> tuple[int, ...]:
    return (*(-ord(letter) for letter in text), 1)


def _most(of: Callable[[Row], float | None]) -> Callable[[Row], float | None]:
    """The largest first."""

    def value(row: Row) -> float | None:
        found = of(row)
        return None if found is None else -found

    return value


# The first time that a column is asked for, what people look for in it comes first.
ORDERS: dict[str | None, Callable[[Row], float | None]] = {
    "NAME": _by_name,
    "STATE": lambda row: row.urgency.place,
    "AGE": _most(lambda row: row.created),
    "CPU": _most(lambda row: row.figures.cpu_percent),
    "MEM": _most(lambda row: row.figures.memory_bytes),
    "OUTPUT": _most(lambda row: row.output),
    "TOKENS": _most(lambda row: row.tokens),
    "COST": _most(lambda row: row.cost_usd),
}
LETTERS = {"n": "NAME", "s": "STATE", "a": "AGE", "c": "CPU", "m": "MEM", "u": "OUTPUT",
           "t": "TOKENS", "d": "COST"}  # fmt: skip
