"""L4: a long history is not listed again while nothing came into it or went; never a wrong list."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time

import pytest

from holdfast.manage.index import Index
from holdfast.manage.listing import list_runs, select_runs
from holdfast.manage.reading import runs_stamp
from holdfast.manage.reading.runs_stamp import RunsStamp
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from tests.support.history import DAY, make_ended, make_history, template_of
from tests.support.running import ended, run_of

MANY = 60


@pytest.fixture
def listings(monkeypatch) -> list[str]:
    """What was listed, each time; a directory counts as quiet soon, and any index as large."""
    monkeypatch.setattr("holdfast.manage.listing._MANY_BYTES", 1)
    monkeypatch.setattr(runs_stamp, "_QUIET_SECONDS", 0.05)
    found: list[str] = []
    plain = Home.entries

    def entries(home: Home) -> set[str]:
        found.append(home.runs_path)
        return plain(home)

    monkeypatch.setattr(Home, "entries", entries)
    return found


@pytest.fixture
def home(listings) -> Home:
    home = Home.locate().prepare()
    make_history(home, MANY)
    _settle(home, listings)
    return home


def _names(home: Home, **how) -> list[str]:
    return [str(info.name) for info in select_runs(home, by_end=True, closely=False, **how)]


def _settle(home: Home, listings: list[str]) -> list[str]:
    """List until a listing stands for the directory as it is."""
    time.sleep(0.1)
    _names(home)
    names = _names(home)
    listings.clear()
    return names


def _by_directories(home: Home) -> set[str]:
    return {RunDirectory(home, one).read_spec().name for one in os.listdir(home.runs_path)}


def test_L4_what_was_listed_is_not_listed_again(home, listings):
    names = _names(home)
    assert (len(names), listings) == (MANY + 1, [])
    assert [info.name for info in list_runs(home, limit=5)]
    assert listings == []
    assert set(names) == _by_directories(home)


def test_L4_a_run_that_came_or_went_is_seen(home, listings):
    made = make_ended(home, template_of(home), time.time() - 3 * DAY, "came")
    assert "came" in _names(home)
    assert listings
    _settle(home, listings)
    shutil.rmtree(f"{home.runs_path}/{made}")
    assert "came" not in _names(home)
    assert listings
    assert set(_names(home)) == _by_directories(home)


def test_L4_one_for_another_is_seen(home, listings):
    template = template_of(home)
    one = make_ended(home, template, time.time() - 3 * DAY, "one")
    _settle(home, listings)
    shutil.rmtree(f"{home.runs_path}/{one}")
    make_ended(home, template, time.time() - 3 * DAY, "another")
    found = os.stat(home.runs_path)
    os.utime(home.runs_path, ns=(found.st_atime_ns, found.st_mtime_ns - 10**9))
    names = _names(home)
    assert ("one" in names, "another" in names) == (False, True)


def test_L4_an_active_run_is_looked_at_each_time(home, listings, holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    assert _settle(home, listings)[0] == "a"
    holdfast("stop", "a", expect=0)
    for _ in range(2):  # by what was listed, then by its row
        found = {info.name: info.state for info in select_runs(home, by_end=True, closely=False)}
        assert (found["a"], len(found)) == ("ended", MANY + 2)
    assert listings == []


def test_L4_a_row_that_is_removed_ends_the_listing(home, listings, holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")
    _settle(home, listings)
    with open(run_of("a").directory.events_path, "a") as file:
        file.write("no event\n")
    for _ in range(3):
        assert "a" in _names(home)
    assert set(_names(home)) == _by_directories(home)


def test_L4_a_directory_that_has_just_changed_is_listed_each_time(home, listings, monkeypatch):
    monkeypatch.setattr(runs_stamp, "_QUIET_SECONDS", 60)
    make_ended(home, template_of(home), time.time() - 3 * DAY, "came")
    listings.clear()
    for _ in range(2):
        assert len(_names(home)) == MANY + 3  # with two templates
    assert len(listings) == 2


def test_L4_coarse_times_and_a_clock_that_was_set_back_stand_for_nothing(home, listings):
    stamp = RunsStamp.of(home)
    assert stamp is not None
    assert stamp.is_quiet
    assert not stamp.replace(changed_ns=stamp.changed_ns // 10**9 * 10**9).is_quiet
    assert not stamp.replace(changed_ns=time.time_ns() + 10**12).is_quiet
    with sqlite3.connect(home.index_path) as connection:
        connection.execute("UPDATE listed SET clock = clock + 5")
    connection.close()
    assert len(_names(home)) == MANY + 1
    assert listings


def test_L4_a_listing_is_kept_only_if_each_run_has_its_row(home):
    stamp = RunsStamp.of(home)
    assert stamp is not None
    ids = home.entries()
    new = make_ended(home, template_of(home), time.time() - 3 * DAY, "new")
    for without_row, is_kept in (({new}, True), (set(), False)):
        with Index(home) as index:
            index.note_listing(stamp, {*ids, new, "no-id"}, without_row)
        with Index(home) as index:
            assert (index.listed_without_row(stamp, ()) is not None) is is_kept


def test_L4_an_index_that_is_lost_on_the_way_is_made_up_for(home):
    found = select_runs(home, by_end=True, closely=False)
    names = [next(found).name]
    with open(home.index_path, "wb") as file:
        file.write(b"x" * 9000)
    names += [info.name for info in found]
    assert len(names) == len(set(names)) == MANY + 1
