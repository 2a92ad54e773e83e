"""The screen of a terminal run, emulated here: what a browser gets is cells, and no escape
sequence. Made from the end of the output, at each request; nothing is kept."""

from __future__ import annotations

import pyte
import pyte.screens

from holdfast.errors import Refused
from holdfast.run.output import read_from
from holdfast.screen import KEPT_BYTES
from holdfast.web.elsewhere import not_from_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.run import Run

    Json = dict[str, Any]

_ROWS, _COLUMNS = 24, 80
_MOST_SIDE = 500
_COLOURS = {
    name: f"c{number}"
    for number, name in enumerate(
        ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
    )
}


def screen_of(run: Run) -> Json:
    """Lines of spans, `[text, classes]`; Refused for a run without a terminal."""
    if run.is_elsewhere:
        raise not_from_here("the screen", f"holdfast attach {run.id}")
    spec = run.directory.read_spec()
    if not spec.pty:
        raise Refused(f"{spec.name} has no terminal", hint="start it with --pty", run=run.id)
    window = spec.window or {}
    rows = min(int(window.get("rows") or _ROWS), _MOST_SIDE)
    columns = min(int(window.get("columns") or _COLUMNS), _MOST_SIDE)
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    at_byte = _feed(run, screen, stream)
    lines = [_spans(screen.buffer[row], columns) for row in range(rows)]
    cursor = {"row": screen.cursor.y, "column": screen.cursor.x, "hidden": screen.cursor.hidden}
    return {
        "schema": 1,
        "id": run.id,
        "rows": rows,
        "columns": columns,
        "at_byte": at_byte,
        "cursor": cursor,
        "lines": lines,
    }


def _feed(run: Run, screen: pyte.Screen, stream: pyte.ByteStream) -> int:
    """The last part of the output; how far that goes."""
    path, kept = run.directory.output_path, run.directory.first_kept_byte()
    size = run.info().log_bytes or 0
    at_byte = max(0, size - KEPT_BYTES)
    for chunk in read_from(path, at_byte, first_kept=kept):
        at_byte = chunk.at_byte + len(chunk.data)
        try:
            stream.feed(chunk.data)
        except Exception:  # noqa: BLE001 - pyte raises TypeError and others on odd sequences
            screen.reset()  # what it can't follow is left out, and the rest shown
    return at_byte


def _spans(line: Any, columns: int) -> list[list[str]]:
    spans: list[list[str]] = []
    for column in range(columns):
        cell = line[column]
        look = _look(cell)
        if spans and spans[-1][1] == look:
            spans[-1][0] += cell.data
        else:
            spans.append([cell.data, look])
    while spans and not spans[-1][1] and not spans[-1][0].strip():
        spans.pop()
    return spans


def _look(cell: pyte.screens.Char) -> str:
    """Names of classes: of one set that the page knows, never what the run wrote."""
    front, back = _colour(cell.fg), _colour(cell.bg)
    if cell.reverse:
        front, back = back or "inverse", front or "inverse"
    words = [front and f"f-{front}", back and f"b-{back}"]
    words += [name for name in ("bold", "italics", "underscore", "strikethrough")
              if getattr(cell, name)]  # fmt: skip
    return " ".join(filter(None, words))


def _colour(name: str) -> str:
    plain = name.removeprefix("bright")
    if plain in _COLOURS:
        return _COLOURS[plain] if plain == name else f"c{int(_COLOURS[plain][1]) + 8}"
    return "" if name == "default" else _nearest(name)


def _nearest(rgb: str) -> str:
    """One of the sixteen for a colour of 256 or more."""
    try:
        parts = [int(rgb[place : place + 2], 16) for place in (0, 2, 4)]
    except ValueError:
        return ""
    bits = sum(1 << place for place, part in enumerate(parts) if part > max(max(parts) // 2, 63))
    return f"c{bits + 8 if max(parts) > 191 else bits}"
