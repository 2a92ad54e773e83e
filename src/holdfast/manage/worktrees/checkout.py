"""Git worktrees for runs: each `--worktree BRANCH` run works in a checkout of its own.

They live in the state directory and nowhere else: the user's own checkout is never touched. One is
removed with its run only when nothing would be lost, or with the user's word (`losses.py`).
"""

from __future__ import annotations

import os

from holdfast.errors import Failed, LockBusy, Refused, WrongUse, argument, called
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.worktrees.git import CHECKOUT_SECONDS, check_out, git
from holdfast.manage.worktrees.included import copy_included
from holdfast.manage.worktrees.losses import ask_inside, filters_of, find_losses, find_user
from holdfast.manage.worktrees.notes import (
    Worktree,
    believed,
    folder,
    forget_note,
    orphaned,
    read_note,
    write_note,
)
from holdfast.manage.worktrees.repository import check_branch, find_branch, find_repository
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.locks import take_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.worktrees.included import Included
    from holdfast.manage.worktrees.repository import Branch, Repository
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock

    Json = dict[str, Any]

_LOCK_SECONDS = CHECKOUT_SECONDS  # others wait for a checkout that takes its time
_PAUSE_SECONDS = 0.02


class Leftover(Record):
    """A worktree without a run: its launcher died."""

    run_id: str
    worktree: Worktree
    lost: tuple[str, ...]  # with it


# --- making ---------------------------------------------------------------------------------


class NewWorktree(Record):
    """A worktree that was made."""

    worktree: Worktree
    cwd: str  # in it, where the caller stands in its own
    included: Included | None  # what was copied into it


def add_worktree(home: Home, run_id: str, cwd: str, branch: str) -> Steps[NewWorktree]:
    """Make a worktree for a run.

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
            included = yield from copy_included(repository.top, worktree.path)
            return NewWorktree(worktree, _corresponding(repository, worktree), included)
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
            hint=f"another {argument('worktree')} BRANCH, or run without it",
        )


def _corresponding(repository: Repository, worktree: Worktree) -> str:
    if repository.top is None:
        return worktree.path
    inside = os.path.relpath(os.path.realpath(repository.cwd), os.path.realpath(repository.top))
    cwd = os.path.normpath(os.path.join(worktree.path, inside))
    if not os.path.isdir(cwd):
        raise WrongUse(
            f"{argument('worktree')}: branch {worktree.branch} has no directory {inside}",
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


def refuse_to_lose_work(home: Home, document: Json) -> None:
    """Refused when the worktree is in use, or something would be lost with it."""
    worktree = believed(home, document)
    _refuse_in_use(home, worktree)
    lost = _losses(worktree)
    if lost:
        raise Refused(
            f"its worktree {worktree.path} is kept: {'; '.join(lost)}",
            hint=f"save that first, or give it up: {called('rm', 'discard_worktree')}",
            path=worktree.path,
        )


def remove_worktree(home: Home, document: Json, *, discard: bool = False) -> tuple[str, ...]:
    """Remove a worktree; its branch stays. What was given up with it, which needs `discard`."""
    worktree = believed(home, document)
    lost: tuple[str, ...] = ()
    if discard:
        lost = find_given_up(home, worktree)
    else:
        refuse_to_lose_work(home, document)
    if os.path.isdir(worktree.path):
        run_steps(_remove(home, worktree, discard))
    forget_note(home, os.path.basename(worktree.path))
    return lost


def find_given_up(home: Home, worktree: Worktree) -> tuple[str, ...]:
    """What would be lost with it; Refused while another run works in it."""
    _refuse_in_use(home, worktree)
    return _losses(worktree)


def _losses(worktree: Worktree) -> tuple[str, ...]:
    if not os.path.isdir(worktree.path):
        return ()
    lost: tuple[str, ...] = run_steps(find_losses(worktree))
    return lost


def _refuse_in_use(home: Home, worktree: Worktree) -> None:
    user = find_user(home, worktree)
    if user is not None:
        raise Refused(
            f"run {user} works in its worktree {worktree.path}",
            hint="stop that one first, or wait for it",
            path=worktree.path,
        )


def _remove(home: Home, worktree: Worktree, discard: bool) -> Steps[None]:
    said = yield from ask_inside(worktree, "rev-parse", "--git-common-dir")
    if not said.is_well and discard:
        _delete_files(home, worktree)
        return
    common = os.path.realpath(os.path.join(worktree.path, said.text))
    lock = yield from _lock(home, common)
    filters = yield from filters_of(worktree)
    with lock:
        # Without --force git refuses what is not clean: it looks again, at the last moment.
        words = ("worktree", "remove", *(["--force"] if discard else []), worktree.path)
        said = yield from git(common, *words, seconds=CHECKOUT_SECONDS, without_filters=filters)
    if not said.is_well:
        raise Refused(f"git keeps the worktree {worktree.path}: {said.complaint}")


def _delete_files(home: Home, worktree: Worktree) -> None:
    """For a checkout whose repository is gone."""
    from holdfast.manage.removal.deletion import delete, take_out

    delete(home, take_out(home, worktree.path))


# --- what a launcher that died left behind --------------------------------------------------


def find_leftovers(home: Home) -> list[Leftover]:
    """Worktrees that were being made for runs that never came to be."""
    return [Leftover(run_id, worktree, _losses(worktree)) for run_id, worktree in orphaned(home)]


def remove_leftover(home: Home, leftover: Leftover) -> None:
    """Remove one in which nothing would be lost, and the branch that was made for it."""
    remove_worktree(home, leftover.worktree.to_json())
    run_steps(_undo(home, leftover.run_id, leftover.worktree))


def _lock(home: Home, common: str) -> Steps[HeldLock]:
    """One at a time for each repository, in all processes."""
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
