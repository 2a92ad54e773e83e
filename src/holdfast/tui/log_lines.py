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
STDERR_MARK: Spans = (("err ", "warn"),)
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


class RunLog:
    """The output of a run, and beside it the stderr of a run that keeps it apart: each of its lines
    is marked. Used by one thread at a time."""

    def __init__(self, directory: RunDirectory, *, is_pretty: bool = False) -> None:
        spec = directory.read_spec()
        printer = pretty_printer(spec.agent) if is_pretty and spec.agent is not None else None
        self.is_pretty = printer is not None
        self._tails = [LogTail(directory, directory.output_path, printer)]
        if spec.wanted.split_stderr:
            self._tails.append(LogTail(directory, directory.stderr_path, None, STDERR_MARK))
        self._is_begun = False

    def read(self) -> list[Spans]:
        """The lines that came since the last time, of both as they are seen; the first time the
        last ones of each, since nothing tells which of them came first."""
        parts = [tail.read() for tail in self._tails]
        if not self._is_begun and len(parts) > 1 and parts[1]:
            parts.insert(1, [(("(its stderr so far, which has a log of its own)", "dim"),)])
        self._is_begun = True
        return [line for part in parts for line in part]

    @property
    def has_more(self) -> bool:
        """Whether it was not read to its end."""
        return any(tail.has_more for tail in self._tails)

    def unfinished(self) -> Spans:
        """The last lines as they are now, where they have no end yet."""
        return tuple(span for tail in self._tails for span in tail.unfinished())

    def close(self) -> None:
        """Nothing stays open."""
        for tail in self._tails:
            tail.close()


class LogTail:
    """One log; it is read on from where it was."""

    def __init__(
        self,
        directory: RunDirectory,
        path: str,
        pretty: PrettyPrinter | None = None,
        mark: Spans = (),
    ) -> None:
        self._directory = directory
        self._path = path
        self._reader: OutputReader | None = None
        self._lines = ShownLines()
        self._pretty = pretty
        self._mark = mark
        self.has_more = False  # it was not read to its end

    def read(self) -> list[Spans]:
        """The lines that came since the last time; the first time its last ones."""
        found: list[Spans] = []
        reader = self._reader
        if reader is None:
            reader = self._open()
            if reader.at_byte:
                found.append((*self._mark, (f"(from byte {reader.at_byte} on)", "dim")))
        read = 0
        while read < _MOST_BYTES and (chunk := reader.read()) is not None:
            if chunk.was_truncated or chunk.skipped_bytes:
                self._lines.restart(chunk.at_byte)
                found.append((*self._mark, ("(output is missing here: it was cut)", "warn")))
            read += len(chunk.data)
            for line in self._lines.feed(chunk.data):
                found += [(*self._mark, *shown) for shown in self._shown(line.text)]
        self.has_more = read >= _MOST_BYTES
        return found

    def unfinished(self) -> Spans:
        """The last line as it is now, if it has no end yet."""
        rest = self._lines.rest()
        return (*self._mark, *shown_line(rest[-1].text)) if rest else ()

    def close(self) -> None:
        """Nothing stays open."""
        if self._reader is not None:
            self._reader.close()

    def _open(self) -> OutputReader:
        kept = self._directory.first_kept_byte(self._path)
        self._reader = OutputReader(self._path, first_kept=kept)
        self._reader.seek_tail(MOST_LINES)
        self._lines.restart(self._reader.at_byte)
        return self._reader

    def _shown(self, line: bytes) -> list[Spans]:
        if self._pretty is None:
            return [shown_line(line)]
        shown = self._pretty.line(line + b"\n")
        return (
            [shown_line(part) for part in shown.removesuffix(b"\n").split(b"\n")] if shown else []
        )


def pretty_printer(agent: str) -> PrettyPrinter:
    """Makes the stream of that agent readable."""
    from holdfast.agents.loader import load_profile
    from holdfast.agents.pretty import PrettyPrinter

    return PrettyPrinter(load_profile(agent), colour=True, plain=printable_lines)
