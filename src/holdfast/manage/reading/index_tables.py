"""The tables of the index: made, written and copied on a connection that the index has opened."""

from __future__ import annotations

import os
import sqlite3
import zlib

from holdfast.manage.index_rows import COLUMNS, SCHEMA, as_bytes
from holdfast.manage.info import RunInfo
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.reading.runs_stamp import RunsStamp

    NewRow = tuple[tuple[Any, ...], dict[str, str], str]  # columns, tags, text

# The rows have the fields of a run: other fields are another version.
VERSION = zlib.crc32(f"4 {SCHEMA} {RunInfo._fields}".encode()) & 0x7FFFFFFF


def make_tables(connection: sqlite3.Connection) -> None:
    """With a generation of their own: no other file or memory has it."""
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(f"PRAGMA application_id = {int.from_bytes(os.urandom(4)) >> 1}")


def version_of(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def generation_of(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return found


def empty_in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    make_tables(connection)
    return connection


def copy_in_memory(connection: sqlite3.Connection) -> sqlite3.Connection | None:
    """Of the same generation; None: it can't be read."""
    private = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.backup(private)
    except sqlite3.Error:
        private.close()
        return None
    return private


def write_rows(connection: sqlite3.Connection, gone: set[str], added: dict[str, NewRow]) -> None:
    """Rows of these runs in place of those that they have; what was listed may end with that."""
    listed = _noted_without_row(connection)
    listed.update(one for one in (*gone, *added) if _delete(connection, one))
    marks = ", ".join("?" * len(COLUMNS))
    for columns, tags, text in added.values():
        number = connection.execute(f"INSERT INTO runs VALUES ({marks})", columns).lastrowid
        connection.execute("INSERT INTO infos VALUES (?, ?)", (number, text))
        pairs = [(as_bytes(key), as_bytes(value), number) for key, value in tags.items()]
        connection.executemany("INSERT INTO tags VALUES (?, ?, ?)", pairs)
    if gone or not listed.issuperset(added):  # rows are not what was listed
        connection.execute("DELETE FROM listed")


def _delete(connection: sqlite3.Connection, run_id: str) -> bool:
    """Whether there was a row."""
    found = connection.execute("SELECT rowid FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is not None:
        for table, column in (("runs", "rowid"), ("infos", "run"), ("tags", "run")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", found)
    return found is not None


def _noted_without_row(connection: sqlite3.Connection) -> set[str]:
    found = connection.execute("SELECT without_row FROM listed").fetchone()
    return set() if found is None else set(found[0].split())


def write_listing(
    connection: sqlite3.Connection, stamp: RunsStamp, ids: set[str], without_row: set[str]
) -> None:
    """Only if each of the others has its row now: somebody else may have removed some.

    What has a row and is not there loses it: from here on the rows are those of `runs/`.
    """
    (found,) = connection.execute("SELECT group_concat(id, ?) FROM runs", ["\n"]).fetchone()
    rows = (found or "").split("\n")
    rowless = ids.difference(rows)
    connection.execute("DELETE FROM listed")
    if any(map(is_id, rowless.difference(without_row))):
        return
    gone = set(rows).difference(ids) if len(rows) > len(ids) - len(rowless) else ()
    for run_id in gone:
        _delete(connection, run_id)
    values = (stamp.text, stamp.clock, " ".join(without_row))
    connection.execute("INSERT INTO listed VALUES (?, ?, ?)", values)
