"""Output of runs on its way to stdout: byte for byte, or as lines with names, times, JSON, colour.

Nothing is changed unless an option asks for it, or stdout is a terminal: there a line that was
redrawn is shown in its last state. Missing output is reported on stderr.
"""

from __future__ import annotations

import base64
import time

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import columns, paint
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.reading.shown_lines import ShownLines
from holdfast.process.clock import iso_time
from holdfast.record import Record
from holdfast.run.output import LineCarrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.pretty import PrettyPrinter
    from holdfast.manage.reading.log_times import LogTimes
    from holdfast.manage.reading.shown_lines import ShownLine
    from holdfast.run.output import Chunk


class LogFormat(Record):
    """How output is to be shown."""

    json: bool = False
    timestamps: bool = False
    pretty: bool = False
    names: bool = False  # several runs: each line begins with the run's name
    on_screen: bool = False  # stdout is a terminal: redrawn lines in their last state


class LineText:
    """What is printed with a line of one run: name, time, JSON fields."""

    def __init__(
        self, look: LogFormat, name: str, *, width: int = 0, times: LogTimes | None = None
    ) -> None:
        self.look = look
        self.name = name
        self.is_following = False  # lines are printed when they arrive: their time is now
        self._prefix = paint(f"{name:<{width}} | ", "cyan").encode() if look.names else b""
        self._times = times

    def head(self, end_byte: int) -> bytes:
        """What stands before a line that ends there."""
        return self._prefix + self._stamp(end_byte) if self.look.timestamps else self._prefix

    def _stamp(self, end_byte: int) -> bytes:
        word, at = self._time(end_byte)
        if at is None:
            return b"- ".rjust(22)
        shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        return f"{'<=' if word == 'by' else '  '}{shown} ".encode()

    def _time(self, end_byte: int) -> tuple[str, float | None]:
        """`at`: it was seen to arrive. `by`: it was there at that time."""
        if self.is_following:
            return "at", time.time()
        return "by", None if self._times is None else self._times.written_by(end_byte)

    def document(self, at_byte: int, line: bytes, **marks: bool) -> bytes:
        """The line as JSON, with the marks that hold for it."""
        import json

        document: dict[str, Any] = {"at_byte": at_byte}
        if self.look.names:
            document["name"] = self.name
        try:
            document["text"] = line.decode()
        except UnicodeDecodeError:
            document["base64"] = base64.b64encode(line).decode("ascii")
        document.update({mark: True for mark, holds in marks.items() if holds})
        if self.look.timestamps:
            word, at = self._time(at_byte + len(line))
            document[word] = None if at is None else iso_time(at)
        return json.dumps(document).encode() + b"\n"


class Printer:
    """Prints the output of one run, byte for byte."""

    def __init__(self, text: LineText) -> None:
        self._text = text

    def take(self, chunk: Chunk) -> None:
        """Print a piece of output."""
        if chunk.was_truncated:
            self._note("the output was cut; it goes on at byte 0")
        if chunk.skipped_bytes:
            gone = f"{chunk.skipped_bytes} bytes before byte {chunk.at_byte}"
            self._note(f"{gone} were given back to the disk")
        if chunk.was_truncated or chunk.skipped_bytes:
            self._restart(chunk.at_byte)
        self._print(chunk.data)

    def follow(self) -> None:
        """What comes from here on is new."""
        self._text.is_following = True

    def end(self) -> None:
        """Print what is left: a last line without a newline; and what could not be shown."""

    def _restart(self, at_byte: int) -> None:
        """The output goes on at another byte."""

    def _print(self, data: bytes) -> None:
        streams.say_bytes((data,))

    def _note(self, text: str) -> None:
        streams.complain(f"note: {self._text.name}: {text}")

    def _warn_of_dropped(self, count: int) -> None:
        if count:
            streams.warn(f"{self._text.name}: {count} lines are too long to be shown as lines")


