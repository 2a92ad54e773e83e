"""A home that is missing, or that others could write to: refused, told, and no link is followed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import HomeUnusable, UnsafeFile
from holdfast.manage.index import Index
from holdfast.manage.removal.archive import archive_run
from holdfast.manage.removal.deletion import delete
from holdfast.manage.removal.remove import remove_run
from holdfast.manage.removal.retention import RetentionFate, clean
from holdfast.manage.starting.config import Retention
from holdfast.run.home import Home
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, ROOT, python_for

NAMELESS = 54321  # nobody has an entry in the password database for it


# --- no home directory at all -----------------------------------------------------------------


@pytest.mark.parametrize("home", [None, "", "relative"])
@pytest.mark.parametrize("words", [["run", "true"], ["ls"], ["doctor"]])
def test_without_a_home_directory_nothing_is_kept_in_the_current_one(shared, words, home):
    """Another directory would mean another home, and a second copy of each run."""
    needs("root")
    if words == ["doctor"] and home is not None:
        return
    cwd = shared / "cwd"
    cwd.mkdir()
    os.chown(cwd, NAMELESS, NAMELESS)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python_for(NAMELESS), "-m", "holdfast", *words],
        cwd=cwd,
        env=environment if home is None else {**environment, "HOME": home},
        user=NAMELESS,
        group=NAMELESS,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (1 if words == ["doctor"] else 6), done.stderr
    said = done.stdout + done.stderr
    assert "HOLDFAST_HOME, XDG_STATE_HOME and HOME" in said
    assert "set HOLDFAST_HOME to" in said
    assert list(cwd.iterdir()) == []


def test_the_password_database_stands_in_for_home(monkeypatch):
    for name in ("HOLDFAST_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    import pwd

    there = pwd.getpwuid(os.getuid()).pw_dir
    assert Home.locate().path == f"{there}/.local/state/holdfast"
    monkeypatch.setenv("HOME", "")
    assert Home.locate().path == f"{there}/.local/state/holdfast"


def test_no_configuration_is_read_below_the_current_directory(monkeypatch):
    from holdfast.agents.places import user_profile_directory
    from holdfast.manage.starting.config import config_path

    for name in ("XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(name, "relative")
    assert os.path.isabs(config_path())
    assert os.path.isabs(user_profile_directory())


# --- a home that others can write to ----------------------------------------------------------


@pytest.mark.parametrize(("mode", "who"), [(0o770, "its group"), (0o720, "its group"), (0o777, "")])
def test_a_home_that_others_can_write_to_is_refused(holdfast, tmp_path, mode, who):
    home = tmp_path / "open"
    home.mkdir()
    home.chmod(mode)
    for words in (["run", "true"], ["ls"], ["clean"], ["stop", "x"], ["rm", "x"]):
        done = holdfast(*words, env={"HOLDFAST_HOME": str(home)}, expect=6)
        assert f"can be written to by {who}" in done.stderr
        assert f"chmod 700 {home}" in done.stderr
    assert list(home.iterdir()) == []
    home.chmod(0o750)  # to be read by others is its owner's business
    holdfast("ls", env={"HOLDFAST_HOME": str(home)}, expect=0)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory with something in it that is nobody's business."""
    victim = tmp_path / "victim"
    (victim / "deep").mkdir(parents=True)
    (victim / "deep" / "precious").write_text("mine")
    return victim


