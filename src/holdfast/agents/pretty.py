"""Makes an agent's JSON stream readable: what it said, did, got, and how it ended.

Works line by line from the profile's `pretty` rules; a line that no rule knows comes out
unchanged, so nothing is ever lost silently. What an agent writes is not trusted: see `plain`.
"""

from __future__ import annotations

from holdfast.agents.json_lines import JsonLine
from holdfast.agents.profile import value_at
from holdfast.agents.templates import fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.agents.profile import AgentProfile, Json, PrettyRule

_ONE_LINE = 160
_OUTPUT_LINES = 5
_MARKS = {"call": "> ", "error": "! ", "note": "- ", "answer": "= "}
_COLOURS = {"call": "36", "error": "31", "note": "2", "answer": "32", "output": "2"}


class PrettyPrinter:
    """Renders one stream; feed it whole lines in their order."""

    def __init__(
        self,
        profile: AgentProfile,
        *,
        colour: bool = False,
        plain: Callable[[str], str] | None = None,
    ) -> None:
        """`plain` makes what comes from the agent harmless to a terminal."""
        self._rules = profile.pretty
        self._colour = colour
        self._plain = plain
        self._mid_line = False
        self._last_text = ""

    def line(self, content: bytes) -> bytes:
        """What to print for this line; may be empty."""
        rendered = list(self._rendered(JsonLine(content)))
        if not rendered:
            return self._closed() + self._unknown(content)
        return b"".join(self._styled(style, text) for style, text in rendered)

    def end(self) -> bytes:
        """What is due at the end of the stream: a line that was begun is closed."""
        return self._closed()

    def _unknown(self, content: bytes) -> bytes:
        if self._plain is None:
            return content
        return self._plain(content.decode("utf-8", "surrogateescape")).encode()

    def _rendered(self, line: JsonLine) -> Iterator[tuple[str, str]]:
        for record in line.records:
            for part, rule in self._parts(record):
                text = fill(rule.show, part)
                yield rule.style, text if self._plain is None else self._plain(text)

    def _parts(self, record: Json) -> Iterator[tuple[Json, PrettyRule]]:
        """The record, or each element of one of its lists, with the first rule that fits."""
        for rule in self._rules:
            if rule.each is None and rule.when.match and rule.when.match.holds(record):
                yield record, rule
                return
        for element in self._elements(record):
            fitting = [rule for rule in self._rules if _fits(rule, record, element)]
            yield from ((element, rule) for rule in fitting[:1])

    def _elements(self, record: Json) -> list[Json]:
        paths = {rule.each for rule in self._rules if rule.each and _fits(rule, record, None)}
        lists = [value for path in paths if isinstance(value := value_at(record, path), list)]
        return [one for elements in lists for one in elements if isinstance(one, dict)]

    def _styled(self, style: str, text: str) -> bytes:
        if style == "hide":
            return b""
        if style == "piece":
            self._mid_line = not text.endswith("\n")
            return _bytes(text)
        if style == "text":
            self._last_text = text.strip()
            return self._closed() + _bytes(text.rstrip("\n") + "\n")
        if style == "answer" and text.strip() == self._last_text:
            return b""  # said just before, in full
        return self._closed() + self._block(style, text)

    def _block(self, style: str, text: str) -> bytes:
        if style == "output":
            lines = _first_lines(text)
        elif style == "answer":
            lines = [_MARKS[style] + text.rstrip("\n")]
        else:
            lines = [_MARKS[style] + _one_line(text)]
        block = "\n".join(lines)
        if not block:
            return b""
        if self._colour:
            block = f"\x1b[{_COLOURS[style]}m{block}\x1b[0m"
        return _bytes(block + "\n")

    def _closed(self) -> bytes:
        begun, self._mid_line = self._mid_line, False
        return b"\n" if begun else b""


def _fits(rule: PrettyRule, record: Json, element: Json | None) -> bool:
    if rule.each is None or rule.when.match is None or not rule.when.match.holds(record):
        return False
    return element is None or rule.where is None or rule.where.holds(element)


def _one_line(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _ONE_LINE else plain[: _ONE_LINE - 1] + "…"


def _first_lines(text: str) -> list[str]:
    lines = text.rstrip("\n").split("\n") if text.strip() else []
    shown = [f"  {line[:_ONE_LINE]}" for line in lines[:_OUTPUT_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"  … {more} more lines"] if more > 0 else shown


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
