"""Output of runs on its way to stdout: byte for byte, or as lines with names, times, JSON, colour.

Nothing is changed unless it was asked for. What is missing is said on stderr.
"""

from __future__ import annotations

import base64
import time

from holdfast.cli import streams
from holdfast.cli.terminal import paint
from holdfast.manage.log_times import LogTimes
from holdfast.manage.plaintext import printable_lines
from holdfast.process.clock import iso_time
from holdfast.record import Record
from holdfast.run.output import LineCarrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.pretty import PrettyPrinter
    from holdfast.run.output import Chunk


class Look(Record):
    """How output is to be shown."""

    json: bool = False
    timestamps: bool = False
    pretty: bool = False
    names: bool = False  # of several runs, each line says whose it is

    @property
    def is_exact(self) -> bool:
        """Byte for byte."""
        return not (self.json or self.timestamps or self.pretty or self.names)


class Printer:
    """Prints the output of one run."""

    def __init__(
        self,
        look: Look,
        name: str,
        *,
        width: int = 0,
        at_byte: int = 0,
        times: LogTimes | None = None,
        pretty: PrettyPrinter | None = None,
    ) -> None:
        self._look = look
        self._name = name
        self._prefix = paint(f"{name:<{width}} | ", "cyan").encode() if look.names else b""
        self._times = times
        self._pretty = pretty
        self._carrier = LineCarrier(at_byte)
        self._is_following = False

    def follow(self) -> None:
        """From here on output is new: it is written at the time that it comes."""
        self._is_following = True

    def take(self, chunk: Chunk) -> None:
        """Print a piece of output."""
        if chunk.was_truncated:
            streams.complain(f"note: {self._name}: the output was cut; it goes on at byte 0")
        if chunk.skipped_bytes:
            gone = f"{chunk.skipped_bytes} bytes before byte {chunk.at_byte}"
            streams.complain(f"note: {self._name}: {gone} were given back to the disk")
        if self._look.is_exact:
            streams.say_bytes((chunk.data,))
            return
        if chunk.was_truncated or chunk.skipped_bytes:
            self._carrier = LineCarrier(chunk.at_byte)
        lines = self._carrier.feed(chunk.data)
        streams.say_bytes(self._rendered(at, line, is_whole=True) for at, line in lines)

    def end(self) -> None:
        """Print what is left: a last line without a newline, and what was too long to show."""
        at_byte, rest = self._carrier.rest
        if rest:
            streams.say_bytes((self._rendered(at_byte, rest, is_whole=False),))
        if self._pretty is not None:
            streams.say_bytes((self._pretty.end(),))
        if self._carrier.dropped:
            count = self._carrier.dropped
            streams.warn(f"{self._name}: {count} lines are too long to be shown as lines")

    def _rendered(self, at_byte: int, line: bytes, *, is_whole: bool) -> bytes:
        if self._look.json:
            return self._document(at_byte, line, is_whole)
        if self._pretty is not None:
            shown = self._pretty.line(line + b"\n")
            if not shown:
                return b""
        elif self._look.pretty:
            shown = printable_lines(line.decode("utf-8", "surrogateescape")).encode() + b"\n"
        else:
            shown = line + b"\n"
        head = self._prefix + self._stamp(at_byte + len(line))
        if not head:
            return shown
        return b"".join(head + part + b"\n" for part in shown.removesuffix(b"\n").split(b"\n"))

    def _stamp(self, end_byte: int) -> bytes:
        if not self._look.timestamps:
            return b""
        word, at = self._time(end_byte)
        if at is None:
            return b"- ".rjust(22)
        shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        return f"{'<=' if word == 'by' else '  '}{shown} ".encode()

    def _time(self, end_byte: int) -> tuple[str, float | None]:
        """`at`: it was seen to arrive. `by`: it was there at that time."""
        if self._is_following:
            return "at", time.time()
        return "by", None if self._times is None else self._times.written_by(end_byte)

    def _document(self, at_byte: int, line: bytes, is_whole: bool) -> bytes:
        import json

        document: dict[str, Any] = {"at_byte": at_byte}
        if self._look.names:
            document["name"] = self._name
        try:
            document["text"] = line.decode()
        except UnicodeDecodeError:
            document["base64"] = base64.b64encode(line).decode("ascii")
        if not is_whole:
            document["unfinished"] = True
        if self._look.timestamps:
            word, at = self._time(at_byte + len(line))
            document[word] = None if at is None else iso_time(at)
        return json.dumps(document).encode() + b"\n"
