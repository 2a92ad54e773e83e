"""Gives up what a worktree run changed: its worktree goes, and the branch that was made for it.

By the same steps, and with the same refusals, as `rm --discard-worktree`; but the run's record
stays, and the branch goes.
"""

from __future__ import annotations

from holdfast.manage.operations import run_steps
from holdfast.manage.removal.liveness import prove_over, read_readable, stamped
from holdfast.manage.removal.remove import lock_ended, refuse_link
from holdfast.manage.suspects import Suspects
from holdfast.manage.worktrees.changes import worktree_of
from holdfast.manage.worktrees.checkout import find_given_up, remove_worktree
from holdfast.manage.worktrees.own_branch import delete_branch, find_own_branch
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.directory import RunDirectory


class Discarded(Record):
    """What was given up of a run's worktree."""

    id: str
    name: str
    path: str
    branch: str | None  # that went with it; None: it is not the run's own, or was gone
    given_up: tuple[str, ...]  # each as a phrase; none: nothing is lost


def discard_run(directory: RunDirectory, *, dry_run: bool = False) -> Discarded:
    """Remove the worktree and its own branch. StillAlive or IdentityUnproven while it may run.

    `dry_run`: only say what would be given up.
    """
    refuse_link(directory)
    spec, worktree = directory.read_spec(), worktree_of(directory)
    lock = lock_ended(directory, spec)
    assert lock is not None  # nothing was abandoned: it is held, or was refused
    with lock:
        run = read_readable(directory, spec)
        prove_over(run, False, stamped(run, Suspects(directory.home)), ())
        branch = run_steps(find_own_branch(worktree))
        if dry_run:
            lost = find_given_up(directory.home, worktree)
        else:
            lost = remove_worktree(directory.home, worktree.to_json(), discard=True)
            is_deleted = branch is not None and run_steps(delete_branch(worktree, branch))
            branch = branch if is_deleted else None
    if branch is None:
        return Discarded(spec.id, spec.name, worktree.path, None, lost)
    return Discarded(spec.id, spec.name, worktree.path, branch.name, (*lost, *branch.loss))
