"""What the last list has read of running runs: the next one need not read their events again.

It holds no truth, as the index: a digest counts while the run's directory and events are as they
were (`stamp_of`), its shim holds its lock, and the machine was not started since. What changes
without an event is looked at each time: figures, output, how long it has lasted. A file that is
missing, damaged, not ours or of another version is gone round, and made anew: it has a checksum,
since what is damaged may still be JSON.

A list shows no processes and no attempts: a digest is without them. Most runs were asked for with
the same options: these are kept once.
"""

from __future__ import annotations

import os
from zlib import crc32

from holdfast.lean import read_json
from holdfast.manage.durations import began_boottime, deadline_of
from holdfast.manage.index_rows import stamp_of
from holdfast.manage.info import (
    RunInfo,
    examine_run,
    last_output_at,
    notify_failure,
    stat_or_none,
)
from holdfast.process import this_host
from holdfast.process.clock import boottime
from holdfast.run.atomic_files import atomic_write, encode
from holdfast.run.facts import State
from holdfast.run.live import read_live

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.manage.state import RunView
    from holdfast.run.directory import RunDirectory
    from holdfast.run.home import Home

    Json = dict[str, Any]

_VERSION = 3
_CHECKSUM = b',"checksum":'  # the last field, of all bytes before it
# Of a run that a digest tells of: what it does not hold, and is not looked at each time.
_UNKNOWN: Json = {
    **dict.fromkeys(RunInfo._fields),
    "state": State.RUNNING,
    "attempts": [],
    "wrappers": [],
}
_LEFT_OUT = (
    *("state", "attempts", "shim", "workload", "wrappers", "wanted"),
    *("duration_seconds", "deadline_at", "last_output_at", "log_bytes", "notify_failure", "now"),
)
_STALE_SHARE = 8  # they are written again when one in this many has changed
_WRONG = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Digests:
    """Of one home, for one list."""

    def __init__(self, home: Home) -> None:
        self._home = home
        place = this_host.place()
        self._head: Json = {
            "version": _VERSION,
            "fields": list(RunInfo._fields),
            "host": place.host,
            "boot_id": place.boot_id,
        }
        self._wanted: list[Json] = []  # options, by their place in the file
        self._known: dict[str, Json] = self._read()
        self._kept: dict[str, Json] = {}
        self._fresh = 0

    def examine(self, directory: RunDirectory) -> tuple[RunInfo, RunView | None]:
        """The run as a table has it (`closely=False`); with the look at it, where it was read."""
        stamp = stamp_of(directory)
        known = self._known.get(directory.id)
        try:
            if known is not None and known["stamp"] == stamp and directory.lock_is_held():
                info = _looked_at(directory, known, self._wanted[known["wanted"]])
                self._kept[directory.id] = known
                return info, None
        except _WRONG:  # written by nobody like us
            pass
        info, view = examine_run(directory, closely=False)
        if stamp is not None and view is not None and _is_steady(info, view):
            self._kept[directory.id] = self._digest(info, view, stamp)
            self._fresh += 1
        return info, view

    def stored_after(self, found: Iterator[RunInfo]) -> Iterator[RunInfo]:
        """The same runs; what is known of them by then is written for the next list.

        Also when the reader has enough before their end: it asked for the first few.
        """
        try:
            yield from found
        finally:
            if self._fresh * _STALE_SHARE > len(self._kept):
                try:
                    content = _with_checksum(self._document())
                    atomic_write(self._home.digests_path, content, sync=False)
                except (OSError, *_WRONG):  # a read-only home, or a full disk: the next reads
                    pass

    def _read(self) -> dict[str, Json]:
        try:
            # Not followed, and not waited for, whatever lies there.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            fd = os.open(self._home.digests_path, flags)
            with open(fd, "rb", buffering=0) as file:
                is_ours = os.fstat(fd).st_uid == os.geteuid()
                document = _document_in(file.readall() or b"") if is_ours else {}
            runs: dict[str, Json] = {**document.pop("runs")}
            wanted: list[Json] = [*document.pop("wanted")]
        except (OSError, *_WRONG):
            return {}
        if document != self._head or not self._head["boot_id"]:
            return {}
        self._wanted = wanted
        return runs

    def _document(self) -> Json:
        """Of active runs, those that this list did not look at too, with the options they have."""
        active = set(self._home.run_ids(active=True))
        before = {run_id: self._known[run_id] for run_id in active & self._known.keys()}
        told = {**before, **self._kept}
        used = sorted({known["wanted"] for known in told.values()})
        places = {at: place for place, at in enumerate(used)}
        runs = {
            run_id: {**known, "wanted": places[known["wanted"]]} for run_id, known in told.items()
        }
        return {**self._head, "wanted": [self._wanted[place] for place in used], "runs": runs}

    def _digest(self, info: RunInfo, view: RunView, stamp: str) -> Json:
        document = info.to_json()
        wanted = document["wanted"]
        if wanted not in self._wanted:
            self._wanted.append(wanted)
        return {
            "stamp": stamp,
            "workloads": view.facts.workloads,
            "began": began_boottime(view.facts),
            "wanted": self._wanted.index(wanted),
            "info": {
                name: value
                for name, value in document.items()
                if value is not None and name not in _LEFT_OUT
            },
        }


def _with_checksum(document: Json) -> bytes:
    data = encode(document)[:-1]
    return b"%b%b%d}" % (data, _CHECKSUM, crc32(data))


def _document_in(content: bytes) -> Json:
    """One of _WRONG where the checksum is of other bytes."""
    data, _, checksum = content.rpartition(_CHECKSUM)
    if content != b"%b%b%d}" % (data, _CHECKSUM, crc32(data)):
        raise ValueError(checksum)
    document: Json = read_json(str(data + b"}", "utf-8"))
    return document


def _is_steady(info: RunInfo, view: RunView) -> bool:
    """Whether only events change what is not looked at each time."""
    return (
        info.state is State.RUNNING
        and info.stop_reason is None
        and info.queue is None
        and info.cleanup is None
        and began_boottime(view.facts) is not None
    )


def _looked_at(directory: RunDirectory, known: Json, wanted: Json) -> RunInfo:
    fields: Json = known["info"]
    began, log = known["began"], stat_or_none(directory.output_path)
    timeout, interval = wanted["timeout_seconds"], wanted["sample_interval_seconds"]
    live = read_live(directory.trace_path, known["workloads"], interval, with_usage=False)
    changing: Json = {
        "wanted": wanted,
        "duration_seconds": round(max(0.0, boottime() - began), 3),
        "deadline_at": None
        if timeout is None
        else deadline_of(timeout, fields["started_at"], began),
        "last_output_at": last_output_at(directory, log, is_split=wanted["split_stderr"]),
        "log_bytes": None if log is None else log.st_size,
        "notify_failure": None if wanted["notify"] is None else notify_failure(directory),
        "now": live.now,
    }
    return RunInfo(**{**_UNKNOWN, **fields, **changing})
