"""What a worktree run changed: `diff`, the counts of `status` and `ls --json`, and `discard`."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from holdfast import AsyncRuns, Diff, Discarded, Refused, StillAlive
from holdfast.manage.worktrees.changes import Counting
from holdfast.run.home import Home
from tests.support.repositories import Repository
from tests.support.running import ended, info_of, stop


@pytest.fixture
def repository(tmp_path):
    return Repository.with_commit(tmp_path / "repo")


@pytest.fixture
def worktree(holdfast, repository):
    """The worktree of branch `x` of an ended run `a`."""
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true", expect=0)
    info = ended("a")
    assert info.worktree is not None
    return Repository(Path(info.worktree["path"]))


def change(worktree: Repository) -> None:
    """One file committed, one edited after that, one new, one that git ignores."""
    worktree.commit("done", "committed\n")
    worktree.commit(".gitignore", "*.o\n")
    (worktree.path / "sub" / "file").write_text("two\n")
    (worktree.path / "new one").write_text("untracked\n")
    (worktree.path / "made.o").write_text("ignored\n")


# --- diff -----------------------------------------------------------------------------------


def test_diff_has_what_is_committed_edited_and_untracked(holdfast, worktree, repository):
    change(worktree)
    index = Path(worktree.git("rev-parse", "--absolute-git-dir")) / "index"
    before = index.read_bytes(), index.stat().st_mtime_ns
    text = holdfast("diff", "a", expect=0).stdout
    for line in ("+committed", "-one", "+two", "+untracked", "+++ b/new one", "+*.o"):
        assert line in text
    assert "ignored" not in text
    stat = holdfast("diff", "a", "--stat", expect=0).stdout
    assert "4 files changed, 4 insertions(+), 1 deletion(-)" in stat
    names = holdfast("diff", "a", "--name-only", expect=0).stdout.splitlines()
    assert names == [".gitignore", "done", "new one", "sub/file"]
    said = holdfast("diff", "a", "--json", expect=0).json
    assert said["base"] == repository.git("rev-parse", "main")
    assert (said["branch"], said["commits"], said["text"]) == ("x", 2, text)
    assert said["files"][1:3] == [
        {"path": "done", "kind": "added", "added_lines": 1, "deleted_lines": 0},
        {"path": "new one", "kind": "added", "added_lines": 1, "deleted_lines": 0},
    ]
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    # The patch is one: git takes it.
    repository.git("apply", "--check", "-", stdin=text)


def test_diff_of_odd_files(runs, holdfast, worktree):
    """Links are shown and never followed; what is no text stays as it is."""
    path = worktree.path
    os.symlink("/etc/passwd", path / "link")
    (path / "binary").write_bytes(b"\0\1\2")
    (path / "latin").write_bytes(b"caf\xe9\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "sub" / "file").unlink()
    Repository.with_commit(path / "inner")
    diff = runs.get("a").diff()
    kinds = {file.path: file.kind for file in diff.files}
    added = dict.fromkeys(("binary", "latin", "link", "run.sh"), "added")
    assert kinds == {**added, "sub/file": "deleted", "inner/": "repository"}
    assert b"+/etc/passwd\n" in diff.text
    assert b"+caf\xe9\n" in diff.text
    assert b"new file mode 100755" in diff.text
    assert "base64" in holdfast("diff", "a", "--json").json
    assert "a repository of its own: inner/" in holdfast("diff", "a", "--name-only").stderr


def test_diff_while_it_works_and_of_nothing(holdfast, repository):
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "sleep", "600", expect=0)
    said = holdfast("diff", "a", expect=0)
    assert (said.stdout, said.stderr) == ("", "nothing was changed\n")
    Path(info_of("a").worktree["path"], "new").write_text("x\n")
    assert holdfast("diff", "a", "--name-only", expect=0).stdout == "new\n"
    stop(holdfast, "a")


def test_what_has_no_diff_says_why(holdfast, worktree, repository):
    holdfast("run", "-n", "b", "true", expect=0)
    ended("b")
    assert "was not started with a worktree" in holdfast("diff", "b", expect=4).stderr
    holdfast("diff", "a", "--stat", "--name-only", expect=2)
    holdfast("diff", "nobody", expect=3)
    git_file = (worktree.path / ".git").read_text()
    (worktree.path / ".git").unlink()
    assert "git can't say" in holdfast("diff", "a", expect=1).stderr
    (worktree.path / ".git").write_text(git_file)
    shutil.rmtree(worktree.path)
    said = holdfast("diff", "a", expect=1).stderr
    assert f"git -C {repository.path} diff" in said


def test_the_library_has_it_too(runs, worktree):
    change(worktree)

    async def asked() -> tuple[Diff, Discarded]:
        run = await AsyncRuns().get("a")
        return await run.diff(), await run.discard(dry_run=True)

    diff, would = asyncio.run(asked())
    assert diff == runs.get("a").diff()
    assert would == runs.get("a").discard(dry_run=True)
    assert runs.get("a").diff(name_only=True).text.splitlines()[0] == b".gitignore"
    assert runs.get("a").discard().given_up == would.given_up
    assert not worktree.path.exists()


# --- counts ---------------------------------------------------------------------------------


def counts(holdfast, name: str = "a") -> dict[str, int] | None:
    status = holdfast("status", "--json", name, expect=0).json["worktree"]["changes"]
    listed = {run["name"]: run for run in holdfast("ls", "--json", "--all", expect=0).json["runs"]}
    assert listed[name]["worktree"]["changes"] == status
    return status


def test_status_and_ls_count_what_changed_and_status_says_how_to_merge(
    holdfast, worktree, repository
):
    assert counts(holdfast) == {"files": 0, "uncommitted": 0, "commits": 0}
    assert "nothing is changed" in holdfast("status", "a").stdout
    change(worktree)
    assert counts(holdfast) == {"files": 4, "uncommitted": 2, "commits": 2}
    page = holdfast("status", "a", env={"COLUMNS": "500"}).stdout
    assert "4 files changed, 2 commits, 2 uncommitted" in page
    line = f"git -C {repository.path} merge x"
    assert line in page
    worktree.git("stash", "-q")
    repository.git(*line.split()[3:])
    assert (repository.path / "done").exists()


def test_what_cannot_be_counted_is_null(holdfast, worktree):
    holdfast("run", "-n", "b", "true", expect=0)
    ended("b")
    assert holdfast("status", "--json", "b").json["worktree"] is None
    shutil.rmtree(worktree.path)
    assert counts(holdfast) is None
    assert "what it changed is not known" in holdfast("status", "a", expect=0).stdout


@pytest.mark.usefixtures("worktree")
def test_a_list_counts_only_for_so_long():
    info = info_of("a")
    home = Home(os.environ["HOLDFAST_HOME"])
    assert Counting(home).add_to(info).worktree["changes"] is not None
    assert Counting(home, seconds=0).add_to(info).worktree["changes"] is None


# --- discard --------------------------------------------------------------------------------


def test_discard_gives_up_worktree_and_branch_and_keeps_the_run(holdfast, worktree, repository):
    change(worktree)
    tip = worktree.git("rev-parse", "HEAD")
    would = holdfast("discard", "a", "--dry-run", "--json", expect=0).json
    assert worktree.path.is_dir()
    assert would["given_up"] == [
        "2 uncommitted files (sub/file, new one)",
        f"2 commits that only branch x has ({tip[:12]})",
    ]
    said = holdfast("discard", "a", expect=0).stdout
    assert f"a: removed: worktree {worktree.path} and branch x; given up: " in said
    for phrase in would["given_up"]:
        assert phrase in said
    assert not worktree.path.exists()
    assert repository.worktrees() == []
    assert repository.branches() == ["main"]
    assert info_of("a").outcome == "succeeded"
    repository.git("branch", "back", tip)  # git still has the commits for a while
    again = holdfast("discard", "a", "--json", expect=0).json
    assert (again["branch"], again["given_up"]) == (None, [])
    holdfast("rm", "a", expect=0)


def test_discard_leaves_a_branch_that_is_not_the_runs_own(holdfast, repository):
    repository.git("branch", "theirs")
    holdfast("run", "-n", "a", "--worktree", "theirs", "-C", repository.path, "true", expect=0)
    worktree = Repository(Path(ended("a").worktree["path"]))
    worktree.commit("new", "x\n")
    said = holdfast("discard", "a", "--json", expect=0).json
    assert (said["branch"], said["given_up"]) == (None, [])
    assert repository.branches() == ["main", "theirs"]


def test_discard_leaves_a_branch_that_is_checked_out_elsewhere(
    holdfast, worktree, repository, tmp_path
):
    worktree.git("checkout", "-q", "--detach")
    repository.git("worktree", "add", "-q", tmp_path / "mine", "x")
    assert holdfast("discard", "a", "--json", expect=0).json["branch"] is None
    assert repository.branches() == ["main", "x"]


def test_discard_of_what_is_merged_loses_nothing(holdfast, worktree, repository):
    worktree.commit("new", "x\n")
    repository.git("merge", "-q", "x")
    said = holdfast("discard", "a", "--json", expect=0).json
    assert (said["branch"], said["given_up"]) == ("x", [])
    assert repository.branches() == ["main"]


def test_discard_is_refused_while_anything_is_alive(runs, holdfast, repository, worktree):
    options = ["--worktree", "y", "-C", repository.path]
    holdfast("run", "-n", "b", *options, "sleep", "600", expect=0)
    for words in ([], ["-y"], ["--dry-run"]):
        assert "still running" in holdfast("discard", "b", *words, expect=4).stderr
    with pytest.raises(StillAlive):
        runs.get("b").discard()
    stop(holdfast, "b")
    holdfast("run", "-n", "c", "-C", worktree.path, "sleep", "600", expect=0)
    with pytest.raises(Refused, match="run c"):
        runs.get("a").discard()
    stop(holdfast, "c")
    assert worktree.path.is_dir()
    assert repository.branches() == ["main", "x", "y"]


def test_discard_of_a_run_whose_repository_is_gone(holdfast, worktree, repository):
    shutil.rmtree(repository.path)
    said = holdfast("discard", "a", "--json", expect=0).json
    assert said["branch"] is None
    assert "git can't look at it" in said["given_up"][0]
    assert not worktree.path.exists()
