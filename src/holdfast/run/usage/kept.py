"""`usage.jsonl`: what ended runs used, one line for each, kept when they are removed.

A shim adds the line of its run when the ending is recorded; a removal makes sure that it is there,
and on disk, before the run goes. So no line is missing, and one may be there twice: the
last one of an id counts. Lines are added without a lock. A file that is full becomes
`usage.1.jsonl`, and the one before it goes: the newest 4 MiB of lines stay. Read in `reading.py`.
"""

from __future__ import annotations

import errno
import os

from holdfast.run.atomic_files import PLAIN, encode, open_plain, sync_directory
from holdfast.run.locks import take_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

LARGEST_BYTES = 4 << 20
_LONGEST_LINE = 8 << 10  # longer ones lose their tags
FIGURES = ("tokens_in", "tokens_out", "cost_usd", "cpu_seconds")
_ADD = os.O_WRONLY | os.O_APPEND | os.O_CREAT | PLAIN


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
        **{name: measured.get(name) for name in FIGURES},
    }


def add_line(home: Home, line: Json, *, sync: bool = False) -> None:
    """Append it, in one write. `sync`: it survives a power cut from here on."""
    data = encode(line)
    if len(data) > _LONGEST_LINE:
        data = encode({**line, "tags": {}})
    fd = open_plain(home.usage_path, _ADD)
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
