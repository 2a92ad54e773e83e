"""Reads the lines of `usage.jsonl`, and makes sure that a run has one before it is removed."""

from __future__ import annotations

import os

from holdfast.lean import read_json
from holdfast.record import Record
from holdfast.run.atomic_files import PLAIN, open_plain, read_plain
from holdfast.run.names import is_id
from holdfast.run.usage.kept import FIGURES, add_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.home import Home

    Json = dict[str, Any]

_TEXTS = ("name", "agent", "created_at", "at", "outcome")


class KeptLines(Record):
    """What a home has kept: the line of each run, and how many lines could not be read."""

    by_id: dict[str, Json]
    damaged: int


def read_kept(home: Home) -> KeptLines:
    """All lines that are there. UnsafeFile when one of the files is not ours."""
    found: dict[str, Json] = {}
    damaged = 0
    for path in (home.older_usage_path, home.usage_path):
        for text in read_plain(path).split(b"\n"):
            line = _checked(text)
            if line is not None:
                found[line["id"]] = line
            elif text.strip():
                damaged += 1
    return KeptLines(found, damaged)


class UsageKeeper:
    """Gives runs their line before they are removed, if it is missing; reads the file once."""

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


def _sync(path: str) -> None:
    try:
        fd = open_plain(path, os.O_RDONLY | PLAIN)
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
    figures = {name: line.get(name) for name in FIGURES}
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