FOLDERS = ["runs", "active", "recent", "names", "keys", "removed", "archive", "worktrees"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_link_that_was_planted_in_the_home_is_refused_and_not_followed(
    holdfast, runs, victim, name
):
    """Planted while the home was open to a group; it is closed by now."""
    home = Path(runs.home.path)
    runs.home.prepare()
    if (home / name).is_dir():
        (home / name).rmdir()
    (home / name).symlink_to(victim)
    for words in (["clean", "--keep", "0"], ["run", "true"], ["ls"]):
        done = holdfast(*words, expect=6)
        assert f"has a {name} that is a symbolic link" in done.stderr
        assert f"ls -ld {home}/{name}" in done.stderr
        assert "chmod" not in done.stderr, "which would change what the link leads to"
    assert (victim / "deep" / "precious").read_text() == "mine"
    (home / name).unlink()


@pytest.mark.parametrize("what", ["a FIFO", "a link"])
def test_a_list_of_the_abandoned_that_is_no_file_is_refused_and_not_waited_for(
    holdfast, runs, victim, what
):
    path = Path(runs.home.prepare().path) / "abandoned.jsonl"
    if what == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(victim / "deep" / "precious")
    for words in (["run", "-n", "a", "true"], ["recover"]):
        done = holdfast(*words, expect=4)
        assert f"{path} is not a file that Holdfast wrote" in done.stderr
        assert f"ls -l {path}" in done.stderr
    found = holdfast("doctor", "--json", expect=1).json["findings"]
    assert [one["status"] for one in found if one["name"] == "abandoned"] == ["fail"]
    path.unlink()
    holdfast("run", "-n", "a", "true", expect=0)
    holdfast("wait", "a", expect=0)


def test_a_folder_of_somebody_else_in_the_home_is_refused(runs):
    needs("root")
    removed = Path(runs.home.path) / "removed"
    removed.mkdir()
    os.chown(removed, OTHER_UID, OTHER_UID)
    with pytest.raises(HomeUnusable, match="has a removed that belongs to another user"):
        runs.home.check()
    os.chown(removed, os.getuid(), -1)
    removed.chmod(0o777)
    with pytest.raises(HomeUnusable, match="has a removed that others can write to"):
        runs.home.check()
    removed.chmod(0o700)
    assert runs.home.check()


def test_what_is_deleted_is_deleted_below_the_home_alone(runs, victim):
    """Even where a check was made before: nothing on the way is followed."""
    home = runs.home.prepare()
    removed = Path(home.removed_path)
    removed.symlink_to(victim)
    delete(home, "deep")
    assert (victim / "deep" / "precious").read_text() == "mine"
    removed.unlink()
    removed.mkdir(mode=0o700)
    (removed / "link").symlink_to(victim)
    (removed / "run").mkdir()
    (removed / "run" / "inside").symlink_to(victim)
    (removed / "run" / "file").write_text("")
    clean(home, Retention())  # a remover that died left both
    assert list(removed.iterdir()) == []
    assert (victim / "deep" / "precious").read_text() == "mine"


@pytest.mark.parametrize("is_there", [True, False])
def test_an_index_that_is_a_link_is_replaced_and_not_followed(runs, tmp_path, is_there):
    target = tmp_path / "target"
    if is_there:
        target.write_text("not ours")
    home = runs.home.prepare()
    os.symlink(target, home.index_path)
    with Index(home) as index:
        assert index.ids() == []
        index.remove(["0" * 20])
    assert not os.path.islink(home.index_path)
    assert target.exists() is is_there
    assert not is_there or target.read_text() == "not ours"


# --- a run's directory that is a link ---------------------------------------------------------


def test_a_run_whose_directory_is_a_link_is_not_removed_and_frees_nothing(holdfast, runs, tmp_path):
    run = runs.start(["true"], name="moved")
    run.wait(30)
    elsewhere = tmp_path / "elsewhere"
    os.rename(run.directory.path, elsewhere)
    os.symlink(elsewhere, run.directory.path)
    done = holdfast("rm", "moved", expect=4)
    assert "is a symbolic link" in done.stdout
    assert f"unlink {run.directory.path}" in done.stderr
    document = holdfast("rm", "--force", "--json", "moved", expect=4).json
    assert "freed" not in str(document)
    with pytest.raises(UnsafeFile):
        remove_run(run.directory, force=True)
    with pytest.raises(UnsafeFile):
        archive_run(run.directory)
    for dry_run in (True, False):
        (cleaned,) = clean(runs.home, Retention(keep=0), dry_run=dry_run)
        assert (cleaned.fate, cleaned.freed_bytes) == (RetentionFate.REFUSED, 0)
    assert (elsewhere / "events.jsonl").exists()
    assert holdfast("status", "moved", "--json", expect=0).json["outcome"] == "succeeded"


def test_output_that_is_a_link_is_not_shown_and_that_is_said(holdfast, runs, tmp_path):
    run = runs.start(["true"], name="a")
    run.wait(60)
    secret = tmp_path / "secret"
    secret.write_text("secret words")
    os.unlink(run.directory.output_path)
    os.symlink(secret, run.directory.output_path)
    for words in (["logs"], ["logs", "-f"], ["logs", "--pretty"], ["logs", "--json"]):
        refused = holdfast(*words, "a", expect=4)
        assert "secret words" not in refused.stdout
    with pytest.raises(UnsafeFile, match="symbolic link"):
        run.output()