class LinePrinter(Printer):
    """Prints whole lines: with names or times, as JSON, or made readable."""

    def __init__(
        self, text: LineText, at_byte: int = 0, *, pretty: PrettyPrinter | None = None
    ) -> None:
        super().__init__(text)
        self._carrier = LineCarrier(at_byte)
        self._pretty = pretty

    def end(self) -> None:
        at_byte, rest = self._carrier.rest
        if rest:
            streams.say_bytes((self._rendered(at_byte, rest, is_whole=False),))
        if self._pretty is not None:
            streams.say_bytes((self._pretty.end(),))
        self._warn_of_dropped(self._carrier.dropped)

    def _restart(self, at_byte: int) -> None:
        self._carrier = LineCarrier(at_byte)

    def _print(self, data: bytes) -> None:
        lines = self._carrier.feed(data)
        streams.say_bytes(self._rendered(at, line, is_whole=True) for at, line in lines)

    def _rendered(self, at_byte: int, line: bytes, *, is_whole: bool) -> bytes:
        if self._text.look.json:
            return self._text.document(at_byte, line, unfinished=not is_whole)
        if self._pretty is not None:
            shown = self._pretty.line(line + b"\n")
            if not shown:
                return b""
        elif self._text.look.pretty:
            shown = printable_lines(line.decode("utf-8", "surrogateescape")).encode() + b"\n"
        else:
            shown = line + b"\n"
        head = self._text.head(at_byte + len(line))
        if not head:
            return shown
        return b"".join(head + part + b"\n" for part in shown.removesuffix(b"\n").split(b"\n"))


class ScreenPrinter(Printer):
    """Prints lines as a terminal shows them, with names or times before them or without.

    When one run is followed, its unfinished line is on the screen too, as it is at that time. With
    nothing before the lines that is left to the terminal, which then gets every byte.
    """

    def __init__(self, text: LineText, at_byte: int = 0) -> None:
        super().__init__(text)
        self._is_bare = not (text.look.names or text.look.timestamps)
        self._lines = ShownLines(at_byte, is_bare=self._is_bare)
        self._drawn = 0  # columns of an unfinished line that are on the screen

    def follow(self) -> None:
        super().follow()
        if self._is_bare:
            streams.say_bytes((self._lines.handed_over(),))
        elif not self._text.look.names:
            self._lines.is_live = True
            self._print(b"")

    def end(self) -> None:
        if not (self._is_bare and self._text.is_following):
            streams.say_bytes((self._cleared(), *map(self._rendered, self._lines.rest())))
        self._warn_of_dropped(self._lines.dropped)

    def _restart(self, at_byte: int) -> None:
        self._lines.restart(at_byte)

    def _print(self, data: bytes) -> None:
        if self._is_bare and self._text.is_following:
            streams.say_bytes((data,))
            return
        lines = self._lines.feed(data)
        streams.say_bytes((self._cleared() if lines else b"", *map(self._rendered, lines)))
        if self._lines.is_live:
            self._draw()

    def _rendered(self, line: ShownLine) -> bytes:
        if self._is_bare:
            return line.text + b"\n" if line.is_whole else line.text
        return self._text.head(line.end_byte) + line.text + b"\n"

    def _draw(self) -> None:
        """Show the unfinished line as it is now, on one row."""
        line = self._lines.current
        if line is None:
            return
        head = self._text.head(0)
        room = max(0, columns() - 1 - len(head))
        drawn = len(head) + min(room, line.width)
        over = b" " * max(0, self._drawn - drawn)
        streams.say_bytes((b"\r", head, line.shown(room), over))
        self._drawn = drawn

    def _cleared(self) -> bytes:
        drawn, self._drawn = self._drawn, 0
        return b"\r" + b" " * drawn + b"\r" if drawn else b""

    def _note(self, text: str) -> None:
        streams.say_bytes((self._cleared(),))
        super()._note(text)
