from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.errors import (
    DamagedRecord,
    HomeUnusable,
    InvalidName,
    LaterVersion,
    RunNotFound,
    UnsafeFile,
)
from holdfast.options import Wanted
from holdfast.run import home as homes
from holdfast.run.atomic_files import atomic_write
from holdfast.run.claims import claim_key, claim_name, read_name
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.locks import take_lock
from holdfast.run.names import new_id
from holdfast.run.references import find_by_name, resolve
from holdfast.run.spec import RunSpec


def make_run(home: Home, name: str = "fix", run_id: str | None = None) -> RunDirectory:
    directory = RunDirectory(home, run_id or new_id())
    directory.make()
    directory.write_spec(
        RunSpec(
            id=directory.id,
            name=name,
            host="h",
            command=("true",),
            cwd="/",
            env={"API_KEY": "s3cret"},
            agent=None,
            tags={},
            key=None,
            pty=False,
            wanted=Wanted(),
            created_at="2026-11-15T18:00:00.123456Z",
            launcher={},
        )
    )
    with claim_name(home, name) as claim:
        claim.write(directory.id)
    return directory


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home").prepare()


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# Where the home is, and whether it can be used


def test_the_home_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("HOLDFAST_HOME")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert Home.locate().path == "/home/me/.local/state/holdfast"
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert Home.locate().path == "/home/me/.local/state/holdfast"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert Home.locate().path == "/state/holdfast"
    monkeypatch.setenv("HOLDFAST_HOME", "/own")
    assert Home.locate().path == "/own"
    assert Home.locate("/given").path == "/given"


def test_a_relative_home_does_not_move_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_HOME", "state")
    assert Home.locate().path == str(tmp_path / "state")


def test_reading_does_not_make_a_home(tmp_path: Path):
    home = Home.locate(tmp_path / "none")
    assert not home.check()
    assert (home.run_ids(), home.run_ids(active=True), home.names()) == ([], [], [])
    with pytest.raises(RunNotFound):
        resolve(home, "anything")
    assert list(tmp_path.iterdir()) == []


def test_a_home_is_private(tmp_path: Path):
    home = Home.locate(tmp_path / "a" / "b").prepare()
    paths = [home.path, home.runs_path, home.active_path, home.names_path, home.keys_path]
    assert [mode_of(path) for path in paths] == [0o700] * 5
    assert home.check()


def test_L13_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(HomeUnusable, match="another user") as refusal:
        Home.locate(tmp_path).prepare()
    assert refusal.value.hint
    assert refusal.value.exit_code == 6


@pytest.mark.parametrize("kind", ["nfs4", "9p", "virtiofs", "fuse.sshfs", "fuseblk"])
def test_L13_a_file_system_whose_locks_lie_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(homes, "file_system_type", lambda *_: kind)
    with pytest.raises(HomeUnusable, match=kind):
        Home.locate(tmp_path).prepare()
    with pytest.raises(HomeUnusable):
        Home.locate(tmp_path).check()
    monkeypatch.setenv("HOLDFAST_ALLOW_REMOTE", "1")
    Home.locate(tmp_path).prepare()


def test_the_file_system_is_found_in_the_mount_table_and_by_its_number(tmp_path: Path):
    device = os.stat(tmp_path).st_dev
    assert homes.file_system_type(str(tmp_path), device)
    unlisted = os.makedev(4000, 4000)
    assert homes.file_system_type(str(tmp_path), unlisted) is None
    assert homes.file_system_type("/proc", os.stat("/proc").st_dev) == "proc"


def test_L13_a_home_that_everybody_can_write_to_is_refused(tmp_path: Path):
    tmp_path.chmod(0o777)
    with pytest.raises(HomeUnusable, match="everybody") as refusal:
        Home.locate(tmp_path).prepare()
    assert "chmod 700" in str(refusal.value.hint)


def test_L13_a_home_that_is_no_directory_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeUnusable, match="not a directory"):
        Home.locate(tmp_path / "file").prepare()
    with pytest.raises(HomeUnusable):
        Home.locate(tmp_path / "file" / "below").prepare()


