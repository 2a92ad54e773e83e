"""The last lines that a run wrote, for people: few, short, without secrets or escape sequences.

The shim records them with an ending that is no success, so that a list can show why without
opening a log. One bounded read of each file, which never waits; what can't be read is None.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.lean import json_text
from holdfast.process.clock import seconds_of
from holdfast.run.redaction import redact_text, redact_values, secrets_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

    LastOutput = dict[str, list[str] | None]

WINDOW_BYTES = 16 * 1024  # of each file: more than the lines need, so that a secret is met whole
MOST_LINES = 10
MOST_CHARACTERS = 240  # of a line
MOST_BYTES = 1500  # of a file's lines as JSON: both fit the room that is kept for an ending

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_last_output(directory: RunDirectory, spec: RunSpec) -> LastOutput | None:
    """The last lines of stderr (None: it is in the output too) and of the output; None: neither
    has any, or nobody can tell which words of them are secrets."""
    errors_end = _read(directory.stderr_path) if spec.wanted.split_stderr else None
    output_end = _read(directory.output_path)
    if not any(end and end[0] for end in (errors_end, output_end)):
        return None
    secrets = _secrets(spec)
    if secrets is None:
        return None
    errors, output = (_lines_of(end, secrets) for end in (errors_end, output_end))
    return {"stderr": errors, "output": output} if errors or output else None


def _secrets(spec: RunSpec) -> list[str] | None:
    """What the run was given to keep; None: its file of secrets can't be read any more, or has
    changed since, so that other words than those in it may be secrets."""
    known = secrets_in(spec.env)
    path = spec.wanted.secret_env_file
    if path is None:
        return known
    from holdfast.env_file import read_secret_env_file

    try:
        kept = read_secret_env_file(path).values()
        has_changed = os.stat(path).st_ctime > seconds_of(spec.created_at)
    except (HoldfastError, OSError):
        return None
    return None if has_changed else [*known, *kept]


def _read(path: str) -> tuple[bytes, bool] | None:
    """The end of a file, and whether something is before it; None: it can't be read."""
    try:
        fd = os.open(path, _OPEN)
    except OSError:
        return None
    try:
        begin = max(0, os.fstat(fd).st_size - WINDOW_BYTES)
        return os.pread(fd, WINDOW_BYTES, begin), begin > 0
    except OSError:  # a directory, a pipe, a bad disk
        return None
    finally:
        os.close(fd)


def _lines_of(end: tuple[bytes, bool] | None, secrets: Iterable[str]) -> list[str] | None:
    return None if end is None else last_lines(end[0], secrets, is_cut=end[1])


def last_lines(data: bytes, secrets: Iterable[str] = (), *, is_cut: bool = False) -> list[str]:
    """The last lines that are not empty; `is_cut`: the data may begin within a line. Pure."""
    text = data.decode("utf-8", "replace")
    if is_cut:
        # The rest of a line, or of a word: what made it a secret may be cut off.
        text = text.partition("\n" if "\n" in text.rstrip("\n") else " ")[2]
    text = redact_text(redact_values(_without_sequences(text), secrets))
    lines = [shown for line in text.split("\n") if (shown := _shown(line))][-MOST_LINES:]
    while len(json_text(lines)) > MOST_BYTES:
        # One line alone is too long only if it is nearly all emoji: 12 bytes for each.
        lines = lines[1:] or [lines[0][: MOST_BYTES // 12 - 1]]
    return lines


def _without_sequences(text: str) -> str:
    """Colours are dropped; a move to the right is a space, any other move a new line."""
    if "\x1b" not in text and "\x9b" not in text:
        return text
    import re

    sequences = (
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*([@-~]|$)"
        r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # titles, links and other texts
        r"|\x1b[ -/]*[0-~]?"
    )
    return re.sub(sequences, lambda found: _MOVES.get(found[1] or "", ""), text)


_MOVES = {**dict.fromkeys("CGI", " "), **dict.fromkeys("ABEFHJdf", "\n")}


def _shown(line: str) -> str:
    """A line as it was left: what carriage returns wrote over is gone."""
    written = line.rstrip("\r").rpartition("\r")[2]
    plain = "".join(one if one.isprintable() else " " if one == "\t" else "" for one in written)
    plain = plain.rstrip()
    return plain if len(plain) <= MOST_CHARACTERS else f"{plain[: MOST_CHARACTERS - 1]}…"
