"""A worktree goes with its run only when no work would be lost, and nothing else ever goes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.repositories import Repository
from tests.support.running import ended, info_of, stop


@pytest.fixture
def repository(tmp_path):
    return Repository.with_commit(tmp_path / "repo")


@pytest.fixture
def worktree(holdfast, repository):
    """The worktree of branch `x` of an ended run `a`."""
    return made(holdfast, repository, "a", "x")


def made(holdfast, repository: Repository, name: str, branch: str) -> Repository:
    holdfast("run", "-n", name, "--worktree", branch, "-C", repository.path, "true", expect=0)
    info = ended(name)
    assert info.worktree is not None
    return Repository(Path(info.worktree["path"]))


def refused(holdfast, *words: str) -> str:
    said = holdfast("rm", *(words or ("a",)), expect=4)
    assert info_of("a").state == "ended"  # the run is kept as well
    return said.stdout + said.stderr


def test_clean_and_merged_it_goes_with_its_run_and_its_branch_stays(
    holdfast, repository, worktree, tmp_path
):
    worktree.commit("new", "work\n")
    repository.git("merge", "-q", "x")
    holdfast("rm", "a", expect=0)
    assert not worktree.path.exists()
    assert repository.worktrees() == []
    assert repository.branches() == ["main", "x"]
    assert [path.suffix for path in (tmp_path / "worktrees").iterdir()] == [".lock"]


@pytest.mark.parametrize("change", ["edited", "new file", "staged", "removed"])
def test_uncommitted_work_is_kept(holdfast, worktree, change):
    if change == "edited":
        (worktree.path / "sub" / "file").write_text("two\n")
    elif change == "removed":
        (worktree.path / "sub" / "file").unlink()
    else:
        (worktree.path / "new").write_text("x\n")
        if change == "staged":
            worktree.git("add", "new")
    said = refused(holdfast)
    file = "sub/file" if change in ("edited", "removed") else "new"
    assert f"its worktree {worktree.path} is kept: 1 uncommitted file ({file})" in said
    assert "give it up: rm --discard-worktree" in said
    assert worktree.path.is_dir()
    # Neither `clean` nor --force, which is about what is alive, takes it.
    assert "uncommitted" in refused(holdfast, "--force", "a")
    for words in (["--dry-run"], []):
        cleaned = holdfast("clean", "--keep", "0", "--json", *words, expect=4).json["runs"]
        assert [(one["fate"], "uncommitted" in one["evidence"]) for one in cleaned] == [
            ("refused", True)
        ]
    assert "uncommitted" in holdfast("archive", "a", expect=4).stdout
    # What the hint says works, and then nothing stands against it.
    assert (
        f"given up: 1 uncommitted file ({file})"
        in holdfast("rm", "--discard-worktree", "a", expect=0).stdout
    )
    assert not worktree.path.exists()


def test_ignored_files_are_not_work(holdfast, repository):
    repository.commit(".gitignore", "*.o\n")
    worktree = made(holdfast, repository, "a", "x")
    (worktree.path / "made.o").write_text("x")
    holdfast("rm", "a", expect=0)
    assert not worktree.path.exists()


def test_after_a_squash_merge_it_goes_since_its_branch_keeps_the_commits(
    holdfast, repository, worktree
):
    worktree.commit("new", "work\n")
    worktree.commit("new", "more\n")
    repository.git("merge", "-q", "--squash", "x")
    repository.git("commit", "-q", "-m", "x, squashed")
    commit = worktree.git("rev-parse", "HEAD")
    holdfast("rm", "a", expect=0)
    assert not worktree.path.exists()
    assert repository.git("rev-parse", "x") == commit


def test_commits_of_another_branch_that_was_checked_out_in_it_are_not_lost(
    holdfast, repository, worktree
):
    worktree.git("checkout", "-q", "-b", "y")
    worktree.commit("new", "work\n")
    holdfast("rm", "a", expect=0)
    assert repository.branches() == ["main", "x", "y"]


def test_commits_of_a_detached_head_are_kept_until_a_branch_has_them(holdfast, worktree):
    worktree.git("checkout", "-q", "--detach")
    worktree.commit("new", "work\n")
    commit = worktree.git("rev-parse", "HEAD")
    assert f"1 commit of a detached HEAD ({commit[:12]})" in refused(holdfast)
    worktree.git("branch", "saved")
    holdfast("rm", "a", expect=0)


def test_discard_worktree_gives_up_what_would_be_lost_and_says_what(holdfast, repository, worktree):
    worktree.git("checkout", "-q", "--detach")
    worktree.commit("new", "work\n")
    commit = worktree.git("rev-parse", "HEAD")
    (worktree.path / "sub" / "file").write_text("two\n")
    (worktree.path / "draft").write_text("x\n")
    assert "rm --discard-worktree" in refused(holdfast)
    said = holdfast("rm", "--discard-worktree", "a", "--json", expect=0).json["runs"]
    assert said[0]["given_up"] == [
        "2 uncommitted files (sub/file, draft)",
        f"1 commit of a detached HEAD ({commit[:12]})",
    ]
    assert repository.worktrees() == []
    assert repository.branches() == ["main", "x"]


def test_discard_worktree_of_one_in_which_nothing_is_lost_says_nothing_of_it(holdfast, worktree):
    assert "given up" not in holdfast("rm", "--discard-worktree", "a", expect=0).stdout
    assert not worktree.path.exists()


def test_discard_worktree_does_not_take_it_from_another_run(holdfast, worktree):
    holdfast("run", "-n", "b", "-C", worktree.path, "sleep", "600", expect=0)
    assert "run b (" in refused(holdfast, "--discard-worktree", "a")
    stop(holdfast, "b")
    assert worktree.path.is_dir()


def test_discard_worktree_takes_what_git_cannot_look_at(holdfast, repository, worktree):
    shutil.rmtree(repository.path)
    assert "given up: git can't look at it" in holdfast("rm", "--discard-worktree", "a").stdout
    assert not worktree.path.exists()


def test_what_is_under_way_is_kept(holdfast, repository, worktree):
    worktree.commit("sub/file", "theirs\n")
    repository.commit("sub/file", "ours\n")
    worktree.git("merge", "main", check=False)
    assert "a merge is under way" in refused(holdfast)
    worktree.git("merge", "--abort")
    worktree.git("rebase", "main", check=False)
    assert "a rebase is under way" in refused(holdfast)


def test_fetched_submodules_are_kept(holdfast, repository, tmp_path):
    inner = Repository.with_commit(tmp_path / "inner")
    allow = ["-c", "protocol.file.allow=always"]
    repository.git(*allow, "submodule", "--quiet", "add", str(inner.path), "module")
    repository.git("commit", "-q", "-m", "with a module")
    worktree = made(holdfast, repository, "a", "x")
    worktree.git(*allow, "submodule", "--quiet", "update", "--init")
    assert "submodules were fetched" in refused(holdfast)
    assert (worktree.path / "module" / "sub" / "file").exists()


def test_another_run_in_it_keeps_it(holdfast, worktree):
    holdfast("run", "-n", "b", "-C", worktree.path / "sub", "sleep", "600", expect=0)
    assert "run b (" in refused(holdfast)
    stop(holdfast, "b")
    holdfast("rm", "a", expect=0)
    assert not worktree.path.exists()


def test_a_repository_that_is_gone_keeps_the_files(holdfast, repository, worktree):
    shutil.rmtree(repository.path)
    said = refused(holdfast)
    assert f"its worktree {worktree.path} is kept: git can't look at it" in said
    shutil.rmtree(worktree.path)
    holdfast("rm", "a", expect=0)


def test_without_its_git_file_it_is_not_taken_for_the_repository_above_it(
    holdfast, repository, worktree, tmp_path
):
    above = Repository(tmp_path)  # the home lies in a repository of the user's
    above.git("init", "-q")
    above.git("commit", "-q", "--allow-empty", "-m", "dotfiles")
    os.unlink(worktree.path / ".git")
    assert "git can't look at" in refused(holdfast)
    assert repository.path.is_dir()


@pytest.mark.parametrize(
    "place", ["the repository", "the worktrees", "a link", "nowhere", "no text"]
)
def test_only_what_holdfast_made_is_ever_removed(holdfast, repository, worktree, tmp_path, place):
    run_id = info_of("a").id
    spec_path = tmp_path / "runs" / run_id / "spec.json"
    spec = json.loads(spec_path.read_text())
    wrong = {
        "the repository": str(repository.path),
        "the worktrees": str(tmp_path / "worktrees"),
        "a link": str(worktree.path),
        "nowhere": "/",
        "no text": 7,
    }
    spec["worktree"]["path"] = wrong[place]
    if place == "a link":
        os.rename(worktree.path, tmp_path / "moved")
        os.symlink(repository.path, worktree.path)
    spec_path.write_text(json.dumps(spec))
    assert "is not a worktree that Holdfast made" in refused(holdfast)
    assert (repository.path / "sub" / "file").exists()


def test_one_that_was_removed_by_hand_stands_in_nobodys_way(holdfast, worktree):
    shutil.rmtree(worktree.path)
    holdfast("rm", "a", expect=0)
    assert holdfast("ls", "--all", "--json").json["runs"] == []


def test_a_worktree_that_is_locked_by_git_is_kept(holdfast, repository, worktree):
    repository.git("worktree", "lock", worktree.path)
    assert "git keeps the worktree" in refused(holdfast)
    repository.git("worktree", "unlock", worktree.path)
    holdfast("rm", "a", expect=0)
