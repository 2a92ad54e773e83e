"""Writes to stdout and stderr so that neither odd text nor a closed stream ends in a traceback.

stdout is for results, stderr for diagnostics and hints. The reader of our stdout may close it at
any time: that is raised as OutputLost and ends the command quietly.
"""

from __future__ import annotations

import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_never_waits = False  # stdout


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
    global _never_waits
    _never_waits = not os.get_blocking(1)  # whoever shares it may need that: it stays so
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
        sys.stdout.flush()
        if (unbuffered := _unbuffered()) is not None:
            for part in parts:
                _write_whole(unbuffered, part)
            return
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputLost(error) from error


def complain(text: str) -> None:
    """A diagnostic; dropped if stderr is closed too."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(_harmless(text) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):  # closed, or full: there is nowhere left to say it
            pass


def ask(question: str) -> str:
    """What a person answers; the question is no output."""
    if sys.stderr is None or sys.stdin is None:
        return ""
    sys.stderr.write(_harmless(question))
    sys.stderr.flush()
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
            sys.stdout.flush()
        except OSError as error:
            raise OutputLost(error) from error


def are_flushed() -> bool:
    """Whether nothing is left that the interpreter would write, or fail to write, at its exit."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return False
    return True


def abandon_output() -> None:
    """Discard what is buffered: the interpreter would complain about it at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):  # there is no stdout to discard
        pass


def _write(text: str) -> None:
    stdout = sys.stdout
    if stdout is not None:
        try:
            if (unbuffered := _unbuffered()) is not None:
                _write_whole(unbuffered, text.encode(stdout.encoding, stdout.errors or "strict"))
            else:
                stdout.write(text)
        except OSError as error:
            raise OutputLost(error) from error


def _unbuffered() -> io.RawIOBase | None:
    """stdout where Python does not look how much of a write was taken, or gives up the rest.

    With PYTHONUNBUFFERED, as containers often have it, a full disk or a limit would cut the output
    off unnoticed; where another program has set O_NONBLOCK, a reader that is slower than we are.
    """
    buffer: object = getattr(sys.stdout, "buffer", None)
    if isinstance(buffer, io.RawIOBase):
        return buffer
    if _never_waits and isinstance(buffer, io.BufferedWriter):
        raw: io.RawIOBase = buffer.raw
        return raw
    return None


def _write_whole(unbuffered: io.RawIOBase, data: bytes) -> None:
    left = memoryview(data)
    while left:
        taken = unbuffered.write(left)
        if taken is None:  # it is full, and does not wait
            import select

            select.select((), (unbuffered,), ())
        else:
            left = left[taken:]
