"""Git worktrees for runs: each `--worktree BRANCH` run works in a checkout of its own.

They live in the state directory and nowhere else: the user's own checkout is never touched. One is
removed with its run only when nothing in it is uncommitted and nothing on its branch is unmerged.
"""

from __future__ import annotations

import os

from holdfast.errors import Failed, HoldfastError, LockBusy, Refused, WrongUse
from holdfast.manage.git import CHECKOUT_SECONDS, Said, check_out, find_filters, git
from holdfast.manage.repository import check_branch, find_branch, find_repository
from holdfast.manage.steps import Wait, run_steps
from holdfast.manage.worktree_notes import (
    Worktree,
    believed,
    folder,
    forget_note,
    orphaned,
    read_note,
    write_note,
)
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.locks import take_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.repository import Branch, Repository
    from holdfast.manage.steps import Steps
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock

    Json = dict[str, Any]

_LOCK_SECONDS = CHECKOUT_SECONDS  # others wait for a checkout that takes its time
_PAUSE_SECONDS = 0.02
# What git keeps beside a checkout while something is under way in it.
_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


class Leftover(Record):
    """A worktree without a run: whoever was starting it died."""

    run_id: str
    worktree: Worktree
    why_kept: str | None  # None: nothing in it would be lost


# --- making ---------------------------------------------------------------------------------


def add_worktree(home: Home, run_id: str, cwd: str, branch: str) -> Steps[tuple[Worktree, str]]:
    """Make a worktree for a run; also the directory in it that corresponds to `cwd`.

    A branch that does not exist is made: from the remote that has it, else from HEAD.
    """
    repository = yield from find_repository(cwd)
    yield from check_branch(branch, repository)
    os.makedirs(folder(home), mode=0o700, exist_ok=True)
    # `git worktree add` is not made for many at once in one repository.
    lock = yield from _lock(home, repository.common)
    with lock:
        found = yield from find_branch(branch, repository)
        path = f"{folder(home)}/{run_id}"
        worktree = Worktree(path, branch, repository.main, found.base, found.is_new)
        write_note(home, run_id, worktree)
        try:
            yield from _check_out(repository, worktree, found)
            return worktree, _corresponding(repository, worktree)
        except BaseException:
            run_steps(_undo(home, run_id, worktree))
            raise


def _check_out(repository: Repository, worktree: Worktree, branch: Branch) -> Steps[None]:
    words = ["worktree", "add", "--quiet"]
    if branch.is_new:
        words += ["--track"] if branch.tracks else ["--no-track"]
        words += ["-b", branch.name, worktree.path, branch.tracks or branch.base]
    else:
        words += [worktree.path, branch.name]
    said = yield from check_out(repository.cwd, *words)
    if not said.is_well:
        raise Failed(
            f"no worktree of {branch.name}: git says: {said.complaint}",
            hint="another --worktree BRANCH, or run without it",
        )


def _corresponding(repository: Repository, worktree: Worktree) -> str:
    if repository.top is None:
        return worktree.path
    inside = os.path.relpath(os.path.realpath(repository.cwd), os.path.realpath(repository.top))
    cwd = os.path.normpath(os.path.join(worktree.path, inside))
    if not os.path.isdir(cwd):
        raise WrongUse(
            f"--worktree: branch {worktree.branch} has no directory {inside}",
            hint=f"start it at the top: -C {repository.top}",
        )
    return cwd


def undo_worktree(home: Home, run_id: str) -> None:
    """Take back what was made for a run that is not going to be: nothing has run in it."""
    worktree = read_note(home, run_id)
    if worktree is not None:
        run_steps(_undo(home, run_id, worktree))


def _undo(home: Home, run_id: str, worktree: Worktree) -> Steps[None]:
    if os.path.isdir(worktree.path):
        yield from git(worktree.repository, "worktree", "remove", "--force", worktree.path)
    if worktree.made_branch:
        # Only if it is still where it was made.
        ref = f"refs/heads/{worktree.branch}"
        yield from git(worktree.repository, "update-ref", "-d", ref, worktree.base)
    forget_note(home, run_id)


# --- removing -------------------------------------------------------------------------------


def why_kept(home: Home, document: Json) -> str | None:
    """Why a worktree must not be removed, and what to do; None: nothing in it would be lost."""
    worktree = believed(home, document)
    if not os.path.isdir(worktree.path):
        return None
    reason: str | None = run_steps(_why_kept(home, worktree))
    return reason


def refuse_to_lose_work(home: Home, document: Json) -> None:
    """Refused when the worktree must not be removed."""
    reason, path = why_kept(home, document), str(document["path"])
    if reason is not None:
        import shlex

        give_up = shlex.join(["git", "-C", path, "worktree", "remove", "--force", path])
        raise Refused(
            f"its worktree is kept: {reason}",
            hint=f"to give up what is in it: {give_up}",
            path=path,
        )


def remove_worktree(home: Home, document: Json) -> None:
    """Remove a worktree that nothing stands against; Refused otherwise. Its branch stays."""
    refuse_to_lose_work(home, document)
    worktree = believed(home, document)
    if os.path.isdir(worktree.path):
        run_steps(_remove(home, worktree))
    forget_note(home, os.path.basename(worktree.path))


