"""The branch that was made for a run's worktree: what only it has, and how it is given up."""

from __future__ import annotations

import os

from holdfast.manage.worktrees.git import git
from holdfast.manage.worktrees.losses import counted
from holdfast.manage.worktrees.repository import list_worktrees
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.operations import Steps
    from holdfast.manage.worktrees.notes import Worktree


class OwnBranch(Record):
    """A branch that was made with a worktree and is checked out nowhere else."""

    name: str
    tip: str
    lone_commits: int  # that no other branch, remote or tag leads to

    @property
    def loss(self) -> tuple[str, ...]:
        """What is given up with it, as a phrase."""
        if not self.lone_commits:
            return ()
        commits = counted(self.lone_commits, "commit")
        return (f"{commits} that only branch {self.name} has ({self.tip[:12]})",)


def find_own_branch(worktree: Worktree) -> Steps[OwnBranch | None]:
    """None: it is not the run's own, is gone, or git can't tell."""
    if not worktree.made_branch or not os.path.isdir(worktree.repository):
        return None
    ref = f"refs/heads/{worktree.branch}"
    tip = yield from git(worktree.repository, "rev-parse", "--verify", "--quiet", ref)
    listed = yield from git(worktree.repository, "worktree", "list", "--porcelain")
    if not tip.is_well or not listed.is_well:
        return None
    own = os.path.realpath(worktree.path)
    for path, branch in list_worktrees(listed.output):
        if branch == worktree.branch and os.path.realpath(path) != own:
            return None
    others = (f"--exclude={worktree.branch}", "--branches", "--remotes", "--tags", worktree.base)
    lone = yield from git(worktree.repository, "rev-list", "--count", tip.text, "--not", *others)
    return OwnBranch(worktree.branch, tip.text, int(lone.text)) if lone.is_well else None


def delete_branch(worktree: Worktree, branch: OwnBranch) -> Steps[bool]:
    """Delete it, if it still is where it was looked at."""
    ref = f"refs/heads/{branch.name}"
    said = yield from git(worktree.repository, "update-ref", "-d", ref, branch.tip)
    if said.is_well:  # which remote's branch it follows, if any
        section = f"branch.{branch.name}"
        yield from git(worktree.repository, "config", "--remove-section", section)
    return said.is_well
