"""`.worktreeinclude`: ignored files that a new worktree is given, and what is never copied."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.manage.operations import run_steps
from holdfast.manage.worktrees import included
from tests.support.repositories import Repository
from tests.support.running import ended, output_of


@pytest.fixture
def repository(tmp_path):
    repository = Repository.with_commit(tmp_path / "repo")
    repository.commit(".gitignore", ".env*\n/local/\n")
    return repository


def start(holdfast, repository: Repository, *command: str) -> tuple[Path, str, Any]:
    """The worktree, what the start said, and what was recorded of it."""
    words = ["run", "-n", "a", "--worktree", "x", "-C", repository.path, *(command or ["true"])]
    said = holdfast(*words, expect=0).stderr
    info = ended("a")
    assert info.worktree is not None
    return Path(info.worktree["path"]), said, info.worktree.get("included")


def put(repository: Repository, path: str, text: str = "x\n", mode: int = 0o644) -> Path:
    file = repository.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


def test_ignored_files_that_it_names_are_in_the_worktree_before_the_command_runs(
    holdfast, repository
):
    put(repository, ".worktreeinclude", "# secrets\n.env*\n!.env.old\nlocal/**/*.key\n")
    put(repository, ".env", "SECRET=1\n", 0o600)
    put(repository, ".env.old")
    put(repository, "local/deep/a.key", "key\n", 0o640)
    put(repository, "local/other")
    path, said, recorded = start(holdfast, repository, "cat", ".env")
    assert output_of("a") == b"SECRET=1\n"
    assert (path / ".env").stat().st_mode & 0o777 == 0o600
    assert (path / "local/deep/a.key").stat().st_mode & 0o777 == 0o640
    assert not (path / ".env.old").exists()
    assert not (path / "local/other").exists()
    assert recorded == {"copied": [".env", "local/deep/a.key"], "left_out": []}
    assert ".worktreeinclude: 2 files copied (.env, local/deep/a.key)" in said
    assert "copied into it: .env, local/deep/a.key" in holdfast("status", "a").stdout
    # They are ignored, so they are no work of the run's.
    assert holdfast("diff", "a", "--name-only").stdout == ""
    holdfast("rm", "a", expect=0)
    assert not path.exists()
    assert (repository.path / ".env").exists()


def test_without_it_nothing_is_copied_and_nothing_said(holdfast, repository):
    put(repository, ".env")
    path, said, recorded = start(holdfast, repository)
    assert not (path / ".env").exists()
    assert recorded is None
    assert "worktreeinclude" not in said


def test_what_is_tracked_or_would_look_like_work_is_not_copied(holdfast, repository):
    put(repository, ".worktreeinclude", "*\n")
    put(repository, "draft")
    put(repository, ".env")
    put(repository, "sub/file", "edited, and tracked\n")
    path, said, recorded = start(holdfast, repository)
    assert recorded["copied"] == [".env"]
    assert [one.partition(":")[0] for one in recorded["left_out"]] == [".worktreeinclude", "draft"]
    assert "draft: git does not ignore it" in said
    assert (path / "sub/file").read_text() == "one\n"
    assert not (path / "draft").exists()


def test_links_are_never_followed_on_either_side(holdfast, repository, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.key").write_text("secret\n")
    put(repository, ".worktreeinclude", ".env\n.env.d/*\nlocal/\n")
    os.symlink(outside / "secret.key", repository.path / ".env")  # a link to a file
    os.symlink(outside, repository.path / ".env.d")  # a link to a directory
    # In the branch, `local` is a link that leads out: what is in `local` here must not go there.
    repository.git("checkout", "-q", "-b", "x")
    os.symlink(outside, repository.path / "local")
    repository.git("add", "-f", "local")
    repository.git("commit", "-q", "-m", "a link")
    repository.git("checkout", "-q", "main")
    put(repository, "local/a.key", "mine\n")
    path, said, recorded = start(holdfast, repository)
    assert recorded["copied"] == []
    assert ".env: is a symbolic link" in said
    assert "local/a.key" in said
    assert sorted(os.listdir(outside)) == ["secret.key"]
    assert not os.path.lexists(path / ".env")


def test_what_the_branch_has_is_left_as_it_is(holdfast, repository):
    repository.git("checkout", "-q", "-b", "x")
    repository.commit(".env", "theirs\n")
    repository.git("checkout", "-q", "main")
    put(repository, ".worktreeinclude", ".env\n")
    put(repository, ".env", "mine\n")
    path, said, _ = start(holdfast, repository)
    assert (path / ".env").read_text() == "theirs\n"
    assert ".env: the branch has it already" in said


def test_the_bounds_hold_and_what_fits_is_copied(repository, monkeypatch, tmp_path):
    put(repository, ".worktreeinclude", ".env*\n")
    put(repository, ".env.1", "1\n")
    put(repository, ".env.2", "22\n" * 10)
    put(repository, ".env.3", "3\n")
    monkeypatch.setattr(included, "MOST_BYTES", 8)
    target = tmp_path / "target"
    target.mkdir()
    found = run_steps(included.copy_included(str(repository.path), str(target)))
    assert found.copied == (".env.1", ".env.3")
    assert [line.split(":")[0] for line in found.left_out] == [".env.2"]
    assert sorted(os.listdir(target)) == [".env.1", ".env.3"]
    monkeypatch.setattr(included, "MOST_FILES", 1)
    again = tmp_path / "again"
    again.mkdir()
    assert run_steps(included.copy_included(str(repository.path), str(again))).copied == (".env.1",)


@pytest.mark.parametrize("kind", ["a link", "a directory", "too long"])
def test_a_list_that_is_no_plain_file_is_said_and_the_run_starts(
    holdfast, repository, tmp_path, kind
):
    file = repository.path / ".worktreeinclude"
    if kind == "a link":
        (tmp_path / "patterns").write_text(".env\n")
        os.symlink(tmp_path / "patterns", file)
    elif kind == "a directory":
        file.mkdir()
    else:
        file.write_text("x\n" * 40_000)
    put(repository, ".env")
    path, said, _ = start(holdfast, repository)
    assert not (path / ".env").exists()
    assert ".worktreeinclude: not copied: .worktreeinclude: is" in said


def test_a_start_that_fails_leaves_nothing_of_it(holdfast, repository, tmp_path):
    put(repository, ".worktreeinclude", ".env\n")
    put(repository, ".env")
    (repository.path / "here").mkdir()
    words = ["--worktree", "x", "-C", repository.path / "here", "true"]
    holdfast("run", "-n", "a", *words, expect=2)
    assert [path.suffix for path in (tmp_path / "worktrees").iterdir()] == [".lock"]
    assert repository.branches() == ["main"]
