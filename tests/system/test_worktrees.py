"""`--worktree BRANCH`: a checkout of its own for each run, and nothing left behind by a refusal.

What becomes of them with their run: test_worktrees_removal.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import AsyncRuns, Runs
from holdfast.errors import Failed, Unavailable
from tests.support.repositories import Repository
from tests.support.running import ended, info_of, output_of, start_all, stop
from tests.support.waiting import eventually


@pytest.fixture
def repository(tmp_path):
    return Repository.with_commit(tmp_path / "repo")


def worktree_of(name: str) -> Path:
    worktree = info_of(name).worktree
    assert worktree is not None
    return Path(worktree["path"])


def left_behind(tmp_path: Path) -> list[str]:
    """Worktrees, notes and runs; locks may stay."""
    folders = [tmp_path / "worktrees", tmp_path / "runs", tmp_path / "active"]
    found = [path for folder in folders if folder.exists() for path in folder.iterdir()]
    return sorted(path.name for path in found if path.suffix != ".lock")


# --- a checkout of its own ------------------------------------------------------------------


def test_a_run_works_in_a_checkout_of_its_own(holdfast, repository, tmp_path):
    (repository.path / "sub" / "file").write_text("being edited\n")
    script = "pwd; git rev-parse --abbrev-ref HEAD; cat file; echo two >file; git commit -qam two"
    options = ["--worktree", "feature/x", "-C", str(repository.path / "sub")]
    environment = {"GIT_AUTHOR_NAME": "a", "GIT_COMMITTER_NAME": "a", "EMAIL": "a@example.org"}
    holdfast("run", "-n", "a", *options, "sh", "-c", script, env=environment, expect=0)
    info = ended("a")
    assert info.outcome == "succeeded", output_of("a")
    path = tmp_path / "worktrees" / info.id
    assert output_of("a") == f"{path}/sub\nfeature/x\none\n".encode()
    assert info.cwd == f"{path}/sub"
    assert info.worktree == {
        "path": str(path),
        "branch": "feature/x",
        "repository": str(repository.path),
        "base": repository.git("rev-parse", "main"),
        "made_branch": True,
    }
    assert repository.git("log", "--format=%s", "main..feature/x") == "two"
    # The user's own checkout is as it was.
    assert (repository.path / "sub" / "file").read_text() == "being edited\n"
    assert repository.git("rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert "worktree of branch feature/x" in holdfast("status", "a").stdout


def test_a_branch_that_exists_is_used_and_one_of_a_remote_is_followed(
    holdfast, repository, tmp_path
):
    repository.git("branch", "old")
    clone = Repository(tmp_path / "clone")
    repository.git("clone", "-q", repository.path, clone.path)
    repository.git("branch", "theirs")
    repository.git("checkout", "-q", "theirs")
    repository.commit("new", "theirs\n")
    clone.git("fetch", "-q")
    clone.git("branch", "mine")
    for branch in ("mine", "theirs"):
        holdfast("run", "-n", branch, "--worktree", branch, "-C", clone.path, "true", expect=0)
        ended(branch)
    assert (worktree_of("theirs") / "new").read_text() == "theirs\n"
    assert clone.git("rev-parse", "--abbrev-ref", "theirs@{upstream}") == "origin/theirs"
    assert info_of("mine").worktree["made_branch"] is False
    clone.git("remote", "add", "other", repository.path)
    clone.git("fetch", "-q", "other")
    said = holdfast("run", "--worktree", "old", "-C", clone.path, "true", expect=4).stderr
    assert "several remotes" in said
    assert "git branch old origin/old" in said


def test_twenty_at_once_in_one_repository(holdfast, repository, tmp_path):
    commands: list[list[object]] = [
        ["run", "-n", f"r{n}", "--worktree", f"b{n}", "-C", repository.path, "sleep", "600"]
        for n in range(20)
    ]
    started = start_all(holdfast, commands)
    assert [process.returncode for process in started] == [0] * 20
    paths = {str(worktree_of(f"r{n}")) for n in range(20)}
    assert len(paths) == 20
    assert set(repository.worktrees()) == paths
    assert set(repository.branches()) == {"main", *(f"b{n}" for n in range(20))}
    names = [f"r{n}" for n in range(20)]
    holdfast("stop", "--grace", "0", *names, expect=0)
    removed = holdfast("rm", *names, expect=0)
    assert removed.stdout.count("removed") == 20
    assert repository.worktrees() == []
    assert left_behind(tmp_path) == []


def test_a_bare_repository(holdfast, repository, tmp_path):
    repository.git("clone", "-q", "--bare", repository.path, tmp_path / "bare.git")
    options = ["--worktree", "x", "-C", tmp_path / "bare.git"]
    holdfast("run", "-n", "a", *options, "cat", "sub/file", expect=0)
    info = ended("a")
    assert output_of("a") == b"one\n"
    assert info.cwd == str(tmp_path / "worktrees" / info.id)
    assert info.worktree["repository"] == str(tmp_path / "bare.git")
    holdfast("rm", "a", expect=0)
    assert left_behind(tmp_path) == []


def test_a_submodule_is_a_repository_of_its_own(holdfast, repository, tmp_path):
    inner = Repository.with_commit(tmp_path / "inner")
    allow = ["-c", "protocol.file.allow=always"]
    repository.git(*allow, "submodule", "--quiet", "add", str(inner.path), "module")
    repository.git("commit", "-q", "-m", "with a module")
    in_module = repository.path / "module" / "sub"
    holdfast("run", "-n", "m", "--worktree", "x", "-C", in_module, "cat", "file", expect=0)
    ended("m")
    assert output_of("m") == b"one\n"
    assert Repository(repository.path / "module").worktrees() == [str(worktree_of("m"))]
    # Of the repository around it, the worktree has an empty directory there, as git makes it.
    holdfast("run", "-n", "o", "--worktree", "x", "-C", repository.path, "ls", "module", expect=0)
    assert ended("o").outcome == "succeeded"
    assert output_of("o") == b""
    holdfast("rm", "m", "o", expect=0)
    assert left_behind(tmp_path) == []


def test_started_from_a_hook_it_is_about_its_own_checkout(holdfast, repository):
    variables = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_WORK_TREE": "/"}
    tells = "git rev-parse --show-toplevel; echo $GIT_DIR; echo $GIT_SSH_COMMAND"
    variables["GIT_SSH_COMMAND"] = "ssh -4"
    options = ["--worktree", "x", "-C", repository.path]
    holdfast("run", "-n", "a", *options, "sh", "-c", tells, env=variables, expect=0)
    ended("a")
    assert output_of("a") == f"{worktree_of('a')}\n\nssh -4\n".encode()


def test_a_run_again_works_in_the_same_worktree(holdfast, repository):
    options = ["--worktree", "x", "-C", repository.path]
    holdfast("run", "-n", "a", *options, "sh", "-c", "echo more >>log; cat log", expect=0)
    first = ended("a")
    holdfast("rerun", first.id, expect=0)
    assert ended("a").id != first.id
    assert output_of("a") == b"more\nmore\n"


def test_again_in_another_worktree_it_begins_in_the_repository_and_not_in_the_old_worktree(
    holdfast, repository
):
    (Path(repository.path) / ".git" / "info" / "exclude").write_text("kept\n.worktreeinclude\n")
    (Path(repository.path) / "kept").write_text("k")
    (Path(repository.path) / ".worktreeinclude").write_text("kept\n")
    options = ["--worktree", "x", "--worktree-setup", "touch set-up", "-C", repository.path]
    commit = (
        "ls kept set-up; echo a >made && git add made && git commit -qm made && git log --oneline"
    )
    holdfast("run", "-n", "a", *options, "sh", "-c", commit, expect=0)
    first = ended("a")
    said = output_of("a")
    holdfast("rerun", "a", "--worktree", "y", expect=0)
    second = ended("a")
    assert second.worktree["base"] == first.worktree["base"]
    assert len(output_of("a").splitlines()) == len(said.splitlines())
    holdfast("rerun", second.id, expect=0)  # in the worktree of the second
    assert ended("a").worktree is None
    holdfast("rerun", "a", "--worktree", "z", expect=0)
    assert ended("a").worktree["base"] == first.worktree["base"]


@pytest.mark.parametrize("command", ["rerun", "resume"])
def test_where_the_worktree_is_given_up_nothing_is_started_in_it(
    holdfast, repository, tmp_path, command
):
    claude = tmp_path / "claude"
    session = '{"type":"system","subtype":"init","session_id":"s1"}'
    claude.write_text(f"#!/bin/sh\necho '{session}'\n")
    claude.chmod(0o755)
    words = (claude, "-p", "x", "--output-format", "stream-json", "--verbose")
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, *words, expect=0)
    first = ended("a")
    holdfast("discard", "a", expect=0)
    assert f"{first.id} (gone)\n" in holdfast("status", "a").stdout
    refused = holdfast(command, "a", expect=4)
    assert "is gone" in refused.stderr
    assert "rerun with --worktree BRANCH" in refused.stderr
    assert info_of("a").id == first.id  # the name still means what there was
    holdfast("rerun", "a", "--worktree", "x", expect=0)
    assert ended("a").worktree["branch"] == "x"


# --- refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "branch",
    ["-x", "--force", "..", "a..b", "@{-1}", "HEAD", "a b", "x.lock", "", "refs/heads/x", "a\n"],
)
def test_what_is_no_branch_is_refused_and_never_an_option(holdfast, repository, tmp_path, branch):
    said = holdfast("run", f"--worktree={branch}", "-C", repository.path, "true", expect=2)
    assert "can't be the name of a branch" in said.stderr
    assert left_behind(tmp_path) == []
    assert repository.branches() == ["main"]


def test_a_branch_that_is_checked_out_is_refused(holdfast, repository, tmp_path):
    said = holdfast("run", "--worktree", "main", "-C", repository.path, "true", expect=4).stderr
    assert f"branch main is checked out already, in {repository.path}" in said
    assert "--worktree main-2" in said
    assert left_behind(tmp_path) == []
    options = ["--worktree", "x", "-C", repository.path]
    holdfast("run", "-n", "a", *options, "sleep", "600", expect=0)
    said = holdfast("run", "-n", "b", *options, "true", expect=4).stderr
    assert str(worktree_of("a")) in said
    stop(holdfast, "a")
    # A directory that was removed by hand is still git's.
    os.rename(worktree_of("a"), tmp_path / "moved")
    said = holdfast("run", "-n", "b", *options, "true", expect=4).stderr
    assert "git worktree prune" in said


def test_where_no_worktree_can_be_made_of(holdfast, repository, tmp_path):
    (tmp_path / "plain").mkdir()
    said = holdfast("run", "--worktree", "x", "-C", tmp_path / "plain", "true", expect=2).stderr
    assert "is not in a git repository" in said
    git_directory = repository.path / ".git"
    said = holdfast("run", "--worktree", "x", "-C", git_directory, "true", expect=2).stderr
    assert "own .git directory" in said
    empty = Repository.make(tmp_path / "empty")
    said = holdfast("run", "--worktree", "x", "-C", empty.path, "true", expect=2).stderr
    assert "has no commit yet" in said
    (repository.path / "untracked").mkdir()
    options = ["--worktree", "x", "-C", repository.path / "untracked"]
    said = holdfast("run", *options, "true", expect=2).stderr
    assert "branch x has no directory untracked" in said
    assert repository.branches() == ["main"]
    said = holdfast("run", "--worktree", "x", "true", env={"PATH": "/nowhere"}, expect=6).stderr
    assert "git is not installed" in said
    assert left_behind(tmp_path) == []


def test_git_is_believed_where_ended_children_are_ignored(tmp_path):
    """SIGCHLD ignored, and inherited: Python reads the exit code of such a child as 0."""
    deaf = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    deaf += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    words = ["-m", "holdfast", "run", "--worktree", "x", "-C", tmp_path, "true"]
    done = subprocess.run(
        [sys.executable, "-c", deaf, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "is not in a git repository" in done.stderr


def test_a_program_that_ignores_its_children_is_refused_a_worktree(repository, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    with pytest.raises(Unavailable, match="ignores SIGCHLD"):
        Runs().start(["true"], worktree="x", cwd=repository.path)
    assert "x" not in repository.git("branch", "--list", "x")


def test_what_git_refuses_leaves_nothing_behind(holdfast, repository, tmp_path):
    repository.git("branch", "a")
    said = holdfast("run", "--worktree", "a/b", "-C", repository.path, "true", expect=1).stderr
    assert "git says: " in said
    assert "refs/heads/a" in said
    repository.hook("post-checkout", "exit 3")
    assert holdfast("run", "--worktree", "x", "-C", repository.path, "true").returncode == 1
    assert repository.branches() == ["a", "main"]
    assert repository.worktrees() == []
    assert left_behind(tmp_path) == []


def test_a_command_that_cannot_start_has_its_worktree_until_it_is_removed(
    holdfast, repository, tmp_path
):
    options = ["--worktree", "x", "-C", repository.path]
    assert holdfast("run", "-n", "a", *options, "/no/such/program").returncode == 127
    assert worktree_of("a").is_dir()
    holdfast("rm", "a", expect=0)
    assert left_behind(tmp_path) == []


# --- interrupted ----------------------------------------------------------------------------


def test_the_launcher_is_killed_in_the_middle_and_recover_finds_what_it_left(holdfast, repository):
    repository.hook("post-checkout", "kill -9 $(ps -o ppid= -p $PPID)")
    done = holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true")
    assert done.returncode == -signal.SIGKILL
    [path] = eventually(repository.worktrees, why="git goes on without its launcher")
    repository.hook("post-checkout", "exit 0")
    told = holdfast("recover", "--dry-run", "--json", expect=0).json["runs"]
    assert [(one["id"], one["action"]) for one in told] == [(Path(path).name, "removed")]
    assert repository.worktrees() == [path]
    # With work in it, it is kept, whoever's that is.
    (Path(path) / "work").write_text("precious\n")
    [told] = holdfast("recover", "--json", expect=0).json["runs"]
    assert told["action"] == "unknown"
    assert "uncommitted" in told["evidence"]
    (Path(path) / "work").unlink()
    [told] = holdfast("recover", "--json", expect=0).json["runs"]
    assert told["action"] == "removed"
    assert "worktree of x whose launcher died" in told["evidence"]
    assert (repository.worktrees(), repository.branches()) == ([], ["main"])
    assert holdfast("recover", "--json", expect=0).json["runs"] == []
    # The branch can be had again.
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true", expect=0)


def test_a_checkout_that_takes_long_is_not_taken_for_a_leftover(holdfast, repository, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    repository.hook("post-checkout", f"cat {go}")
    words = ("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true")
    process = subprocess.Popen(holdfast.argv(*words), stdout=subprocess.DEVNULL)
    note = eventually(lambda: list((tmp_path / "worktrees").glob("*.json")), why="it is noted")[0]
    os.utime(tmp_path / "runs" / note.stem, (1, 1))  # long ago
    assert holdfast("recover", "--json", expect=0).json["runs"] == []
    go.write_text("")
    assert process.wait(30) == 0
    assert ended("a").outcome == "succeeded"


def test_an_event_loop_is_not_held_up_and_a_start_that_is_given_up_leaves_nothing(
    repository, tmp_path
):
    repository.hook("post-checkout", f": >{tmp_path}/begun; exec sleep 600")

    async def give_up() -> int:
        start = asyncio.ensure_future(
            AsyncRuns().start(["true"], worktree="x", cwd=repository.path)
        )
        turns = 0
        while not (tmp_path / "begun").exists():
            assert not start.done(), start
            await asyncio.sleep(0.001)
            turns += 1
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        return turns

    assert asyncio.run(give_up()) > 3
    assert (repository.worktrees(), repository.branches()) == ([], ["main"])
    assert left_behind(tmp_path) == []


def test_many_at_once_from_one_event_loop(repository):
    async def start_all_of_them() -> list[str]:
        runs = AsyncRuns()
        starts = [
            runs.start(["true"], name=f"r{n}", worktree=f"b{n}", cwd=repository.path)
            for n in range(4)
        ]
        clash = runs.start(["true"], name="c", worktree="main/x", cwd=repository.path)
        started = await asyncio.gather(*starts, clash, return_exceptions=True)
        assert isinstance(started.pop(), Failed)
        infos = await asyncio.gather(*(run.wait() for run in started))  # type: ignore[union-attr]
        return [str(info.outcome) for info in infos]

    assert asyncio.run(start_all_of_them()) == ["succeeded"] * 4
    assert len(repository.worktrees()) == 4


def test_the_specs_worktree_is_what_was_made(holdfast, repository, tmp_path):
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true", expect=0)
    info = ended("a")
    spec = json.loads((tmp_path / "runs" / info.id / "spec.json").read_text())
    assert spec["worktree"]["path"] == str(tmp_path / "worktrees" / info.id)
    assert (tmp_path / "worktrees").stat().st_mode & 0o777 == 0o700
