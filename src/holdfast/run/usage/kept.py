"""`usage.jsonl`: what ended runs used, one line for each, kept when they are removed.

A shim adds the line of its run when the ending is recorded; whoever removes a run sees that it is
there, and on disk, before the run goes. So no line is missing, and one may be there twice: the
last one of an id counts. Lines are added without a lock. A file that is full becomes
`usage.1.jsonl`, and the one before it goes: the newest 4 MiB of lines stay.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.errors import UnsafeFile
from holdfast.lean import read_json
from holdfast.record import Record
from holdfast.run.atomic_files import encode, sync_directory
from holdfast.run.locks import take_lock
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

LARGEST_BYTES = 4 << 20
_LONGEST_LINE = 8 << 10  # longer ones lose their tags
_FIGURES = ("tokens_in", "tokens_out", "cost_usd", "cpu_seconds")
_TEXTS = ("name", "agent", "created_at", "at", "outcome")
_ADD = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class KeptLines(Record):
    """What a home has kept: the line of each run, and how many lines could not be read."""

    by_id: dict[str, Json]
    damaged: int


def usage_line(run_id: str, spec: RunSpec | None, facts: RunFacts | None) -> Json:
    """The line of a run; None in it: not known."""
    ending = (facts.ending if facts is not None else None) or {}
    measured = {**(ending.get("usage") or {}), **(facts.usage if facts is not None else {})}
    created = None if spec is None else spec.created_at
    ended = None if facts is None else facts.ended_at or ending.get("last_seen_at")
    return {
        "schema": 1,
        "id": run_id,
        "name": None if spec is None else spec.name,
        "agent": None if spec is None else spec.agent,
        "tags": {} if spec is None else spec.tags,
        "created_at": created,
        "at": ended or created,
        "outcome": None if facts is None else facts.outcome,
        **{name: measured.get(name) for name in _FIGURES},
    }


def add_line(home: Home, line: Json, *, sync: bool = False) -> None:
    """Append it, in one write. `sync`: it survives a power cut from here on."""
    data = encode(line)
    if len(data) > _LONGEST_LINE:
        data = encode({**line, "tags": {}})
    fd = _open(home.usage_path, _ADD)
    try:
        # The first newline ends what a full disk tore.
        data = b"\n" + data + b"\n"
        written = os.write(fd, data)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), home.usage_path)
        if sync:
            os.fsync(fd)
        is_full = os.fstat(fd).st_size > LARGEST_BYTES
    finally:
        os.close(fd)
    if sync:
        sync_directory(home.path)
    if is_full:
        _rotate(home)


def _rotate(home: Home) -> None:
    """One at a time; a writer that has the file open adds to it under its new name."""
    lock = take_lock(f"{home.usage_path}.lock")
    if lock is None:
        return
    with lock:
        if os.stat(home.usage_path).st_size > LARGEST_BYTES:
            os.rename(home.usage_path, home.older_usage_path)


def read_kept(home: Home) -> KeptLines:
    """All lines that are there. UnsafeFile when one of the files is not ours."""
    found: dict[str, Json] = {}
    damaged = 0
    for path in (home.older_usage_path, home.usage_path):
        for text in _content(path).split(b"\n"):
            line = _checked(text)
            if line is not None:
                found[line["id"]] = line
            elif text.strip():
                damaged += 1
    return KeptLines(found, damaged)


class UsageKeeper:
    """Sees that runs have their line before they are removed; reads the file once for many."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: set[str] | None = None

    def keep(self, line: Json) -> None:
        """On disk for good when this returns. OSError, or UnsafeFile."""
        if self._known is None:
            known = set(read_kept(self._home).by_id)
            for path in (self._home.older_usage_path, self._home.usage_path):
                _sync(path)  # a shim does not wait for the disk
            self._known = known
        if line["id"] not in self._known:
            add_line(self._home, line, sync=True)
            self._known.add(line["id"])


def _open(path: str, flags: int) -> int:
    """UnsafeFile for anything but a plain file: a link is not followed, a FIFO not waited for."""
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _odd(path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _odd(path)
    return fd


def _odd(path: str) -> UnsafeFile:
    return UnsafeFile(
        f"{path} is not a file that Holdfast wrote",
        hint=f"see who made it: ls -l {path}; then remove it",
        path=path,
    )


def _content(path: str) -> bytes:
    try:
        fd = _open(path, _READ)
    except FileNotFoundError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _sync(path: str) -> None:
    try:
        fd = _open(path, _READ)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _checked(text: bytes) -> Json | None:
    """A line that can be counted; None: damaged, or another's."""
    if not text.startswith(b"{"):
        return None
    try:
        line = read_json(str(text, "utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not isinstance(line.get("id"), str) or not is_id(line["id"]):
        return None
    texts = {name: line.get(name) for name in _TEXTS}
    figures = {name: line.get(name) for name in _FIGURES}
    tags = line.get("tags")
    is_sound = (
        all(one is None or isinstance(one, str) for one in texts.values())
        and all(map(_is_figure, figures.values()))
        and isinstance(tags, dict)
        and all(isinstance(one, str) for one in tags.values())
    )
    return {"id": line["id"], **texts, **figures, "tags": tags} if is_sound else None


def _is_figure(value: object) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < 1e18  # type: ignore[operator]
