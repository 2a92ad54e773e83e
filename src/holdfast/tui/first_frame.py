"""The first rows, drawn while Textual is still being loaded: that takes most of a start.

Its thread reads and draws once; whoever begins the screen takes the terminal from it, and draws
all of it again. A disk that hangs holds this thread alone.
"""

from __future__ import annotations

import os
import threading
import time
from itertools import islice

from holdfast.errors import HoldfastError
from holdfast.manage.overview import Overview
from holdfast.manage.words.views import row_of, summary
from holdfast.tui.board import Board
from holdfast.tui.table import WIDE, fit_columns, head_line, row_line
from holdfast.tui.trends import Trends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.selection import Selection
    from holdfast.run.home import Home

_MOST_READ = 200  # more would take longer than Textual does
_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J", b"\x1b[?1049l\x1b[?25h"
_CODES = {"dim": "2", "good": "32", "warn": "33", "bad": "31", "ask": "1;35"}


class FirstFrame:
    """Drawn at most once, between `begin` and `end`."""

    def __init__(
        self, home: Home, selection: Selection | None, *, window: str | None, is_plain: bool
    ) -> None:
        self._runs = Overview(home, selection, window=window, is_plain=is_plain)
        self._window = window or ""
        self._lock = threading.Lock()
        self._is_over = False
        self._is_drawn = False

    def begin(self) -> None:
        """In a thread that nobody waits for."""
        threading.Thread(target=self._draw, daemon=True).start()

    def end(self) -> None:
        """From now on the terminal is somebody else's."""
        with self._lock:
            self._is_over = True

    def undo(self) -> None:
        """The screen did not come: the terminal is as it was."""
        self.end()
        if self._is_drawn:
            os.write(1, _LEAVE)

    def _draw(self) -> None:
        try:
            columns, rows = os.get_terminal_size(1)
            text = self._frame(columns, rows)
        except (HoldfastError, OSError):  # the screen itself will say why
            return
        with self._lock:
            if not self._is_over:
                self._is_drawn = True
                os.write(1, _ENTER + text.encode("utf-8", "replace"))

    def _frame(self, room: int, height: int) -> str:
        board, now = Board(), time.time()
        found = [row_of(info) for info in islice(self._runs, _MOST_READ)]
        board.take(found, ())
        with_letters = room >= WIDE
        columns = fit_columns(room, board, with_letters=with_letters)
        said = (
            ""
            if len(found) == _MOST_READ
            else summary((row.state for row in found), window=self._window)
        )
        lines = [f"holdfast {said}"[:room], head_line(columns, board, with_letters=with_letters)]
        for run_id in board.ids[: max(0, height - 3)]:
            row = board.rows[run_id]
            spans = row_line(row, columns, Trends(), now, is_marked=False)
            lines.append("".join(_painted(text, look) for text, look in spans))
        return "\r\n".join(lines)


def _painted(text: str, look: str) -> str:
    code = None if "NO_COLOR" in os.environ else _CODES.get(look)
    return text if code is None else f"\x1b[{code}m{text}\x1b[0m"
