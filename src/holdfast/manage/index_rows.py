"""What a row of the index holds: the text of a run, and what it is found, ordered and summed by."""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.lean import json_text, read_json
from holdfast.manage.info import RunInfo
from holdfast.manage.process_info import ProcessInfo
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.manage.selection import Selection
    from holdfast.run.directory import RunDirectory

    Condition = tuple[str, list[Any]]

FIGURES = ("tokens_in", "tokens_out", "cost_usd", "cpu_seconds")  # that `usage` adds up
COLUMNS = (
    *("id TEXT PRIMARY KEY", "stamp TEXT NOT NULL", "at TEXT NOT NULL", "ended REAL"),
    *("touched REAL", "created REAL", "name TEXT NOT NULL", "outcome TEXT", "agent BLOB"),
    *FIGURES,
)
SCHEMA = (
    f"CREATE TABLE runs ({', '.join(COLUMNS)})",
    "CREATE INDEX runs_at ON runs (at, id)",
    "CREATE TABLE infos (run INTEGER PRIMARY KEY, info TEXT NOT NULL)",
    "CREATE TABLE tags (key BLOB, value BLOB, run INTEGER)",
    "CREATE INDEX tags_key ON tags (key, value, run)",
    "CREATE INDEX tags_run ON tags (run)",
    # What was in `runs/` without a row, when it had that stamp: all else had one.
    "CREATE TABLE listed (stamp TEXT NOT NULL, clock REAL NOT NULL, without_row TEXT NOT NULL)",
)
PARTS = {  # what `usage` is divided by: what is selected for it, and from where
    None: ("NULL", ""),
    "agent": ("runs.agent", ""),
    "tag": ("tags.key, tags.value", "LEFT JOIN tags ON tags.run = runs.rowid"),
    # Of whole seconds: SQLite would round the last half of a day's last millisecond up.
    "day": ("strftime('%Y-%m-%d', CAST(created AS INTEGER), 'unixepoch', 'localtime')", ""),
}
_CHECKSUM = 8  # digits
_LARGEST_WHOLE = 1 << 40  # a sum over millions of runs stays within 64 bits
_WORDS = {
    "state": State,
    "outcome": Outcome,
    "ended_by": EndedBy,
    "loss": Loss,
    "stop_reason": StopCause,
}


class IndexRow(Record):
    """A run as the index found it: its place in an order, and when it counts."""

    number: int
    id: str
    at: str
    stamp: str


def stamp_of(directory: RunDirectory) -> str | None:
    """What changes when anything in an ended run's directory does; None: it is gone."""
    try:
        folder = os.stat(directory.path)
    except OSError:
        return None
    try:
        events, spec = os.stat(directory.events_path), os.stat(directory.spec_path)
    except OSError:
        return f"{folder.st_ino}.{folder.st_mtime_ns}"  # not as it was when it was whole
    parts = (folder.st_ino, folder.st_mtime_ns, folder.st_uid)
    files = (events.st_ino, events.st_size, events.st_mtime_ns, spec.st_size, spec.st_mtime_ns)
    return ".".join(map(str, (*parts, *files)))


def columns_of(info: RunInfo, stamp: str) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    usage = info.usage or {}
    return (
        info.id,
        stamp,
        order_of(info),
        seconds_or_none(info.ended_at),
        seconds_or_none(info.last_output_at or info.created_at),
        seconds_or_none(info.created_at),
        (info.name or info.id).lower().encode("ascii", "backslashreplace").decode(),
        info.outcome,
        None if info.agent is None else as_bytes(info.agent),
        *(_number(usage.get(name)) for name in FIGURES),
    )


def order_of(info: RunInfo) -> str:
    """What ended last comes first."""
    return info.ended_at or info.created_at or ""


def seconds_or_none(at: str | None) -> float | None:
    return None if at is None else seconds_of(at)


def as_bytes(text: str) -> bytes:
    """Text that may hold bytes that are not UTF-8, for SQLite, which refuses them."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _number(value: object) -> float | int | None:
    if isinstance(value, int) and abs(value) > _LARGEST_WHOLE:
        return float(value)
    return value if isinstance(value, (int, float)) else None


def text_of(info: RunInfo) -> str:
    """All that is known of a run, after a checksum: SQLite has none."""
    text = json_text(info.to_json())
    return f"{crc32(text.encode('ascii')):08x}{text}"


def info_from(text: str) -> RunInfo | None:
    """A run as its row has it; None: no row that we wrote."""
    try:
        checksum, text = text[:_CHECKSUM], text[_CHECKSUM:]
        if crc32(text.encode("ascii")) != int(checksum, 16):
            return None
        return info_of(read_json(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def info_of(fields: dict[str, Any]) -> RunInfo:
    """A run from what `to_json` made of it; all kinds of errors for anything else."""
    for name, kind in _WORDS.items():
        fields[name] = None if fields[name] is None else kind(fields[name])
    workload = fields["workload"]
    fields["workload"] = None if workload is None else ProcessInfo.from_json(workload)
    fields["wrappers"] = [ProcessInfo.from_json(one) for one in fields["wrappers"]]
    return RunInfo(**fields)


def quoted(path: str) -> str:
    """For a URI of SQLite's. `urllib` would take longer to load than the listing takes."""
    return "".join(
        chr(byte) if byte < 128 and byte not in b"%?#" else f"%{byte:02x}"
        for byte in os.fsencode(path)
    )


def part_and_sums(by: str | None, row: tuple[Any, ...]) -> tuple[str | None, list[Any]]:
    """What a row of sums is of, and the sums."""
    if by == "tag":
        key, value, *sums = row
        return None if key is None else f"{as_text(key)}={as_text(value)}", sums
    part, *sums = row
    return as_text(part) if by == "agent" and part is not None else part, sums


def conditions(selection: Selection) -> Condition:
    """What a row must be: all have ended. Never less than what fits."""
    if not selection.is_of_ended:
        return "1", []  # a record that was damaged since is unknown now: each is looked at
    wanted = [
        _one_of("outcome", selection.outcomes),
        _one_of("agent", _all_bytes(selection.agents)),
        *(_has_tag(key, _all_bytes(values)) for key, values in selection.tags.items()),
    ]
    if selection.since is not None:
        wanted.append(("(ended IS NULL OR ended >= ?)", [selection.since]))
    if selection.names is not None:
        wanted.append(("is_called(name)", []))
    found = [condition for condition in wanted if condition is not None]
    return (
        " AND ".join([text for text, _ in found] or ["1"]),
        [value for _, values in found for value in values],
    )


def _all_bytes(values: Iterable[str] | None) -> list[bytes] | None:
    return None if values is None else list(map(as_bytes, values))


def _one_of(column: str, values: Iterable[Any] | None) -> Condition | None:
    if values is None:
        return None
    listed = list(values)
    return f"{column} IN ({', '.join('?' * len(listed))})", listed


def _has_tag(key: str, values: list[bytes] | None) -> Condition:
    value = _one_of("value", values) or ("1", [])
    query = f"runs.rowid IN (SELECT run FROM tags WHERE key = ? AND {value[0]})"
    return query, [as_bytes(key), *value[1]]