def test_L13_an_unwritable_home_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(HomeUnusable, match="written"):
        Home.locate(tmp_path).prepare()


# One run's files


def test_a_spec_is_private_and_comes_back(home: Home):
    directory = make_run(home)
    assert mode_of(directory.spec_path) == 0o600
    assert mode_of(directory.path) == 0o700
    assert directory.read_spec().env == {"API_KEY": "s3cret"}
    assert RunDirectory.at(directory.path).read_spec() == directory.read_spec()


@pytest.mark.parametrize("run_id", ["", "..", "../../../x", "u" * 20, "0" * 19, "0" * 21])
def test_S6_what_is_no_id_never_becomes_a_path(home: Home, run_id: str):
    with pytest.raises(InvalidName):
        RunDirectory(home, run_id)


def test_a_run_without_a_spec_was_never_made(home: Home):
    directory = RunDirectory(home, new_id())
    directory.make()
    assert not directory.exists()
    with pytest.raises(RunNotFound):
        directory.read_spec()
    with pytest.raises(FileExistsError):
        directory.make()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_D6_a_damaged_spec_is_said_and_kept(home: Home, content: bytes):
    directory = make_run(home)
    Path(directory.spec_path).write_bytes(content)
    with pytest.raises(DamagedRecord):
        directory.read_spec()
    assert Path(directory.spec_path).read_bytes() == content


def test_D6_a_spec_of_a_later_version_is_said_and_kept(home: Home):
    directory = make_run(home)
    Path(directory.spec_path).write_text('{"schema": 99}')
    with pytest.raises(LaterVersion):
        directory.read_spec()


def test_the_active_marker(home: Home):
    directory = make_run(home)
    assert home.run_ids(active=True) == []
    directory.mark_active()
    directory.mark_active()
    assert (home.run_ids(active=True), directory.is_marked_active()) == ([directory.id], True)
    directory.unmark_active()
    directory.unmark_active()
    assert home.run_ids(active=True) == []


def test_listing_knows_ids_only(home: Home):
    ids = sorted(make_run(home, f"n{number}").id for number in range(3))
    (Path(home.runs_path) / ".hidden").mkdir()
    (Path(home.runs_path) / "not-an-id").mkdir()
    assert home.run_ids() == ids


def test_signals_are_added_and_torn_lines_left_out(home: Home):
    directory = make_run(home)
    directory.append_signal({"signal": "SIGTERM"})
    with open(directory.signals_path, "ab") as file:
        file.write(b'{"torn\n[1]\n')
    directory.append_signal({"signal": "SIGKILL"})
    assert [row["signal"] for row in directory.read_signals()] == ["SIGTERM", "SIGKILL"]
    assert mode_of(directory.signals_path) == 0o600


def test_an_announced_signal_is_told_until_its_sender_says_what_became_of_it(home: Home):
    directory = make_run(home)
    for by, fate in (("a", "announced"), ("b", "announced"), ("a", "denied")):
        directory.append_signal({"by": by, "to": "x", "signal": "SIGTERM", "fate": fate})
    assert [row["fate"] for row in directory.read_signals()] == ["announced", "denied"]


def test_S7_inner_runs_are_noted(home: Home, tmp_path: Path):
    outer, inner = make_run(home, "outer"), make_run(home, "inner")
    elsewhere = RunDirectory(Home(str(tmp_path / "another")), "f" * len(inner.id))
    assert outer.inner_runs() == []
    for run in (inner, inner, elsewhere):
        outer.add_inner(run)
    assert sorted(run.path for run in outer.inner_runs()) == sorted([inner.path, elsewhere.path])
    for damaged in (b"relative", b"/a\0b", b"\xff"):
        Path(outer.inner_path, inner.id).write_bytes(damaged)
        assert inner.path in [run.path for run in outer.inner_runs()]


