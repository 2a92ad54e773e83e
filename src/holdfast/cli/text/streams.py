"""Writes to stdout and stderr so that neither odd text nor a closed stream ends in a traceback.

stdout is for results, stderr for diagnostics and hints. The reader of our stdout may close it at
any time: that is raised as OutputLost and ends the command quietly.

All of a write is written, whatever Python would do with the rest of it. With PYTHONUNBUFFERED, as
containers often have it, Python does not look how much was taken: a full disk would cut the output
off unnoticed. Where a program that shares the stream has set O_NONBLOCK, which it may do at any
time, Python gives up when the reader is slower than we are.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, BinaryIO, TextIO

    from holdfast.errors import HoldfastError


class OutputLost(Exception):
    """stdout can't be written to. `is_quiet`: the reader closed it, which is no error."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_quiet = error.errno in (errno.EPIPE, errno.ECONNRESET)


def prepare() -> None:
    """Make sure that any text can be printed, and that no file we open becomes fd 0, 1 or 2.

    A pid file opened as descriptor 1 would receive what is meant for stdout. The placeholders
    are close-on-exec: a command that we exec finds its streams closed, as we found them.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One line, or more, of what was asked."""
    _write(text + "\n")


def say_json(document: dict[str, Any]) -> None:
    """One JSON document. ASCII only: surrogates from odd file names stay valid JSON."""
    from holdfast.lean import spaced_json_text

    _write(spaced_json_text(document) + "\n")


def say_json_list(name: str, documents: Iterable[dict[str, Any]]) -> None:
    """One JSON document with a list that is never in memory whole."""
    from holdfast.lean import spaced_json_text

    before = f'{{"schema": 1, "{name}": ['
    for document in documents:
        _write(before + spaced_json_text(document))
        before = ", "
    _write("]}\n" if before == ", " else before + "]}\n")


def make_room(size: int) -> None:
    """If stdout is a pipe: make it this large. Much output then wakes both sides less often."""
    import fcntl

    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)  # Linux alone
    if set_size is not None and sys.stdout is not None:
        try:
            fcntl.fcntl(sys.stdout.fileno(), set_size, size)
        except (OSError, ValueError):  # no pipe, or more than this user may have
            return


def say_bytes(parts: Iterable[bytes]) -> None:
    """Output that must stay byte-exact."""
    if sys.stdout is None:
        return
    try:
        for part in parts:
            _put_bytes(sys.stdout.buffer, part)
        _flush(sys.stdout)
    except OSError as error:
        raise OutputLost(error) from error


def complain(text: str) -> None:
    """A diagnostic; dropped if stderr is closed too."""
    if sys.stderr is not None:
        try:
            _put(sys.stderr, _harmless(text) + "\n")
            _flush(sys.stderr)
        except (OSError, ValueError):  # closed, or full: there is nowhere left to say it
            pass


def complain_of(error: HoldfastError, where: str = "") -> None:
    """What failed, and what to do about it, each in a line."""
    from holdfast.manage.plaintext import printable

    complain(f"holdfast: {where}{printable(error.message)}")
    if error.hint:
        complain(f"  hint: {printable(error.hint)}")


def why_no_input() -> str:
    """Why there is nothing to read on our stdin; "": there may be something."""
    if sys.stdin is None:
        return "stdin is closed"
    return "stdin is a terminal" if sys.stdin.isatty() else ""


def ask(question: str) -> str:
    """What a person answers; the question is no output."""
    if sys.stderr is None or sys.stdin is None:
        return ""
    _put(sys.stderr, _harmless(question))
    _flush(sys.stderr)
    return sys.stdin.readline()


def notices(quiet: bool) -> Callable[[str], None]:
    """Where the library's notices go: with -q nowhere."""
    return (lambda _: None) if quiet else complain


def _harmless(text: str) -> str:
    """Diagnostics quote what runs call themselves and what their files say."""
    if text.isprintable():
        return text
    from holdfast.manage.plaintext import printable_lines

    return printable_lines(text)


def warn(text: str, hint: str | None = None) -> None:
    """A warning: the command goes on."""
    complain(f"warning: {text}")
    if hint:
        complain(f"  hint: {hint}")


def flush() -> None:
    """Find out now, not at the interpreter's exit, whether the output arrived."""
    if sys.stdout is not None:
        try:
            _flush(sys.stdout)
        except OSError as error:
            raise OutputLost(error) from error


def are_flushed() -> bool:
    """Whether nothing is left that the interpreter would write, or fail to write, at its exit."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                _flush_at_once(stream)
    except (OSError, ValueError):
        return False
    return True


def _flush_at_once(stream: TextIO) -> None:
    """What a slow reader has no room for is discarded: a ctrl-c has ended the wait for it."""
    try:
        stream.flush()
    except BlockingIOError:
        _discard(stream)


def abandon_output() -> None:
    """Discard what is buffered: the interpreter would complain about it at its exit."""
    try:
        _discard(sys.stdout)
    except (OSError, ValueError, AttributeError):  # there is no stdout to discard
        pass


def _discard(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(text: str) -> None:
    if sys.stdout is not None:
        try:
            _put(sys.stdout, text)
        except OSError as error:
            raise OutputLost(error) from error


def _put(stream: TextIO, text: str) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:  # another program's own stream
        stream.write(text)
        return
    _put_bytes(buffer, text.encode(stream.encoding, stream.errors or "strict"))
    if stream.line_buffering:
        _flush(stream)


def _put_bytes(buffer: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            taken: int | None = buffer.write(left)
        except BlockingIOError as error:
            left = left[error.characters_written :]
            taken = None
        if taken is None:  # it is full, and does not wait
            _wait_for_room(buffer)
        else:
            left = left[taken:]


def _flush(stream: TextIO) -> None:
    while True:
        try:
            return stream.flush()
        except BlockingIOError:
            _wait_for_room(stream)


def _wait_for_room(stream: TextIO | BinaryIO) -> None:
    import select

    select.select((), (stream,), ())
