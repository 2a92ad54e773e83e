"""The index: what ended runs were, in SQLite, so that a long history is not read again and again.

It holds no truth. A row counts only while the run's directory is as it was when the row was made;
a file that is missing, damaged, locked, of another version or not writable is gone round: then the
index of one listing is in memory, and the next that can makes the file anew. Written under a lock
of its own, and never made anew in place.

A file may be replaced between two looks at it, and the other has other rows. So each has a
generation, a random number: rows of two are never taken for those of one.
"""

from __future__ import annotations

import os

from holdfast.manage.index_rows import (
    FIGURES,
    PARTS,
    IndexRow,
    columns_of,
    conditions,
    info_from,
    part_and_sums,
    quoted,
    text_of,
)
from holdfast.manage.reading.index_file import is_busy, is_damaged, remove_index
from holdfast.manage.reading.index_tables import (
    VERSION,
    copy_in_memory,
    empty_in_memory,
    generation_of,
    make_tables,
    version_of,
    write_listing,
    write_rows,
)
from holdfast.run.locks import take_lock
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

    from holdfast.manage.info import RunInfo
    from holdfast.manage.reading.index_tables import NewRow
    from holdfast.manage.reading.runs_stamp import RunsStamp
    from holdfast.manage.selection import Selection
    from holdfast.run.home import Home

_BUSY_SECONDS = 0.2  # then the directories are read instead
_PAGE = 256  # rows at once: no lock is held while they are looked at
_FEW = 500  # ids that are asked for by name
_BATCH = 1000  # rows that are held until they are written


class IndexLost(Exception):
    """It could not be read to its end, or is another now. What it said so far counts."""


