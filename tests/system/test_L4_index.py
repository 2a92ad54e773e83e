"""L4: whatever befalls the index, runs and their endings are unharmed, and the listing heals."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from holdfast.manage.listing import list_runs, place_of, select_runs
from holdfast.manage.runs import Runs
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.locks import wait_for_lock
from tests.support.features import needs
from tests.support.history import DAY, make_ended, make_history, template_of
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import known, over
from tests.support.running import stop
from tests.support.waiting import eventually
from tests.system import index_scenes

MANY = 60  # more than are read without an index
OWN_MOUNTS = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})


@pytest.fixture
def home():
    home = Home.locate().prepare()
    make_history(home, MANY)
    return home


def _names(holdfast, *words):
    runs = holdfast("ls", "--all", "--json", *words, expect=0).json["runs"]
    return [run["name"] for run in runs]


def _rows(home):
    with sqlite3.connect(f"file:{home.index_path}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    connection.close()
    return count


def _lives_through(holdfast, home, spoil):
    """A run is started before and ends after the index is spoilt; then it is listed and healed."""
    _names(holdfast)
    holdfast("run", "-n", "a", "sh", "-c", "sleep 0.3; exit 7", expect=0)
    spoil(home)
    holdfast("run", "-n", "b", "true", expect=0)
    assert over("a").exit_code == 7
    assert over("b").exit_code == 0
    names = _names(holdfast)
    assert len(names) == MANY + 3
    assert {"a", "b"} <= set(names)
    assert _names(holdfast) == names
    return names


def test_L4_the_index_is_made_by_the_first_listing_and_kept(holdfast, home):
    assert not os.path.exists(home.index_path)
    names = _names(holdfast)
    assert len(names) == MANY + 1
    assert names[-1] == f"old-{MANY - 1}", "newest first"
    assert _rows(home) == MANY + 1
    made = os.stat(home.index_path).st_mtime_ns
    assert _names(holdfast) == names
    assert os.stat(home.index_path).st_mtime_ns == made, "nothing was to be added"


def test_L4_deleted(holdfast, home):
    _lives_through(holdfast, home, lambda home: os.unlink(home.index_path))
    assert _rows(home) == MANY + 3


@pytest.mark.parametrize(
    "content", [b"", b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_L4_corrupt(holdfast, home, content):
    _lives_through(holdfast, home, lambda home: Path(home.index_path).write_bytes(content))
    assert _rows(home) == MANY + 3


def test_L4_corrupt_in_the_middle(holdfast, home):
    def spoil(home):
        size = os.path.getsize(home.index_path)
        with open(home.index_path, "r+b") as file:
            file.seek(4096)
            file.write(os.urandom(size - 4096))

    _lives_through(holdfast, home, spoil)
    assert _rows(home) == MANY + 3


@pytest.mark.parametrize("by_end", [False, True])
def test_L4_damaged_while_it_is_read(home, by_end):
    """More runs than are read at once: the rest of the listing comes from the directories."""
    make_history_more(home, 300)
    expected = [info.id for info in select_runs(home, by_end=by_end)]
    assert _rows(home) == len(expected)
    listing = select_runs(home, by_end=by_end)
    found = [next(listing).id for _ in range(5)]
    size = os.path.getsize(home.index_path)
    with open(home.index_path, "r+b") as file:
        file.write(os.urandom(size))
    found += [info.id for info in listing]
    assert found == expected
    assert [info.id for info in select_runs(home, by_end=by_end)] == expected
    assert _rows(home) == len(expected), "healed"


def make_history_more(home, count):
    template = template_of(home)
    for number in range(count):
        make_ended(home, template, time.time() - (40 + number) * DAY, f"older-{number}")


def test_L4_another_is_writing_it(home):
    """Who can't write goes on in memory, with the rows that there are."""
    with wait_for_lock(f"{home.index_path}.lock", 30):
        listed = [info.name for info in select_runs(home, by_end=True)]
        assert not os.path.exists(home.index_path)
    assert len(listed) == MANY + 1
    assert [info.name for info in select_runs(home, by_end=True)] == listed
    make_history_more(home, 2)
    with wait_for_lock(f"{home.index_path}.lock", 30):
        assert len(list(select_runs(home, by_end=True))) == MANY + 4
        assert _rows(home) == MANY + 1


