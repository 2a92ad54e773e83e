"""Lines of text as widgets: a page that scrolls and can be searched, and single lines."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from holdfast.manage.plaintext import width
from holdfast.tui.styles import strip_of, style_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events

    from holdfast.tui.table import Spans


class TextLine(Static):
    """A line or a few that say how things stand; as high as it needs to be."""

    DEFAULT_CSS = "TextLine { height: auto; max-height: 4; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        super().__init__("", id=id)
        self.said: Spans = ()
        self.display = False

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(text for text, _ in self.said)

    def say(self, *spans: tuple[str, str]) -> None:
        """Another text; none: it takes no line."""
        if spans != self.said:
            self.said = spans
            self.display = bool(self.text)
            self.update(Text.assemble(*((text, style_of(look)) for text, look in spans)))


class TextView(ScrollView, can_focus=False):
    """Any number of lines, of which those on the screen are drawn. Long ones are wrapped."""

    DEFAULT_CSS = "TextView { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.follows = False  # the end stays in view while lines are added
        self._whole: list[Spans] = []
        self._lines: list[Spans] = []
        self._found = ""

    @property
    def text(self) -> str:
        """All of it, as it is wrapped now."""
        return "\n".join(_text(line) for line in self._lines)

    def show(self, lines: Sequence[Spans]) -> None:
        """These, in place of what was there."""
        if list(lines) != self._whole:
            self._whole = list(lines)
            self._wrap()

    def add(self, lines: Sequence[Spans], most: int) -> None:
        """More at the end; the oldest are dropped where there are too many."""
        self._whole += lines
        if len(self._whole) > most:
            del self._whole[: len(self._whole) - most]
            self._wrap()
            return
        for line in lines:
            self._lines += _wrapped(line, self._room)
        self._settle()

    def scroll_by_lines(self, by: int) -> None:
        """Down, or up where it is negative."""
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, force=True, immediate=True)

    def search(self, text: str) -> bool:
        """Mark it everywhere, and show the last place above the end of the screen."""
        self._found = text.lower()
        self.refresh()
        return not text or self.search_on(backward=True, from_here=True)

    def search_on(self, *, backward: bool = False, from_here: bool = False) -> bool:
        """Show the next place below, or above; begins anew at the other end."""
        hits = [at for at, line in enumerate(self._lines) if self._found in _text(line).lower()]
        if not self._found or not hits:
            return False
        here = self.scroll_offset.y
        if backward:
            until = here + (self.size.height if from_here else 0)
            place = next((at for at in reversed(hits) if at < until), hits[-1])
        else:
            place = next((at for at in hits if at > here), hits[0])
        self.follows = False
        self.scroll_to(y=place, animate=False, force=True, immediate=True)
        return True

    def on_resize(self, event: events.Resize) -> None:
        del event
        self._wrap()

    def render_line(self, y: int) -> Strip:
        place, room = self.scroll_offset.y + y, self.size.width
        if place >= len(self._lines):
            return Strip.blank(room, Style.null())
        line = self._lines[place]
        is_hit = bool(self._found) and self._found in _text(line).lower()
        return strip_of(line, room, is_reversed=is_hit)

    @property
    def _room(self) -> int:
        return max(1, self.size.width - 1)

    def _wrap(self) -> None:
        self._lines = [part for line in self._whole for part in _wrapped(line, self._room)]
        self._settle()

    def _settle(self) -> None:
        self.virtual_size = Size(0, max(1, len(self._lines)))
        if self.follows:
            self.scroll_end(animate=False, force=True, immediate=True)
        self.refresh()


def _text(line: Spans) -> str:
    return "".join(text for text, _ in line)


def _wrapped(line: Spans, room: int) -> Iterable[Spans]:
    if sum(width(text) for text, _ in line) <= room:
        return (line,)
    parts: list[list[tuple[str, str]]] = [[]]
    left = room
    for text, look in line:
        for piece in _pieces(text, left, room):
            taken = width(piece)
            if taken > left:
                parts.append([])
                left = room
            parts[-1].append((piece, look))
            left -= taken
    return [tuple(part) for part in parts]


def _pieces(text: str, left: int, room: int) -> Iterable[str]:
    """Cut where the screen ends; a wide character stays whole."""
    begun, used, most = 0, 0, left
    for place, character in enumerate(text):
        takes = width(character)
        if used + takes > most:
            if place > begun:
                yield text[begun:place]
            begun, used, most = place, 0, room
        used += takes
    if begun < len(text):
        yield text[begun:]