def _remove(home: Home, worktree: Worktree) -> Steps[None]:
    said = yield from _inside(worktree, "rev-parse", "--git-common-dir")
    common = os.path.realpath(os.path.join(worktree.path, said.text))
    lock = yield from _lock(home, common)
    filters = yield from find_filters(worktree.path, _ceiling(worktree))
    with lock:
        # Without --force git refuses what is not clean: it looks again, at the last moment.
        words = ("worktree", "remove", worktree.path)
        said = yield from git(common, *words, seconds=CHECKOUT_SECONDS, without_filters=filters)
    if not said.is_well:
        raise Refused(f"git keeps the worktree {worktree.path}: {said.complaint}")


def _why_kept(home: Home, worktree: Worktree) -> Steps[str | None]:
    user = _used_by(home, worktree)
    if user is not None:
        return f"run {user} works in {worktree.path}"
    said = yield from _inside(worktree, "rev-parse", "--absolute-git-dir")
    if not said.is_well:
        return (
            f"git can't look at {worktree.path} ({said.complaint}), so nobody can tell what would"
            f" be lost; if its repository is gone for good, remove the directory by hand"
        )
    own = said.text
    for name, what in _UNDER_WAY.items():
        if os.path.exists(f"{own}/{name}"):
            return f"{what} is under way in {worktree.path}; finish or abort it there"
    if os.path.isdir(f"{own}/modules"):
        return f"submodules were fetched into {worktree.path}; see that their commits are pushed"
    nested = yield from _nested_repository(worktree)
    if nested is not None:
        return f"{nested} in {worktree.path} is a repository of its own; see that nothing is lost"
    filters = yield from find_filters(worktree.path, _ceiling(worktree))
    words = ("status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
    changed = yield from _inside(worktree, *words, without_filters=filters)
    if not changed.is_well or changed.text:
        count = len(changed.text.splitlines())
        changes = f"{count} uncommitted {_plural(count, 'change')}"
        return f"{worktree.path} has {changes}; commit there first"
    return (yield from _unmerged(worktree))


def _nested_repository(worktree: Worktree) -> Steps[str | None]:
    """A repository that is recorded as a submodule and lies in the checkout: git would look into
    it, with the programs that its own configuration names."""
    listed = yield from _inside(worktree, "ls-files", "--stage", "-z")
    for entry in listed.output.split("\0"):
        mode, _, path = entry.partition("\t")
        if mode.startswith("160000 ") and os.path.lexists(f"{worktree.path}/{path}/.git"):
            return path
    return None


def _unmerged(worktree: Worktree) -> Steps[str | None]:
    """Commits of the branch, or of what is checked out instead, that are nowhere else."""
    branch = f"refs/heads/{worktree.branch}"
    there = yield from _inside(worktree, "show-ref", "--verify", "--quiet", branch)
    ours = ["HEAD", branch] if there.is_well else ["HEAD"]
    others = [f"--exclude={worktree.branch}", "--branches", "--remotes", "--tags", worktree.base]
    said = yield from _inside(worktree, "rev-list", "--count", *ours, "--not", *others)
    if said.is_well and said.text == "0":
        return None
    if not said.is_well:
        return f"git can't compare branch {worktree.branch}: {said.complaint}"
    count = int(said.text)
    return (
        f"branch {worktree.branch} has {count} {_plural(count, 'commit')} that no other branch has;"
        f" push it, or merge it: git -C {worktree.repository} merge {worktree.branch}"
    )


def _used_by(home: Home, worktree: Worktree) -> str | None:
    """The active run, other than the worktree's own, that was started in it."""
    inside = os.path.realpath(worktree.path) + "/"
    for run_id in home.run_ids(active=True):
        try:
            spec = RunDirectory(home, run_id).read_spec()
        except (HoldfastError, OSError):
            continue
        its_place = os.path.realpath(spec.cwd) + "/"
        if run_id != os.path.basename(worktree.path) and its_place.startswith(inside):
            return f"{spec.name} ({run_id})"
    return None


def _inside(worktree: Worktree, *words: str, without_filters: Sequence[str] = ()) -> Steps[Said]:
    ceiling = _ceiling(worktree)
    steps = git(worktree.path, *words, ceiling=ceiling, without_filters=without_filters)
    return (yield from steps)


def _ceiling(worktree: Worktree) -> str:
    """Without its .git file, git would find a repository further up: the user's own."""
    return os.path.dirname(os.path.realpath(worktree.path))


# --- what a launcher that died left behind --------------------------------------------------


def find_leftovers(home: Home) -> list[Leftover]:
    """Worktrees that were being made for runs that never came to be."""
    return [
        Leftover(run_id, worktree, why_kept(home, worktree.to_json()))
        for run_id, worktree in orphaned(home)
    ]


def remove_leftover(home: Home, leftover: Leftover) -> None:
    """Remove one in which nothing would be lost, and the branch that was made for it."""
    remove_worktree(home, leftover.worktree.to_json())
    run_steps(_undo(home, leftover.run_id, leftover.worktree))


def _lock(home: Home, common: str) -> Steps[HeldLock]:
    """One at a time for each repository, whoever asks."""
    import hashlib

    digest = hashlib.sha256(os.fsencode(common)).hexdigest()[:16]
    path = f"{folder(home)}/{digest}.lock"
    deadline = boottime() + _LOCK_SECONDS
    while True:
        lock = take_lock(path)
        if lock is not None:
            return lock
        if boottime() >= deadline:
            raise LockBusy(f"another worktree of {common} is being made, for very long", path=path)
        yield Wait((), _PAUSE_SECONDS)


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
