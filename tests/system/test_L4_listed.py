"""L4: a long history is not listed again while nothing came into it or went; never a wrong list."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.manage.index import Index
from holdfast.manage.info import read_run
from holdfast.manage.listing import list_runs, select_runs
from holdfast.manage.reading import runs_stamp
from holdfast.manage.reading.runs_stamp import RunsStamp
from holdfast.manage.usage import totals
from holdfast.manage.usage.totals import add_up
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.usage.reading import read_kept
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
    ids = home.entries()
    new = make_ended(home, template_of(home), time.time() - 3 * DAY, "new")
    stamp = RunsStamp.of(home)
    assert stamp is not None
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


# What is added up over all of them


def _counted(home: Home, **how) -> int:
    found = add_up(home, **how)
    if how.get("by") == "day":
        assert sum(part.runs for part in found.parts.values()) == found.total.runs
    return found.total.runs


@pytest.mark.parametrize("by", [None, "agent", "tag", "day"])
def test_L4_what_is_added_up_is_not_listed_again(home, listings, by):
    for since in (None, time.time() - 20 * DAY):
        listings.clear()
        by_listing = _by_listing(home, since=since, by=by)
        assert listings
        listings.clear()
        found = add_up(home, since=since, by=by)
        assert listings == []
        assert _told(found) == _told(by_listing)


def _told(found: totals.Totals) -> dict[str, object]:
    return {part: one.to_json() for part, one in [("", found.total), *found.parts.items()]}


def _by_listing(home: Home, **how) -> totals.Totals:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "_add_listed", lambda *_: None)
        return add_up(home, **how)


def test_L4_a_run_that_is_gone_is_not_added_up_by_its_row(home, listings):
    made = make_ended(home, template_of(home), time.time() - 300 * DAY, "made")
    _settle(home, listings)
    assert _counted(home) == MANY + 3  # with two templates
    shutil.rmtree(f"{home.runs_path}/{made}")
    assert _counted(home, by="day") == MANY + 2
    assert listings
    time.sleep(0.1)
    next(select_runs(home, by_end=True, closely=False))  # which does not come to that row
    listings.clear()
    assert _counted(home, by="day") == MANY + 2
    assert listings == []


def test_L4_a_row_that_comes_when_its_run_is_gone_ends_the_listing(home, listings):
    """A slow listing has read it before it was removed, and writes its row after another one."""
    made = make_ended(home, template_of(home), time.time() - 300 * DAY, "made")
    with Index(home) as slow:
        slow.add(read_run(RunDirectory(home, made)), "the stamp of then")
        shutil.rmtree(f"{home.runs_path}/{made}")
        _settle(home, listings)
        assert (_counted(home), listings) == (MANY + 2, [])
    assert _counted(home, by="day") == MANY + 2
    assert listings


def test_L4_a_run_is_added_up_once_whether_it_goes_on_or_not(home, listings, holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    _settle(home, listings)
    assert _counted(home, by="day") == MANY + 2
    holdfast("stop", "a", expect=0)
    assert read_kept(home).by_id.keys() == {run_of("a").id, run_of("template").id}
    for _ in range(2):  # by its line, and by its row where it has none
        assert _counted(home, by="day") == MANY + 2
        Path(home.usage_path).unlink(missing_ok=True)
    assert listings == []


def test_L4_a_run_that_ends_meanwhile_is_added_up_once(home, listings, holdfast, monkeypatch):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    _settle(home, listings)
    _before_the_lines(monkeypatch, lambda: holdfast("stop", "a", expect=0))
    assert (_counted(home, by="day"), listings) == (MANY + 2, [])


@pytest.mark.parametrize("name", ["template", "old-7"])
def test_L4_a_run_that_is_removed_meanwhile_counts_as_before(
    home, listings, holdfast, monkeypatch, name
):
    _before_the_lines(monkeypatch, lambda: holdfast("rm", name, expect=0))
    assert _counted(home, by="day") == MANY + 1
    assert listings


def test_L4_a_run_that_comes_meanwhile_is_added_up(home, listings, holdfast, monkeypatch):
    _before_the_lines(monkeypatch, lambda: holdfast("run", "-n", "a", "sleep", "600", expect=0))
    assert _counted(home, by="day") == MANY + 2
    assert listings
    holdfast("stop", "a", expect=0)


def _before_the_lines(monkeypatch, act) -> None:
    """Once, as the kept lines are read."""
    todo = [act]

    def read(home: Home):
        while todo:
            todo.pop()()
        return read_kept(home)

    monkeypatch.setattr(totals, "read_kept", read)


def test_L4_what_is_damaged_in_a_listing_that_stands_is_added_up_elsewhere(home, listings):
    with sqlite3.connect(home.index_path) as connection:
        connection.execute("DROP TABLE tags")
    connection.close()
    assert _counted(home, by="tag") == MANY + 1
    assert listings


def test_L4_an_index_that_is_locked_is_not_waited_for(home, listings):
    connection = sqlite3.connect(home.index_path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    assert _counted(home, by="day") == MANY + 1
    assert listings
    connection.close()


def test_L4_an_index_of_another_version_says_nothing(home, listings):
    with sqlite3.connect(home.index_path) as connection:
        connection.execute("PRAGMA user_version = 7")
        connection.execute("UPDATE runs SET tokens_in = 1000")
    connection.close()
    assert add_up(home, by="day").total.sums.get("tokens_in") is None
    assert listings
