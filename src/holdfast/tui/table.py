"""The lines of the list: which columns fit, and what stands in them. Pure.

Colours carry meaning and are never the only carrier: a sign stands before each row, the words say
the same, and the row under the cursor is reversed.
"""

from __future__ import annotations

from holdfast.manage.plaintext import cut, printable, width
from holdfast.manage.words.urgency import Urgency
from holdfast.manage.words.views import NUMBERS
from holdfast.record import Record
from holdfast.tui.board import LETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.words.views import Row
    from holdfast.tui.board import Board, RowOrder
    from holdfast.tui.trends import Trends

    Spans = tuple[tuple[str, str], ...]  # texts, and how each looks

SIGNS = {
    Urgency.ATTENTION: "!",
    Urgency.ORPHANED: "x",
    Urgency.UNKNOWN: "?",
    Urgency.ANOMALY: "*",
    Urgency.LIMIT: "$",
    Urgency.RUNNING: ">",
    Urgency.QUEUED: ".",
    Urgency.ENDED: " ",
}
_LOOKS = {
    Urgency.ATTENTION: "ask",
    Urgency.ORPHANED: "warn",
    Urgency.UNKNOWN: "warn",
    Urgency.ANOMALY: "warn",
    Urgency.LIMIT: "warn",
    Urgency.RUNNING: "good",
    Urgency.QUEUED: "",
    Urgency.ENDED: "dim",
}
_WIDTHS = {"STATE": 9, "AGE": 4, "CPU": 5, "CPU~": 6, "MEM": 6, "MEM~": 6, "OUTPUT": 8,
           "TOKENS": 6, "COST": 7}  # fmt: skip
_GIVE_WAY = (
    "MEM~",
    "TOKENS",
    "CPU~",
    "OUTPUT",
    "COST",
    "MEM",
    "CPU",
    "AGE",
    "NODE",
)  # the first goes first
_LEAST_NOTE = 18
_GAP = 1
WIDE = 100  # at this width and above, the head always has its letters
_MARGIN = 3  # mark, sign, space


class PlacedColumn(Record):
    """A column, and how wide it is. `CPU~` is the course of CPU."""

    name: str
    room: int

    def head(self, *, with_letters: bool, order: RowOrder) -> str:
        """`AGE(a)` where it has room, a mark at the one that the list is sorted by, and how."""
        if self.name.endswith("~"):
            return " " * self.room
        letter = next((key for key, name in LETTERS.items() if name == self.name), "")
        turned = "▴" if order.is_reversed else "▾"
        mark = turned if order.column == self.name else ""
        label = f"{self.name}({letter})" if with_letters and letter else self.name
        shown = cut(label + mark, self.room)
        return shown.rjust(self.room) if self.name in NUMBERS else shown.ljust(self.room)


def fit_columns(room: int, board: Board, *, with_letters: bool) -> list[PlacedColumn]:
    """Those that leave room for a note. Letters make columns wider, so that fewer fit."""
    names = [
        "NAME",
        *(["NODE"] if board.node_width else []),
        "STATE",
        "AGE",
        "CPU",
        "CPU~",
        "MEM",
        "MEM~",
        "OUTPUT",
    ]
    names += ["TOKENS"] if board.has_tokens else []
    names += ["COST"] if board.has_cost else []
    widths = dict(_WIDTHS)
    widths["NAME"] = max(8, min(board.name_width, room // 4))
    widths["NODE"] = max(4, min(board.node_width, room // 8))
    if with_letters:
        for name in names:
            widths[name] = max(widths[name], len(name) + 4 if not name.endswith("~") else 0)
    for dropped in (None, *_GIVE_WAY):
        if dropped in names:
            names.remove(dropped)
        left = room - _MARGIN - sum(widths[name] + _GAP for name in names)
        if left >= _LEAST_NOTE:
            break
    return [
        *(PlacedColumn(name, widths[name]) for name in names),
        PlacedColumn("NOTE", max(left, 0)),
    ]


def head_line(columns: list[PlacedColumn], board: Board, *, with_letters: bool) -> str:
    """The names of the columns."""
    heads = (one.head(with_letters=with_letters, order=board.order) for one in columns)
    return " " * _MARGIN + " ".join(heads)


def row_line(
    row: Row, columns: list[PlacedColumn], trends: Trends, now: float, *, is_marked: bool
) -> Spans:
    """One run."""
    cells = row.cells(now)
    cells["CPU~"], cells["MEM~"] = trends.cpu(row.id), trends.memory(row.id)
    if row.outcome is not None and not row.state.is_active:
        cells["STATE"] = row.outcome.value
    look = look_of(row)
    body = "" if row.state.is_active else "dim"
    spans = [(f"{'+' if is_marked else ' '}{SIGNS[row.urgency]} ", "ask" if is_marked else look)]
    for column in columns:
        text = cut(printable(cells[column.name]), column.room)
        padding = " " * (column.room - width(text))
        is_number = column.name in NUMBERS or column.name.endswith("~")
        shown = padding + text if is_number else text + padding
        spans.append((shown + " ", look if column.name in ("STATE", "NOTE") else body))
    return tuple(spans)


def look_of(row: Row) -> str:
    """What its state means at a glance."""
    has_failed = row.outcome is not None and row.outcome.is_failure and not row.state.is_active
    return "bad" if has_failed and row.urgency is Urgency.ENDED else _LOOKS[row.urgency]
