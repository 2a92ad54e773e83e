"""Writes to stdout and stderr so that neither odd text nor a closed stream ends in a traceback.

stdout is for what was asked, stderr for diagnostics and hints. Whoever reads our stdout may leave
at any time: that is raised as OutputLost and ends the command quietly.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class OutputLost(Exception):
    """stdout can't be written to. `is_quiet`: the reader left, which is nobody's fault."""

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
    import json

    _write(json.dumps(document) + "\n")


def say_bytes(parts: Iterable[bytes]) -> None:
    """Output that must stay byte-exact."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise OutputLost(error) from error


def complain(text: str) -> None:
    """A diagnostic. When even stderr is closed there is nobody left to tell."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(_harmless(text) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            pass


def _harmless(text: str) -> str:
    """Diagnostics quote what runs call themselves and what their files say."""
    if text.isprintable():
        return text
    from holdfast.manage.plaintext import printable_lines

    return printable_lines(text)


def warn(text: str, hint: str | None = None) -> None:
    """Something that did not stop the command, but should be known."""
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


def abandon_output() -> None:
    """Send what is still buffered nowhere: the interpreter would complain about it at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass


def _write(text: str) -> None:
    if sys.stdout is not None:
        try:
            sys.stdout.write(text)
        except OSError as error:
            raise OutputLost(error) from error
