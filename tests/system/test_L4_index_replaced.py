"""L4: no listing and no sum misses a run when the index is removed or replaced while it is made."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.manage.index import Index, IndexLost
from holdfast.manage.listing import ask_index, list_runs, select_runs
from holdfast.manage.reading.digests import Digests
from holdfast.manage.reading.runs_stamp import RunsStamp
from holdfast.manage.selection import Selection
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.locks import wait_for_lock
from tests.support.history import DAY, make_ended, make_history, template_of

MANY = 60  # more than are read without an index
BATCH = 20


@pytest.fixture
def home(monkeypatch):
    monkeypatch.setattr("holdfast.manage.index._BATCH", BATCH)
    home = Home.locate().prepare()
    make_history(home, MANY)
    return home


def _remove(home):
    os.unlink(home.index_path)


def _replace(home):
    """As another process would that makes it anew: with rows of a few runs alone."""
    _remove(home)
    with Index(home) as index:
        for info in list_runs(home, limit=3):
            index.add(info, "x")


def _of_another_version(home):
    _remove(home)
    connection = sqlite3.connect(home.index_path)
    connection.executescript("CREATE TABLE runs (id TEXT); PRAGMA user_version = 77")
    connection.close()


GOES = (_remove, _replace, _of_another_version)


class Spoiling(Digests):
    """Spoils the index when that many runs were read."""

    def __init__(self, home, after, spoil):
        super().__init__(home)
        self._after, self._spoil, self._spoilt = after, spoil, home

    def examine(self, directory):
        self._after -= 1
        if not self._after:
            self._spoil(self._spoilt)
        return super().examine(directory)


class SpoilingSelection(Selection):
    """The same when a run that is not kept in the index is asked whether it fits."""

    def fits(self, info):
        if os.path.exists(Home.locate().index_path):
            _replace(Home.locate())
        return super().fits(info)


def _ids(home):
    return sorted(home.run_ids(), reverse=True)


@pytest.mark.parametrize("by_end", [True, False])
@pytest.mark.parametrize("go", GOES)
@pytest.mark.parametrize("after", [BATCH + 5, MANY])
def test_L4_between_two_batches(home, go, by_end, after):
    listing = select_runs(home, by_end=by_end, closely=False, digests=Spoiling(home, after, go))
    assert sorted((info.id for info in listing), reverse=True) == _ids(home)
    assert len(list(select_runs(home, closely=False))) == MANY + 1


@pytest.mark.parametrize("by_end", [True, False])
@pytest.mark.parametrize("go", GOES)
def test_L4_rows_of_an_earlier_listing(home, go, by_end):
    """Only what is new is read: the others have their rows in a file that goes meanwhile."""
    assert len(list(select_runs(home))) == MANY + 1
    template = template_of_one(home)
    for number in range(2 * BATCH):
        make_ended(home, template, time.time() - (40 + number) * DAY, f"older-{number}")
    spoiling = Spoiling(home, BATCH + 5, go)
    listing = list(select_runs(home, by_end=by_end, closely=False, digests=spoiling))
    assert sorted((info.id for info in listing), reverse=True) == _ids(home)


def template_of_one(home):
    return template_of(Home.locate(f"{home.path}-other").prepare())


def test_L4_a_sum_over_a_file_that_is_replaced(home):
    names = sorted(str(info.name) for info in list_runs(home))
    _remove(home)
    unknown = RunDirectory(home, next(i.id for i in list_runs(home) if i.name == "old-30"))
    _remove(home)
    os.truncate(unknown.events_path, 100)
    found, held = ask_index(home, set(_ids(home)), lambda index: index.names(), SpoilingSelection())
    assert sorted([*(name for _, name in found), *(str(info.name) for info in held)]) == names


def test_L4_another_takes_the_lock_between_two_batches(home):
    """What can't be stored any more goes on in memory, with what the file has."""
    locks = []

    def take(home):
        locks.append(wait_for_lock(f"{home.index_path}.lock", 30).__enter__())

    def take_and_remove(home):
        take(home)
        _remove(home)

    for go in (take, take_and_remove):
        spoiling = Spoiling(home, BATCH + 5, go)
        try:
            listing = list(select_runs(home, by_end=True, closely=False, digests=spoiling))
        finally:
            locks.pop().__exit__(None, None, None)
        assert len(listing) == MANY + 1
        Path(home.index_path).unlink(missing_ok=True)


def test_L4_rows_of_two_generations_are_not_taken_for_one(home):
    infos = list_runs(home)
    _remove(home)
    ids = {info.id for info in infos}
    with Index(home) as index:
        assert index.without_row(ids) == ids
        index.add(infos[0], "x")
        index.settle()
        _replace(home)
        index.add(infos[1], "x")
        index.settle()
        with pytest.raises(IndexLost):
            list(index.rows(Selection(), by_end=True))
        with pytest.raises(IndexLost):
            index.ids()
        missing = index.without_row(ids)
        rows = {row.id for row in index.rows(Selection(), by_end=True)}
        assert (missing | rows, missing & rows) == (ids, set())


def test_L4_who_has_made_it_anew_is_not_made_anew_again(home):
    list_runs(home)
    connection = sqlite3.connect(home.index_path)
    connection.execute("PRAGMA user_version = 77")
    connection.close()
    with Index(home) as index:
        assert index.ids() == []
        list_runs(home)
        made = os.stat(home.index_path).st_ino
        index.add(list_runs(home, limit=1)[0], "x")
    assert os.stat(home.index_path).st_ino == made
    with Index(home) as index:
        assert len(index.ids()) == MANY + 1


def test_L4_a_slow_listing_takes_no_row_of_a_run_that_came_after_it(home):
    """What is noted removes rows of runs that are gone: one that was made since is not gone."""
    list_runs(home)
    os.utime(home.runs_path)
    stamp, ids = RunsStamp.of(home), set(_ids(home))
    assert stamp is not None
    with Index(home) as slow:
        slow.note_listing(stamp, ids, set())
        make_ended(home, template_of_one(home), time.time() - 50 * DAY, "new")
        assert len(list_runs(home)) == MANY + 2
    with Index(home) as index:
        assert set(index.ids()) == set(_ids(home))
