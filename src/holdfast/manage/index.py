"""The index: what ended runs were, in SQLite, so that a long history is not read again and again.

It holds no truth. A row counts only while the run's directory is as it was when the row was made;
a file that is missing, damaged, locked, of another version or not writable is gone round, and made
anew by whoever can. Written under a lock of its own. The only file that knows SQLite.
"""

from __future__ import annotations

import os
import zlib

from holdfast.lean import json_text, read_json
from holdfast.manage.info import RunInfo
from holdfast.manage.process_info import ProcessInfo
from holdfast.run.facts import State
from holdfast.run.locks import take_lock
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import Self

    from holdfast.run.directory import RunDirectory
    from holdfast.run.home import Home

_BUSY_SECONDS = 0.2  # then the directories are read instead
_TABLE = "CREATE TABLE runs (id TEXT PRIMARY KEY, stamp TEXT NOT NULL, info TEXT NOT NULL)"
# The rows have the fields of a run: other fields are another version.
_VERSION = zlib.crc32(f"1 {_TABLE} {RunInfo._fields}".encode()) & 0x7FFFFFFF


def stamp_of(directory: RunDirectory) -> str | None:
    """What changes when anything in an ended run's directory does; None: it is gone."""
    try:
        folder, events = os.stat(directory.path), os.stat(directory.events_path)
    except OSError:
        return None
    parts = (folder.st_ino, folder.st_mtime_ns, folder.st_uid)
    return ".".join(map(str, (*parts, events.st_ino, events.st_size, events.st_mtime_ns)))


class Index:
    """One look at the index, and what is to be added to it. Use as a context manager."""

    def __init__(self, home: Home) -> None:
        self._path = home.index_path
        self._connection: sqlite3.Connection | None = None
        self._must_rebuild = False
        self._added: dict[str, tuple[str, str]] = {}
        self._gone: list[str] = []

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._close()
        if kind is None:
            self._write()

    def read(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The rows of these runs (sorted ids): stamp and text, which need not be true any more."""
        if self._connection is None or not ids:
            return {}
        import sqlite3

        query = "SELECT id, stamp, info FROM runs WHERE id BETWEEN ? AND ?"
        try:
            rows = self._connection.execute(query, (min(ids), max(ids))).fetchall()
        except sqlite3.Error as error:
            self._doubt(error)
            return {}
        return {run_id: (stamp, info) for run_id, stamp, info in rows}

    def ids(self) -> set[str]:
        """Every run that has a row."""
        if self._connection is None:
            return set()
        import sqlite3

        try:
            return {run_id for (run_id,) in self._connection.execute("SELECT id FROM runs")}
        except sqlite3.Error as error:
            self._doubt(error)
            return set()

    def add(self, info: RunInfo, stamp: str) -> None:
        """Keep what an ended run was; the stamp is from before it was read."""
        self._added[info.id] = (stamp, _to_text(info))

    def remove(self, ids: Iterable[str]) -> None:
        """Forget runs that are gone."""
        self._gone.extend(ids)

    def _open(self) -> None:
        import sqlite3

        if os.path.islink(self._path):  # somebody put it there: it is replaced, and not followed
            self._must_rebuild = True
            return
        try:
            uri = "file:" + _quoted(self._path) + "?mode=ro"
            connection = sqlite3.connect(uri, timeout=_BUSY_SECONDS, uri=True)
        except sqlite3.Error:
            return  # missing, or not to be opened: writing will show which
        self._connection = connection
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as error:
            self._doubt(error)
            return
        if version != _VERSION:
            self._must_rebuild = True
            self._close()

    def _doubt(self, error: sqlite3.Error) -> None:
        """Go on without it. Busy is no fault of the file's; everything else is."""
        self._must_rebuild = not _is_busy(error)
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self) -> None:
        if not (self._added or self._gone or self._must_rebuild):
            return
        import sqlite3

        try:
            lock = take_lock(f"{self._path}.lock")
        except OSError:  # a read-only home is read without an index
            return
        if lock is None:
            return  # somebody is writing it: the next listing adds what is missing
        with lock:
            try:
                self._store()
            except sqlite3.DatabaseError as error:
                # A full or read-only disk leaves the old rows, which are still worth reading.
                if _is_damaged(error):
                    _remove(self._path)
            except OSError:
                return

    def _store(self) -> None:
        import sqlite3

        if self._must_rebuild:
            _remove(self._path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(self._path, flags, 0o600))
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                connection.execute("DROP TABLE IF EXISTS runs")
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.executemany("DELETE FROM runs WHERE id = ?", [(one,) for one in self._gone])
            rows = [(run_id, *row) for run_id, row in self._added.items()]
            connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
        finally:
            connection.close()


_WORDS = {
    "state": State,
    "outcome": Outcome,
    "ended_by": EndedBy,
    "loss": Loss,
    "stop_reason": StopCause,
}


def info_from(text: str) -> RunInfo | None:
    """A run as its row has it; None: no row that we wrote."""
    try:
        fields = read_json(text)
        for name, kind in _WORDS.items():
            fields[name] = None if fields[name] is None else kind(fields[name])
        workload = fields["workload"]
        fields["workload"] = None if workload is None else ProcessInfo.from_json(workload)
        fields["wrappers"] = [ProcessInfo.from_json(one) for one in fields["wrappers"]]
        return RunInfo(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _to_text(info: RunInfo) -> str:
    return json_text(info.to_json())


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _is_damaged(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_SCHEMA"))


def _remove(path: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue
