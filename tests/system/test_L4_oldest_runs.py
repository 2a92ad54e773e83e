"""L4: the first events of a long history, and those after a cursor, without a look at all of it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time

import pytest

from holdfast.manage.index import Index
from holdfast.manage.listing import select_runs
from holdfast.manage.reading import events, oldest_runs, runs_stamp
from holdfast.manage.reading.events import all_events
from holdfast.manage.reading.runs_stamp import RunsStamp
from holdfast.process.clock import iso_time
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.names import id_seconds
from tests.support.history import DAY, make_ended, make_history, template_of
from tests.support.running import run_of

MANY, SOON = 12, 5


@pytest.fixture
def listings(monkeypatch) -> list[str]:
    """Each listing of the directory; one counts as quiet soon, any index as large, few as many."""
    monkeypatch.setattr(oldest_runs, "_MANY_BYTES", 1)
    monkeypatch.setattr("holdfast.manage.listing._MANY_BYTES", 1)
    monkeypatch.setattr("holdfast.manage.listing._READ_DIRECTLY", 1)
    monkeypatch.setattr(runs_stamp, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(events, "_SOON", SOON)
    found: list[str] = []
    for name in ("run_ids", "oldest_ids"):
        monkeypatch.setattr(Home, name, _noting(found, getattr(Home, name)))
    return found


def _noting(found, plain):
    def listed(home, *how, **more):
        if not more.get("active"):
            found.append(home.runs_path)
        return plain(home, *how, **more)

    return listed


@pytest.fixture
def specs(monkeypatch) -> list[str]:
    """The runs that were looked into."""
    found: list[str] = []
    plain = RunDirectory.read_spec

    def read_spec(directory):
        found.append(directory.id)
        return plain(directory)

    monkeypatch.setattr(RunDirectory, "read_spec", read_spec)
    return found


@pytest.fixture
def home(listings) -> Home:
    home = Home.locate().prepare()
    make_history(home, MANY)
    _settle(home)
    listings.clear()
    return home


def _settle(home: Home) -> None:
    """List until a listing stands for the directory as it is."""
    time.sleep(0.1)
    for _ in range(2):
        assert list(select_runs(home, by_end=True, closely=False))


def _read(home: Home, **how):
    return list(all_events(home, follow=False, **how))


def _places(found):
    return [(event.run, event.seq) for event in found]


def _by_directories(home: Home) -> list[tuple[str, int]]:
    """All events as they lie there: the runs of a history come one after the other."""
    return [
        (run_id, event.seq)
        for run_id in sorted(os.listdir(home.runs_path))
        for event in RunDirectory(home, run_id).read_events().events
    ]


def test_L4_the_first_events_take_no_listing(home, listings, specs):
    stream = all_events(home, follow=False)
    first = [next(stream) for _ in range(3)]
    assert _places(first) == _by_directories(home)[:3]
    assert (listings, len(specs)) == ([], 1)
    assert _places(first) + _places(stream) == _by_directories(home)
    assert len(listings) == 1


def test_L4_without_an_index_the_first_events_take_one_listing(home, listings, specs):
    os.unlink(home.index_path)
    stream = all_events(home, follow=False)
    assert _places([next(stream)]) == _by_directories(home)[:1]
    assert (len(listings), len(specs)) == (1, 1)


@pytest.mark.parametrize("is_indexed", [True, False])
def test_L4_any_cursor_goes_on_exactly_after_its_event(home, is_indexed):
    if not is_indexed:
        os.unlink(home.index_path)
    found = _read(home)
    assert _places(found) == _by_directories(home)
    for number, event in enumerate(found):
        assert _places(_read(home, since=event.cursor)) == _places(found[number + 1 :])


@pytest.mark.parametrize("is_indexed", [True, False])
def test_L4_what_is_done_with_is_not_looked_into_again(home, listings, specs, is_indexed):
    if not is_indexed:
        os.unlink(home.index_path)
    cursor = _read(home)[-1].cursor
    listings.clear()
    specs.clear()
    assert _read(home, since=cursor) == []
    assert _read(home, since="now") == []
    young = run_of("template").id  # it began within the settling time: each reader looks again
    assert set(specs) <= {young}


def test_L4_of_a_long_rest_what_is_done_with_is_not_looked_into(home, specs):
    found = _read(home)
    oldest = sorted(os.listdir(home.runs_path))
    cursor = next(event.cursor for event in found if event.run == oldest[3])
    specs.clear()
    assert {event.run for event in _read(home, since=cursor)} == set(oldest[3:])
    assert set(specs) == set(oldest[3:])


@pytest.mark.parametrize("is_indexed", [True, False])
def test_L4_a_run_that_was_begun_waits_for_all_before_it(home, is_indexed):
    """What comes late, from slow launchers, may be more than is looked for at first."""
    if not is_indexed:
        os.unlink(home.index_path)
    oldest = sorted(os.listdir(home.runs_path))
    long_lived = RunDirectory(home, oldest[SOON]).events_path  # the last of those found at first
    with open(long_lived) as file:
        *lines, last = file.read().splitlines()
    last = json.dumps({**json.loads(last), "at": iso_time(id_seconds(oldest[SOON + 2]) + 1)})
    with open(long_lived, "w") as file:
        file.write("\n".join([*lines, last, ""]))
    expected = [place for place in _by_directories(home) if place[0] > oldest[0]]
    expected.remove((oldest[SOON + 3], 1))
    found = _read(home, since=f"e1.{oldest[0]}.{oldest[SOON + 3]}-1")
    assert sorted(_places(found)) == sorted(expected)
    assert [event.at for event in found] == sorted(event.at for event in found)
    expected = _places(found)
    for number, event in enumerate(found):
        assert _places(_read(home, since=event.cursor)) == expected[number + 1 :]


def test_L4_the_index_and_the_directory_say_the_same(home):
    os.mkdir(f"{home.runs_path}/0-no-id")
    ids = home.run_ids()
    for run_id in (ids[0], ids[4]):  # without a row
        with open(RunDirectory(home, run_id).events_path, "a") as file:
            file.write("no event\n")
    _settle(home)
    with sqlite3.connect(home.index_path) as connection:
        connection.execute("UPDATE listed SET without_row = without_row || ' ../../etc'")
    connection.close()
    stamp = RunsStamp.of(home)
    assert stamp is not None
    with Index(home) as index:
        for number, after in enumerate(["", *ids], 0):
            for most in (1, 3, SOON, len(ids), 100):
                expected = ids[number:][:most]
                assert home.oldest_ids(after, most) == expected
                assert index.oldest_listed(stamp, after, most) == expected
        assert index.oldest_listed(stamp.replace(text="another"), "", 3) is None


def test_L4_a_run_that_came_before_the_others_is_read_first(home, listings):
    came = make_ended(home, template_of(home), time.time() - 90 * DAY, "came")
    assert _read(home)[0].run == came
    assert listings


def test_L4_a_run_without_a_row_is_read_in_its_turn(home, listings):
    """Its events are damaged: it has not ended for good, and the index has it not."""
    oldest = sorted(os.listdir(home.runs_path))
    for run_id in (oldest[1], oldest[SOON + 2]):
        with open(RunDirectory(home, run_id).events_path, "a") as file:
            file.write("no event\n")
    _settle(home)
    with sqlite3.connect(home.index_path) as connection:
        (without_row,) = connection.execute("SELECT without_row FROM listed").fetchone()
    connection.close()
    assert set(without_row.split()) == {oldest[1], oldest[SOON + 2]}
    listings.clear()
    stream = all_events(home, follow=False)
    count = len(RunDirectory(home, oldest[0]).read_events().events) + 1
    first = [next(stream) for _ in range(count)]
    assert (first[-1].run, listings) == (oldest[1], [])
    assert _places(first) + _places(stream) == _by_directories(home)


def test_L4_a_row_that_is_lost_while_it_is_read_loses_no_event(home, listings):
    """Whoever removes a row removes the listing that counts on it."""
    found = all_events(home, follow=False)
    given = [next(found)]
    oldest = sorted(os.listdir(home.runs_path))
    with open(RunDirectory(home, oldest[2]).events_path, "a") as file:
        file.write("no event\n")
    assert list(select_runs(home, closely=False))  # which removes its row
    assert _places(given) + _places(found) == _by_directories(home)
    listings.clear()
    found = all_events(home, follow=False)
    given = [next(found)]
    assert len(listings) == 1
    assert _places(given) + _places(found) == _by_directories(home)


def test_L4_a_run_that_went_is_left_out(home):
    cursor = _read(home)[0].cursor
    gone = min(os.listdir(home.runs_path))
    assert gone in cursor
    shutil.rmtree(f"{home.runs_path}/{gone}")
    for _ in range(2):
        found = _read(home, since=cursor)
        assert _places(found) == _by_directories(home)
        assert not any(gone in event.cursor for event in found)
        _settle(home)


@pytest.mark.parametrize("damage", [b"", b"x" * 9000])
def test_L4_events_do_without_an_index_that_is_damaged(home, listings, damage):
    with open(home.index_path, "wb") as file:
        file.write(damage)
    found = all_events(home, follow=False)
    given = [next(found)]
    assert len(listings) == 1
    assert _places(given) + _places(found) == _by_directories(home)


def test_L4_a_clock_that_was_set_back_stands_for_nothing(home, listings):
    with sqlite3.connect(home.index_path) as connection:
        connection.execute("UPDATE listed SET clock = clock + 5")
    connection.close()
    next(all_events(home, follow=False))
    assert listings


def test_L4_a_follower_reads_all_and_then_what_comes(home, runs):
    found = runs.events()
    expected = _by_directories(home)
    assert _places([next(found) for _ in expected]) == expected
    later = runs.start(["true"], name="later")
    assert next(found).run == later.id
    found.close()


def test_L4_a_cursor_of_many_runs_that_go_on_keeps_the_order(home, holdfast):
    """What was begun beyond the first runs waits for those before it."""
    for number in range(SOON + 2):
        holdfast("run", "-n", f"going{number}", "sleep", "600", expect=0)
    cursor = _read(home)[-1].cursor
    holdfast("stop", "--all", expect=0)
    rest = _read(home, since=cursor)
    assert {event.name for event in rest} == {f"going{number}" for number in range(SOON + 2)}
    assert [event.at for event in rest] == sorted(event.at for event in rest)
    for number, event in enumerate(rest):
        assert _places(_read(home, since=event.cursor)) == _places(rest[number + 1 :])
