"""How each meaning looks. The colours are the terminal's own: it may be light or dark."""

from __future__ import annotations

from functools import cache

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.tui.table import Spans

_STYLES = {
    "": "",
    "dim": "dim",
    "bold": "bold",
    "head": "bold",
    "label": "cyan",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "ask": "bold magenta",
    "key": "bold cyan",
    "off": "dim strike",
    "found": "bold yellow",
    "reverse": "reverse",
}


@cache
def style_of(look: str, is_reversed: bool = False) -> Style:
    """The style of a meaning; reversed: under the cursor."""
    style = Style.parse(_STYLES[look])
    return Style(reverse=True, bold=style.bold) if is_reversed else style


def strip_of(spans: Spans, room: int, *, is_reversed: bool = False) -> Strip:
    """A line of the screen, as wide as that."""
    fill = style_of("", is_reversed)
    segments = [Segment(text, style_of(look, is_reversed)) for text, look in spans if text]
    return Strip(segments).adjust_cell_length(room, fill)
