"""The list of runs as a widget: it draws the lines that are on the screen, and no others."""

from __future__ import annotations

import time

from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from holdfast.tui.styles import strip_of
from holdfast.tui.table import WIDE, fit_columns, head_line, row_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from textual import events

    from holdfast.tui.board import Board
    from holdfast.tui.table import PlacedColumn
    from holdfast.tui.trends import Trends


class HeadLine(Widget):
    """The names of the columns, and the letter that sorts by each."""

    DEFAULT_CSS = "HeadLine { height: 1; }"

    def __init__(self, table: RunTable) -> None:
        super().__init__()
        self._table = table

    def render_line(self, y: int) -> Strip:
        del y
        return strip_of(((self._table.head(), "head"),), self.size.width)


class RunTable(ScrollView, can_focus=False):
    """Rows of a board."""

    DEFAULT_CSS = "RunTable { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    class RowClicked(Message):
        """A row was clicked; twice: to be opened."""

        def __init__(self, *, is_opened: bool) -> None:
            super().__init__()
            self.is_opened = is_opened

    def __init__(self, board: Board, trends: Trends) -> None:
        super().__init__()
        self._board = board
        self._trends = trends
        self._shown: dict[int, Strip] = {}  # by line of the screen
        self._columns: list[PlacedColumn] = []
        self.is_ordering = False  # the next key is a column's letter

    def head(self) -> str:
        """The text of the line above it."""
        with_letters = self._with_letters
        columns = fit_columns(self.size.width, self._board, with_letters=with_letters)
        return head_line(columns, self._board, with_letters=with_letters)

    @property
    def _with_letters(self) -> bool:
        return self.is_ordering or self.size.width >= WIDE

    def follow_board(self) -> None:
        """The board changed, or time has passed: draw the lines that are another now."""
        board = self._board
        count = max(len(board.ids), 1)
        if self.virtual_size.height != count:
            self.virtual_size = Size(0, count)
        self._columns = fit_columns(self.size.width, board, with_letters=self._with_letters)
        self._keep_cursor_in_view()
        self._draw_changes()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._shown.clear()
        self.virtual_size = Size(0, 0)
        self.follow_board()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.y
        if place < len(self._board.ids):
            is_opened = place == self._board.place and event.chain > 1
            self._board.move_to(place)
            self.post_message(self.RowClicked(is_opened=is_opened))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._shown.clear()

    def render_line(self, y: int) -> Strip:
        if y not in self._shown:
            self._shown[y] = self._line(y, time.time())
        return self._shown[y]

    def _keep_cursor_in_view(self) -> None:
        top, height, place = self.scroll_offset.y, self.size.height, self._board.place
        if not height:
            return
        wanted = min(max(top, place - height + 1), place)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True, immediate=True)

    def _draw_changes(self) -> None:
        now, changed = time.time(), []
        for y in range(self.size.height):
            line = self._line(y, now)
            if self._shown.get(y) != line:
                self._shown[y] = line
                changed.append(Region(0, y, self.size.width, 1))
        if changed:
            self.refresh(*changed)

    def _why_empty(self) -> str:
        if self._board.filter.text:
            return "no run fits the filter: esc takes it off"
        return "no runs: `holdfast run COMMAND` starts one"

    def _line(self, y: int, now: float) -> Strip:
        board, place, room = self._board, self.scroll_offset.y + y, self.size.width
        if not board.ids and y == 1:
            return strip_of((("   ", ""), (self._why_empty(), "dim")), room)
        if place >= len(board.ids):
            return Strip.blank(room, Style.null())
        row = board.rows[board.ids[place]]
        spans = row_line(row, self._columns, self._trends, now, is_marked=row.id in board.marked)
        return strip_of(spans, room, is_reversed=place == board.place)
