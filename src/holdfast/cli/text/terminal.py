"""How text looks to people: colour, tables that fit the screen, sizes and durations.

Colour only on a terminal and never with NO_COLOR. Whatever comes from outside (names, commands,
evidence) goes through `printable`: a process can call itself anything, escape sequences included.
"""

from __future__ import annotations

import os
import sys

from holdfast.manage.plaintext import cut, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
DEFAULT_COLUMNS = 80


_pretended: list[int] = []  # the width of the terminal that our stdout is forwarded to


def pretend_terminal(width: int) -> None:
    """What is printed here is passed on to a terminal elsewhere, of that width."""
    _pretended[:] = [width]


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person reads this stream."""
    if _pretended and stream is sys.stdout:
        return True
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def paint(text: str, *looks: str, stream: TextIO | None = None) -> str:
    """The text in colour, where that is wanted: `paint("FAIL", "red", "bold")`."""
    if not looks or not _wants_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{';'.join(_CODES[look] for look in looks)}m{text}\x1b[0m"


def _wants_colour(stream: TextIO | None) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def columns() -> int:
    """How wide the screen is; 80 where there is none."""
    if _pretended:
        return _pretended[0]
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_COLUMNS
    except (OSError, ValueError, AttributeError):
        return DEFAULT_COLUMNS


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    room: int | None = None,
) -> list[str]:
    """Aligned lines. The last column takes what is left of the screen and is cut to it.

    `right` names the columns of numbers.
    """
    lines = [head, *rows]
    room = columns() if room is None else room
    widths = [max(width(line[place]) for line in lines) for place in range(len(head))]
    left = room - sum(widths[:-1]) - 2 * (len(head) - 1)
    # Only on a screen: what is piped away is for a program, which wants all of it.
    if is_terminal(sys.stdout):
        widths[-1] = max(min(widths[-1], left), width(head[-1]), 8)
    return ["  ".join(_cells(line, head, widths, right)).rstrip() for line in lines]


def _cells(
    line: Sequence[str], head: Sequence[str], widths: Sequence[int], right: Collection[str]
) -> list[str]:
    cells = []
    for text, name, room in zip(line, head, widths, strict=True):
        shown = cut(text, room)
        padding = " " * (room - width(shown))
        cells.append(padding + shown if name in right else shown + padding)
    return cells
