"""Git worktrees for runs: each `--worktree BRANCH` run works in a checkout of its own.

They live in the state directory and nowhere else: the user's own checkout is never touched. One
is removed with its run only when nothing in it is uncommitted and nothing on its branch is
unmerged. The only file that runs git.
"""

from __future__ import annotations

import os

from holdfast.errors import Failed, Refused, Unavailable, WrongUse
from holdfast.record import Record
from holdfast.run.locks import wait_for_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.home import Home

_GIT_SECONDS = 120.0
_LOCK_SECONDS = 300.0  # a checkout of a large repository takes its time, and others wait for it


class Worktree(Record):
    """One run's checkout."""

    path: str
    branch: str
    repository: str  # the top directory of the checkout that it was made from
    base: str  # the commit that the branch was at

    def to_json(self) -> dict[str, Any]:
        """The contract's `worktree`."""
        return self.as_dict()


def add_worktree(home: Home, run_id: str, cwd: str, branch: str) -> tuple[Worktree, str]:
    """Make a worktree for a run; also the directory in it that corresponds to `cwd`.

    A branch that does not exist is made from HEAD. Refused when it is checked out elsewhere.
    """
    top = _git(cwd, "rev-parse", "--show-toplevel", why=f"{cwd} is not in a git repository")
    common = os.path.join(cwd, _git(cwd, "rev-parse", "--git-common-dir"))
    _git(cwd, "check-ref-format", "--branch", branch, why=f"{branch!r} can't name a branch")
    path = f"{home.path}/worktrees/{run_id}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    # `git worktree add` is not made for many at once in one repository.
    with wait_for_lock(_lock_path(home, common), _LOCK_SECONDS):
        exists = _succeeds(top, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}")
        made = [path, branch] if exists else ["-b", branch, path]
        _git(top, "worktree", "add", "--quiet", *made, why=f"no worktree for {branch}")
    base = _git(path, "rev-parse", "HEAD")
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(top))
    return Worktree(path, branch, top, base), os.path.normpath(os.path.join(path, inside))


def why_kept(home: Home, document: dict[str, Any]) -> str | None:
    """Why a worktree must not be removed; None: nothing in it would be lost."""
    worktree = _read(home, document)
    if not os.path.isdir(worktree.path):
        return None
    changed = _git(worktree.path, "status", "--porcelain", "--untracked-files=all")
    if changed:
        return (
            f"its worktree {worktree.path} has {len(changed.splitlines())} uncommitted changes;"
            " commit them there, or discard them with `git restore` and `git clean`"
        )
    # Whatever is checked out there now, the branch or a detached commit, must be kept elsewhere.
    unmerged = _git(
        worktree.path,
        "rev-list",
        "--count",
        "HEAD",
        "--not",
        f"--exclude={worktree.branch}",
        "--branches",
        "--remotes",
        worktree.base,
    )
    if unmerged != "0":
        return (
            f"its branch {worktree.branch} has {unmerged} commits that no other branch has;"
            f" merge it, or push it: git -C {worktree.repository} merge {worktree.branch}"
        )
    return None


def remove_worktree(home: Home, document: dict[str, Any]) -> None:
    """Remove a worktree that `why_kept` has nothing against. Its branch stays."""
    reason = why_kept(home, document)
    if reason is not None:
        raise Refused(reason, hint="the run and its worktree are kept")
    worktree = _read(home, document)
    if not os.path.isdir(worktree.path):
        return
    common = os.path.join(worktree.path, _git(worktree.path, "rev-parse", "--git-common-dir"))
    with wait_for_lock(_lock_path(home, common), _LOCK_SECONDS):
        # Without --force git itself refuses what is not clean: it looks again, under our lock.
        _git(common, "worktree", "remove", worktree.path, why="git keeps the worktree")


def _read(home: Home, document: dict[str, Any]) -> Worktree:
    """A worktree from a record, believed only if it is one of ours."""
    worktree = Worktree(**{name: str(document[name]) for name in Worktree._fields})
    ours = os.path.realpath(f"{home.path}/worktrees")
    if os.path.dirname(os.path.realpath(worktree.path)) != ours:
        raise Refused(
            f"{worktree.path} is not a worktree that Holdfast made",
            hint="it is left alone; see the run's spec.json",
        )
    return worktree


def _lock_path(home: Home, common_directory: str) -> str:
    import hashlib

    real = os.path.realpath(common_directory).encode(errors="surrogateescape")
    return f"{home.path}/worktrees/{hashlib.sha256(real).hexdigest()[:16]}.lock"


def _succeeds(directory: str, *words: str) -> bool:
    return _run(directory, words)[0] == 0


def _git(directory: str, *words: str, why: str = "git failed") -> str:
    code, output, error = _run(directory, words)
    if code:
        said = (error or output).strip().removeprefix("fatal: ") or f"exit {code}"
        kind = Refused if "already" in said else WrongUse if "rev-parse" in words else Failed
        raise kind(f"{why}: {said}", hint="another --worktree BRANCH, or run without it")
    return output.strip("\n")


def _run(directory: str, words: tuple[str, ...]) -> tuple[int, str, str]:
    import subprocess

    # Variables of a hook or an outer git would make git look at another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", directory, *words],
            env={**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise Unavailable("git is not installed", hint="--worktree needs it") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"git {words[0]} took longer than {_GIT_SECONDS:g} s") from None
    decode = "utf-8", "surrogateescape"
    return done.returncode, done.stdout.decode(*decode), done.stderr.decode(*decode)