class Index:
    """One look at the index, and what is to be added to it. Use as a context manager."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._path = home.index_path
        self._connection: sqlite3.Connection | None = None
        self._generation: int | None = None  # of what is open
        self._relied_on: int | None = None  # the generation that has told of rows, or got some
        self._is_private = False  # in memory, since the file can't be used
        self._must_rebuild = False
        self._doubted: int | None = None  # the generation that has to be made anew, if it has one
        self._added: dict[str, NewRow] = {}
        self._gone: set[str] = set()
        self._listed: tuple[RunsStamp, set[str], set[str]] | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None or kind is GeneratorExit:  # the caller may have had enough
            self.store()
        self._close()

    # What it knows

    def ids(self) -> list[str]:
        """Every run that has a row. IndexLost."""
        # One text: a hundred thousand rows would take five times as long.
        # The separator is a value and not char(10), which SQLite would work out for each.
        found = self._rows("SELECT group_concat(id, ?) FROM runs", ["\n"])
        text: str = found[0][0] if found and found[0][0] else ""
        return text.split("\n") if text else []

    def listed_without_row(self, stamp: RunsStamp, active: Iterable[str]) -> set[str] | None:
        """The runs without a row, among these and those that a valid listing has noted; None: there
        is no such listing."""
        self._begin()
        noted = self._listing(stamp)
        try:
            return None if noted is None else self._without_row({*noted, *active})
        except IndexLost:
            return None

    def oldest_listed(self, stamp: RunsStamp, after: str, most: int) -> list[str] | None:
        """The first ids after that one in a valid listing; None: there is none."""
        rows = "SELECT id FROM runs WHERE id > ? ORDER BY id LIMIT ?"
        ids = self._listing(stamp, f"SELECT group_concat(id, ?) FROM ({rows})", "\n", after, most)
        return None if ids is None else sorted(i for i in filter(is_id, ids) if i > after)[:most]

    def _listing(self, stamp: RunsStamp, ids: str = "NULL", *values: str | int) -> set[str] | None:
        """What a valid listing has noted as without a row, as `ids` selects it.

        One statement: what removes a row in between removes the listing with it.
        """
        query = f"SELECT clock, without_row, ({ids}) FROM listed WHERE stamp = ?"
        try:
            found = self._rows(query, [*values, stamp.text])
        except IndexLost:
            return None
        if not found or not stamp.goes_on_from(found[0][0]):
            return None
        return {*found[0][1].split(), *(found[0][2] or "").split()}

    def without_row(self, ids: set[str]) -> set[str]:
        """Those of these runs that have none; other names in it do not count.

        From here on it is IndexLost where the others might not have theirs any more.
        """
        self._begin()
        try:
            return self._without_row(ids)
        except IndexLost:
            self._relied_on = None
            return ids

    def _without_row(self, ids: set[str]) -> set[str]:
        if len(ids) > _FEW:
            return ids.difference(self.ids())
        wanted = set(filter(is_id, ids))
        marks = ", ".join("?" * len(wanted))
        found = self._rows(f"SELECT id FROM runs WHERE id IN ({marks})", wanted)
        return wanted.difference(run_id for (run_id,) in found)

    def rows(self, selection: Selection, *, by_end: bool) -> Iterator[IndexRow]:
        """The runs that may fit, the newest or last ended first. IndexLost on the way.

        Whether they do is for the caller to say: an ending without a time may count or not.
        """
        where, values = conditions(selection)
        self._define(selection)
        order, after = "id DESC", "id < ?"
        if by_end:
            order, after = "at DESC, id DESC", "(at, id) < (?, ?)"
        query = f"SELECT rowid, id, at, stamp FROM runs WHERE {where} AND {{}} ORDER BY {order}"
        page = self._rows(f"{query.format('1')} LIMIT {_PAGE}", values)
        while page:
            yield from (IndexRow(*row) for row in page)
            _, run_id, at, _ = page[-1]
            last = [at, run_id] if by_end else [run_id]
            page = self._rows(f"{query.format(after)} LIMIT {_PAGE}", [*values, *last])

    def info(self, row: IndexRow) -> RunInfo | None:
        """The run of a row; None: it has none that we wrote."""
        found = self._rows("SELECT info FROM infos WHERE run = ?", [row.number])
        info = info_from(found[0][0]) if found else None
        return info if info is not None and info.id == row.id else None

    def names(self) -> list[tuple[str, str]]:
        """Id and name, in lower case, of every run that has a row. IndexLost."""
        return self._rows("SELECT id, name FROM runs")

    def sums(
        self, since: float | None, by: str | None, without: set[str]
    ) -> list[tuple[str | None, list[Any]]]:
        """By agent, tag or day, how many runs, and of each figure sum and count. IndexLost.

        None stands for no agent, no tag, no day. `without`: rows that don't count.
        """
        part, join = PARTS[by]
        figures = ", ".join(f"sum({name}), count({name})" for name in FIGURES)
        where, values = ("1", []) if since is None else ("coalesce(ended, touched) >= ?", [since])
        if without:
            self._rows("CREATE TEMP TABLE without_ (id TEXT PRIMARY KEY)")
            for run_id in without:
                self._rows("INSERT INTO without_ VALUES (?)", [run_id])
            where += " AND id NOT IN (SELECT id FROM without_)"
        head = "1, 2" if by == "tag" else "1"
        found = self._rows(
            f"SELECT {part}, count(*), {figures} FROM runs {join} WHERE {where} GROUP BY {head}",
            values,
        )
        if without:
            self._rows("DROP TABLE without_")
        return [part_and_sums(by, row) for row in found]

    # What is added to it

    def add(self, info: RunInfo, stamp: str) -> None:
        """Keep what an ended run was; the stamp is from before it was read."""
        self._gone.discard(info.id)
        self._added[info.id] = (columns_of(info, stamp), info.tags, text_of(info))

    @property
    def is_full(self) -> bool:
        """Whether enough was added to be stored or settled."""
        return len(self._added) >= _BATCH

    def remove(self, ids: Iterable[str]) -> None:
        """Forget runs that are gone, or have not ended after all."""
        self._gone.update(ids)

    def note_listing(self, stamp: RunsStamp, ids: set[str], without_row: set[str]) -> None:
        """These are all runs, and all but some have rows: the next listing need not list them."""
        self._listed = (stamp, ids, without_row)

    def settle(self) -> None:
        """From here on `rows` has what was added: from the file, or else from memory."""
        if not self._added or self._store():
            return
        import sqlite3

        self._go_private()
        assert self._connection is not None
        try:
            self._write(self._connection)
        except sqlite3.Error as error:  # what was copied is damaged
            self._doubt(error)
            self._write(self._connection)

    def store(self) -> None:
        """Write to the file what was added, if that can be done now; else it is forgotten."""
        if not self._store() and self._is_private and self._must_rebuild:
            self._discard()
        self._added.clear()

    def become_private(self) -> None:
        """Go on in memory, with what the file has as far as it can be read."""
        self._begin()
        self._go_private()

    def _begin(self) -> None:
        """Nothing is relied on; after a loss, what is there by now may serve."""
        if self._relied_on is not None and not (self._connection or self._must_rebuild):
            self._relied_on = None
            self._open()
        self._relied_on = None

    def _go_private(self) -> None:
        """A copy of the generation that was relied on, or another one, that has no rows."""
        if self._is_private:
            return
        if self._connection is None and not self._must_rebuild:
            self._open()
        private = None if self._connection is None else copy_in_memory(self._connection)
        self._close()
        self._is_private = True
        self._open_private(private or empty_in_memory())

    def _open_private(self, private: sqlite3.Connection) -> None:
        self._connection, self._generation = private, generation_of(private)

    # The file

    def _open(self) -> None:
        import sqlite3

        if os.path.islink(self._path):  # not ours: it is replaced, and not followed
            self._must_rebuild = True
            return
        try:
            uri = f"file:{quoted(self._path)}?mode=ro"
            self._connection = sqlite3.connect(
                uri, timeout=_BUSY_SECONDS, uri=True, isolation_level=None
            )
        except sqlite3.Error:
            return  # missing, or not to be opened: writing will show which
        try:
            version = version_of(self._connection)
            self._generation = generation_of(self._connection)
        except sqlite3.Error as error:
            self._doubt(error)
            return
        if version != VERSION:
            self._must_rebuild = True
            self._close()
        elif self._relied_on not in (None, self._generation):
            self._close()  # it was replaced: rows that are counted on are not in this one

    def _rows(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        if self._relied_on not in (None, self._generation):
            raise IndexLost
        if self._connection is None:
            return []
        import sqlite3

        try:
            found = self._connection.execute(query, tuple(values)).fetchall()
        except sqlite3.Error as error:
            self._doubt(error)
            raise IndexLost from None
        self._relied_on = self._generation
        return found

    def _define(self, selection: Selection) -> None:
        """`is_called(name)`: exactly what a selection without an index would say."""
        if selection.names is not None and self._connection is not None:
            self._connection.create_function(
                "is_called", 1, selection.is_called, deterministic=True
            )

    def _doubt(self, error: sqlite3.Error) -> None:
        """Go on without it. Busy is no fault of the file's; everything else is."""
        self._must_rebuild = not is_busy(error)
        self._doubted = self._generation
        self._close()
        if self._is_private:
            self._open_private(empty_in_memory())

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._generation = None

    def _discard(self) -> None:
        """The next listing is to make the file anew."""
        try:
            lock = take_lock(f"{self._path}.lock")
            if lock is not None:
                with lock:
                    remove_index(self._path)
        except OSError:
            return

    def _store(self) -> bool:
        """Write to the file what is to be written; False: it can't be now."""
        if self._is_private:
            return False
        if not (self._added or self._gone or self._must_rebuild or self._listed):
            return True
        import sqlite3

        try:
            lock = take_lock(f"{self._path}.lock")
        except OSError:  # a read-only home is read without an index
            return False
        if lock is None:
            return False  # it is being written: the next listing adds what is missing
        with lock:
            try:
                self._store_locked()
            except sqlite3.DatabaseError as error:
                # A full or read-only disk leaves the old rows, which are still worth reading.
                if is_damaged(error):
                    remove_index(self._path)
                return False
            except OSError:
                return False
        return True

    def _store_locked(self) -> None:
        import sqlite3

        self._close()
        is_doubted, self._must_rebuild = self._must_rebuild, False
        self._open()  # another may have made it anew meanwhile, or one of another version
        must_remove = self._must_rebuild or (is_doubted and self._generation == self._doubted)
        self._close()
        if must_remove:
            remove_index(self._path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(self._path, flags, 0o600))
        path = os.fsencode(self._path)
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            self._write(connection)
        finally:
            connection.close()
        self._must_rebuild = False
        self._open()

    def _write(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        if version_of(connection) != VERSION:
            make_tables(connection)
        write_rows(connection, self._gone, self._added)
        if self._listed is not None:
            # A row may be of a run that was made since: then the stamp is another.
            if self._listed[0].still_holds(self._home):
                write_listing(connection, *self._listed)
            self._listed = None
        generation = generation_of(connection)
        connection.execute("COMMIT")
        if self._relied_on is None:
            self._relied_on = generation
        self._added.clear()
        self._gone.clear()