def test_L4_a_question_for_unknown_runs_looks_at_each(holdfast, home):
    """An ending does not change; of a record that was damaged since, no row can tell."""
    _names(holdfast)
    directory = RunDirectory(home, Runs(home.path).get("old-3").id)
    os.truncate(directory.events_path, 100)
    assert _names(holdfast, "--state", "unknown") == ["old-3"]
    assert _names(holdfast, "--state", "unknown", "-n", "1") == ["old-3"]
    assert "old-3" not in _names(holdfast, "--state", "ended")


def test_L4_another_version(holdfast, home):
    def spoil(home):
        connection = sqlite3.connect(home.index_path)
        connection.execute("DROP TABLE runs")
        connection.execute("CREATE TABLE runs (something TEXT)")
        connection.execute("PRAGMA user_version = 77")
        connection.commit()
        connection.close()

    _lives_through(holdfast, home, spoil)
    assert _rows(home) == MANY + 3


def test_L4_not_a_file_at_all(holdfast, home):
    def spoil(home):
        os.unlink(home.index_path)
        os.mkdir(home.index_path)

    _lives_through(holdfast, home, spoil)
    os.rmdir(home.index_path)
    _names(holdfast)
    assert _rows(home) == MANY + 3


def test_L4_locked(holdfast, home):
    _names(holdfast)
    connection = sqlite3.connect(home.index_path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        holdfast("run", "-n", "a", "sh", "-c", "exit 7", expect=0)
        assert over("a").exit_code == 7
        assert len(_names(holdfast)) == MANY + 2  # which waits for no lock for ever
    finally:
        connection.execute("ROLLBACK")
        connection.close()
    assert len(_names(holdfast)) == MANY + 2
    assert _rows(home) == MANY + 2


def test_L4_a_row_is_void_when_its_directory_changed(holdfast, home):
    _names(holdfast)
    before = {info.name: info for info in list_runs(home)}
    directory = RunDirectory(home, before["old-3"].id)
    os.truncate(directory.events_path, 100)
    gone = RunDirectory(home, before["old-4"].id)
    os.rename(gone.path, f"{home.path}/elsewhere")
    listed = {info.name: info for info in list_runs(home)}
    assert listed["old-3"].state == "unknown"
    assert "old-4" not in listed
    assert len(listed) == MANY
    os.rename(f"{home.path}/elsewhere", gone.path)
    assert "old-4" in {info.name for info in list_runs(home)}


def test_L4_rows_that_lie_are_not_believed(holdfast, home):
    """The index holds no truth: text that is no run is read again from the directory."""
    _names(holdfast)
    connection = sqlite3.connect(home.index_path)
    connection.execute("UPDATE infos SET info = '{}' WHERE run % 2 = 0")
    connection.execute("UPDATE runs SET stamp = 'x' WHERE rowid % 3 = 0")
    connection.commit()
    connection.close()
    assert len(_names(holdfast)) == MANY + 1


@pytest.mark.usefixtures("home")
def test_L4_selectors_find_through_the_index(holdfast):
    holdfast("run", "-n", "a", "--tag", "k=v", "sh", "-c", "exit 7", expect=0)
    over("a")
    for _ in range(2):
        assert _names(holdfast, "--tag", "k=v") == ["a"]
        assert _names(holdfast, "--outcome", "failed") == ["a"]
        assert len(_names(holdfast, "--outcome", "succeeded")) == MANY + 1
        assert len(_names(holdfast, "--since", "10d")) < MANY
        assert _names(holdfast, "-n", "3")[0] == "a"
        assert len(_names(holdfast, "-n", "3")) == 3


def test_L4_a_plain_listing_reads_no_history(holdfast, home):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    holdfast("run", "-n", "b", "true", expect=0)
    over("b")
    runs = holdfast("ls", "--json", expect=0).json["runs"]
    assert {run["name"] for run in runs} == {"a", "b", "template"}
    assert not os.path.exists(home.index_path)
    assert f"{MANY} older" in holdfast("ls", expect=0).stdout
    stop(holdfast, "a")


def test_L4_a_run_that_ended_lately_is_listed_however_old_it_is(holdfast, home):
    """The marker's time, not the id's, says that it ended in the last day."""
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    run_id = known("a").id
    stop(holdfast, "a")
    marker = f"{home.recent_path}/{run_id}"
    eventually(lambda: os.path.exists(marker), why="it is marked as recent")
    assert "a" in {run["name"] for run in holdfast("ls", "--json").json["runs"]}

    os.utime(marker, (time.time() - 2 * 86400,) * 2)
    assert "a" not in {run["name"] for run in holdfast("ls", "--json").json["runs"]}
    holdfast("run", "-n", "b", "true", expect=0)  # its shim sweeps the old marker away
    eventually(lambda: not os.path.exists(marker), why="the old marker is swept away")
    assert "a" in _names(holdfast)


def test_L4_read_only(home):
    needs("root")
    facts = run_in(OWN_MOUNTS, index_scenes.list_read_only, home=home.path)
    assert facts == {"plain": 1, "all": MANY + 1, "codes": [0, 0], "index": False}


def test_L4_on_a_full_disk(tmp_path):
    needs("root")
    path = tmp_path / "small"
    path.mkdir()
    facts = run_in(OWN_MOUNTS, index_scenes.list_on_a_full_disk, path=str(path), many=MANY)
    assert facts["exit_code"] == 7, "the run's ending needs no index"
    assert facts["listed_full"] == MANY + 2
    assert facts["listed_later"] == MANY + 2
    assert facts["rows_later"] == MANY + 2


def _change(home, statement, *values):
    connection = sqlite3.connect(home.index_path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("words", [("ls", "--all"), ("usage", "--json")])
def test_L4_a_row_of_which_only_a_part_is_there(holdfast, home, words):
    """The number of the lost part is given to the next run: then all is made anew."""
    _names(holdfast)
    _change(home, "DELETE FROM runs WHERE rowid = (SELECT max(rowid) FROM runs)")
    holdfast(*words, expect=0)
    assert len(_names(holdfast)) == MANY + 1
    assert _rows(home) == MANY + 1


def test_L4_a_part_of_a_row_in_memory(home):
    """What is copied into memory, as it can't be written, has the same damage."""
    listed = list_runs(home)
    _change(home, "DELETE FROM runs WHERE rowid = (SELECT max(rowid) FROM runs)")
    with wait_for_lock(f"{home.index_path}.lock", 30):
        assert list(select_runs(home, by_end=True)) == sorted(listed, key=place_of, reverse=True)
    for _ in range(2):  # the first finds the damage, when it stores what is missing
        assert len(list_runs(home)) == MANY + 1
    assert _rows(home) == MANY + 1


SPOILT = {
    "token": ("f1.", "f1.Z"),
    "time": ('created_at":"20', 'created_at":"2O'),
    "number": ('"log_bytes":', '"log_bytes":7'),
}


@pytest.mark.parametrize("where", SPOILT)
def test_L4_a_damaged_byte_of_a_row(holdfast, home, where):
    before = holdfast("ls", "--all", "--json", expect=0).json["runs"]
    for run in ("1", "run"):  # of one run, of all
        _change(
            home, f"UPDATE infos SET info = replace(info, ?, ?) WHERE run = {run}", *SPOILT[where]
        )
        assert holdfast("ls", "--all", "--json", expect=0).json["runs"] == before
        assert len(holdfast("ls", "--all", expect=0).stdout.splitlines()) > MANY
    connection = sqlite3.connect(home.index_path)
    query = "SELECT count(*) FROM infos WHERE instr(info, ?)"
    assert connection.execute(query, [SPOILT[where][1]]).fetchone() == (0,), "healed"
    connection.close()


@pytest.mark.parametrize("by_end", [True, False])
def test_L4_a_file_that_is_changed_in_place_or_gone(home, by_end):
    """The directory's time tells only of files that come and go. A run without one is there."""
    by_name = {info.name: RunDirectory(home, info.id) for info in list_runs(home)}
    spec = Path(by_name["old-3"].spec_path)
    spec.write_text(spec.read_text().replace('"schema": 1', '"schema": 9'))
    Path(by_name["old-4"].spec_path).write_text("{")
    os.unlink(by_name["old-5"].events_path)
    os.unlink(by_name["old-6"].spec_path)
    fresh = {info.id: info.state for info in list_runs(home, limit=None, closely=False)}
    for _ in range(2):
        listed = {info.id: info.state for info in select_runs(home, by_end=by_end)}
        assert listed == fresh
    os.unlink(home.index_path)
    assert {info.id: info.state for info in list_runs(home)} == fresh
    changed = [by_name[f"old-{number}"].id for number in (3, 4, 5, 6)]
    assert [fresh[one] for one in changed if one in fresh] == ["unknown"] * 4