def test_an_atomic_write_leaves_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = str(tmp_path / "file")
    atomic_write(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="no"):
        atomic_write(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert Path(path).read_bytes() == b"old"


# The lock


def test_a_lock_has_one_holder_and_can_be_asked_about(home: Home):
    directory = make_run(home)
    assert not directory.lock_is_held()
    lock = directory.take_lock()
    assert lock is not None
    assert directory.lock_is_held()
    assert directory.take_lock() is None
    assert directory.wait_for_lock(0.05) is None
    lock.release()
    lock.release()
    assert not lock.is_held
    assert not directory.lock_is_held()


def test_a_lock_in_a_removed_directory_is_no_lock(home: Home):
    with pytest.raises(RunNotFound):
        RunDirectory(home, new_id()).take_lock()


def test_a_symlink_is_no_lock(tmp_path: Path):
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UnsafeFile):
        take_lock(str(tmp_path / "link"))


# Names and keys


def test_a_claim_leads_to_a_run_whatever_the_case(home: Home):
    assert read_name(home, "Fix") is None
    with claim_name(home, "Fix") as claim:
        assert claim.read() is None
        run_id = new_id()
        claim.write(run_id)
        assert (claim.read(), read_name(home, "fIX")) == (run_id, run_id)
    with claim_name(home, "fix") as claim:
        assert claim.read() == run_id
        claim.remove()
    assert read_name(home, "fix") is None


def test_L12_a_key_leads_to_a_run_whatever_its_text(home: Home):
    key, run_id = "../any text\n\udcff", new_id()
    with claim_key(home, key) as claim:
        assert claim.read() is None
        claim.write(run_id)
    with claim_key(home, key) as claim:
        assert claim.read() == run_id
    assert len(os.listdir(home.keys_path)) == 1
    with claim_key(home, "another") as claim:
        assert claim.read() is None


# Which run is meant


def test_a_run_is_found_by_name_id_and_prefix(home: Home):
    old, new = make_run(home, "fix", "0" * 19 + "1"), make_run(home, "fix", "1" * 20)
    assert resolve(home, "FIX") == new.id
    assert resolve(home, old.id) == old.id
    assert resolve(home, "1111") == new.id
    assert resolve(home, old.id[:10].upper()) == old.id


def test_a_name_goes_before_an_id(home: Home):
    make_run(home, "other", "1" * 20)
    named = make_run(home, "1111", "2" * 20)
    assert resolve(home, "1111") == named.id


@pytest.mark.parametrize("reference", ["", ".", "..", "../../x", "/etc", "a/b", "a b", "-x", "a\n"])
def test_S6_a_reference_like_a_path_is_refused(home: Home, reference: str):
    with pytest.raises(InvalidName):
        resolve(home, reference)


def test_S6_an_ambiguous_prefix_is_refused(home: Home):
    make_run(home, "a", "1" * 19 + "2")
    make_run(home, "b", "1" * 19 + "3")
    with pytest.raises(InvalidName, match="2 ids") as refusal:
        resolve(home, "11111")
    assert "1" * 19 + "2" in str(refusal.value.hint)


def test_a_prefix_that_is_too_short_is_not_tried(home: Home):
    make_run(home, "a", "1" * 20)
    with pytest.raises(RunNotFound):
        resolve(home, "111")


def test_what_is_not_found_comes_with_what_is_near(home: Home):
    make_run(home, "fix-412")
    with pytest.raises(RunNotFound) as missing:
        resolve(home, "fix-421")
    assert "fix-412" in str(missing.value.hint)
    with pytest.raises(RunNotFound) as missing:
        resolve(home, "zzz")
    assert "ls --all" in str(missing.value.hint)


@pytest.mark.parametrize("content", ["3" * 20, "garbage"])
def test_a_name_that_leads_nowhere_means_its_newest_run_that_is_left(home: Home, content: str):
    run = make_run(home, "fix")
    make_run(home, "other")
    (Path(home.names_path) / "fix").write_text(content)
    assert resolve(home, "fix") == run.id
    assert find_by_name(home, "unused") is None
