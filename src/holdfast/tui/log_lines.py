"""A run's output as lines for the screen: from its tail on, redrawn lines in their last state.

Nothing of it reaches the terminal as it was written: control characters are shown as text, and
of colours the plain ones are kept.
"""

from __future__ import annotations

import re

from holdfast.manage.plaintext import printable_lines
from holdfast.manage.reading.shown_lines import ShownLines
from holdfast.run.output import OutputReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.pretty import PrettyPrinter
    from holdfast.run.directory import RunDirectory
    from holdfast.tui.table import Spans

MOST_LINES = 5000
_MOST_BYTES = 1 << 20  # at one look: the screen gets a share of a flood at a time
_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")
_OTHER = re.compile(
    r"\x1b(?:\[[<-?]?[0-9;:]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
)
_LOOKS = {"1": "bold", "2": "dim", "31": "bad", "91": "bad", "32": "good", "92": "good",
          "33": "warn", "93": "warn", "36": "label", "96": "label"}  # fmt: skip


def shown_line(line: bytes) -> Spans:
    """One line of output, made harmless."""
    text = line.decode("utf-8", "surrogateescape").rstrip("\r")
    spans, look, at = [], "", 0
    for found in _SEQUENCE.finditer(text):
        spans.append((_plain(text[at : found.start()]), look))
        look = next((_LOOKS[one] for one in re.findall(r"\d+", found.group()) if one in _LOOKS), "")
        at = found.end()
    spans.append((_plain(text[at:]), look))
    return tuple(span for span in spans if span[0])


def _plain(text: str) -> str:
    return printable_lines(_OTHER.sub("", text).expandtabs(8)) if text else ""


class LogTail:
    """Reads on from where it was. Used by one thread at a time."""

    def __init__(self, directory: RunDirectory, *, is_pretty: bool = False) -> None:
        self._directory = directory
        self._reader: OutputReader | None = None
        self._lines = ShownLines()
        self._pretty = self._pretty_printer() if is_pretty else None
        self.is_pretty = self._pretty is not None
        self.has_more = False  # it was not read to its end
        self.begins_at = 0  # the byte of the first line

    def _pretty_printer(self) -> PrettyPrinter | None:
        agent = self._directory.read_spec().agent
        if agent is None:
            return None
        from holdfast.agents.loader import load_profile
        from holdfast.agents.pretty import PrettyPrinter

        return PrettyPrinter(load_profile(agent), colour=True, plain=printable_lines)

    def read(self) -> list[Spans]:
        """The lines that came since the last time; the first time its last ones."""
        reader = self._reader or self._open()
        found: list[Spans] = []
        read = 0
        while read < _MOST_BYTES and (chunk := reader.read()) is not None:
            if chunk.was_truncated or chunk.skipped_bytes:
                self._lines.restart(chunk.at_byte)
                found.append((("(output is missing here: it was cut)", "warn"),))
            read += len(chunk.data)
            for line in self._lines.feed(chunk.data):
                found += self._shown(line.text)
        self.has_more = read >= _MOST_BYTES
        return found

    def unfinished(self) -> Spans:
        """The last line as it is now, if it has no end yet."""
        rest = self._lines.rest()
        return shown_line(rest[-1].text) if rest else ()

    def close(self) -> None:
        """Nothing stays open."""
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> OutputReader:
        kept = self._directory.first_kept_byte()
        self._reader = OutputReader(self._directory.output_path, first_kept=kept)
        self._reader.seek_tail(MOST_LINES)
        self.begins_at = self._reader.at_byte
        self._lines.restart(self.begins_at)
        return self._reader

    def _shown(self, line: bytes) -> list[Spans]:
        if self._pretty is None:
            return [shown_line(line)]
        shown = self._pretty.line(line + b"\n")
        return (
            [shown_line(part) for part in shown.removesuffix(b"\n").split(b"\n")] if shown else []
        )
