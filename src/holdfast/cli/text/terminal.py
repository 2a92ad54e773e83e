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
    found = list(zip(head, *rows, strict=True))
    room = columns() if room is None else room
    widths = [_widest(cells) for cells in found]
    left = room - sum(widths[:-1]) - 2 * (len(head) - 1)
    # Only on a screen: what is piped away is for a program, which wants all of it.
    if is_terminal(sys.stdout):
        widths[-1] = max(min(widths[-1], left), width(head[-1]), 8)
    aligned = [
        _aligned(cells, room, cells[0] in right) for cells, room in zip(found, widths, strict=True)
    ]
    return ["  ".join(line).rstrip() for line in zip(*aligned, strict=True)]


def _widest(cells: Sequence[str]) -> int:
    # Nearly all are ASCII, which takes no call for each of them.
    return max(map(len if "".join(cells).isascii() else width, cells))


def _aligned(cells: Sequence[str], room: int, is_right: bool) -> list[str]:
    """The cells of one column, cut and padded."""
    if "".join(cells).isascii() and max(map(len, cells)) <= room:
        return [text.rjust(room) if is_right else text.ljust(room) for text in cells]
    aligned = []
    for text in cells:
        shown = cut(text, room)
        padding = " " * (room - width(shown))
        aligned.append(padding + shown if is_right else shown + padding)
    return aligned
