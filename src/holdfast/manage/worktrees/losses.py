"""What would be lost with a run's worktree. Its branch stays, so commits on any branch are safe."""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.manage.worktrees.git import find_filters, git
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.worktrees.git import GitAnswer
    from holdfast.manage.worktrees.notes import Worktree
    from holdfast.run.home import Home

_MOST_FILES_NAMED = 3
# What git keeps beside a checkout while something is under way in it.
_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}


def find_losses(worktree: Worktree) -> Steps[tuple[str, ...]]:
    """Each as a phrase; none: it can go."""
    said = yield from ask_inside(worktree, "rev-parse", "--absolute-git-dir")
    if not said.is_well:
        return (f"git can't look at it ({said.complaint}), so what is in it is not known",)
    own = said.text
    there = [what for name, what in _UNDER_WAY.items() if os.path.exists(f"{own}/{name}")]
    lost = [f"{what} is under way" for what in dict.fromkeys(there)]
    inner = yield from _nested_repository(worktree, own)
    # Git would look into that one, with the programs that its configuration names.
    lost += [inner] if inner is not None else (yield from _uncommitted(worktree))
    lost += yield from _detached(worktree)
    return tuple(lost)


def _nested_repository(worktree: Worktree, own: str) -> Steps[str | None]:
    """A repository that is recorded as a submodule and lies in the checkout."""
    if os.path.isdir(f"{own}/modules"):
        return "submodules were fetched into it, whose commits may be nowhere else"
    listed = yield from ask_inside(worktree, "ls-files", "--stage", "-z")
    for entry in listed.output.split("\0"):
        mode, _, path = entry.partition("\t")
        if mode.startswith("160000 ") and os.path.lexists(f"{worktree.path}/{path}/.git"):
            return f"{path} in it is a repository of its own"
    return None


def _uncommitted(worktree: Worktree) -> Steps[list[str]]:
    filters = yield from filters_of(worktree)
    words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    whole = (*words, "--ignore-submodules=none")
    said = yield from ask_inside(worktree, *whole, without_filters=filters)
    if not said.is_well:
        return [f"git can't say what is uncommitted in it: {said.complaint}"]
    files = [entry[3:] for entry in said.output.split("\0") if entry]
    if not files:
        return []
    named = ", ".join(files[:_MOST_FILES_NAMED])
    more = ", ..." if len(files) > _MOST_FILES_NAMED else ""
    return [f"{counted(len(files), 'uncommitted file')} ({named}{more})"]


def _detached(worktree: Worktree) -> Steps[list[str]]:
    """Commits that only its HEAD leads to."""
    on_branch = yield from ask_inside(worktree, "symbolic-ref", "--quiet", "HEAD")
    if on_branch.is_well:
        return []
    others = ("--branches", "--remotes", "--tags", worktree.base)
    said = yield from ask_inside(worktree, "rev-list", "HEAD", "--not", *others)
    if not said.is_well:
        return [f"git can't say which commits its detached HEAD has: {said.complaint}"]
    commits = said.output.split()
    if not commits:
        return []
    return [f"{counted(len(commits), 'commit')} of a detached HEAD ({commits[0][:12]})"]


def find_user(home: Home, worktree: Worktree) -> str | None:
    """The active run, other than the worktree's own, that was started in it."""
    inside = os.path.realpath(worktree.path) + "/"
    for run_id in home.run_ids(active=True):
        try:
            spec = RunDirectory(home, run_id).read_spec()
        except (HoldfastError, OSError):  # where it was started can't be known
            continue
        its_place = os.path.realpath(spec.cwd) + "/"
        if run_id != os.path.basename(worktree.path) and its_place.startswith(inside):
            return f"{spec.name} ({run_id})"
    return None


def ask_inside(worktree: Worktree, *words: str, **how: Any) -> Steps[GitAnswer]:
    """What git says in the checkout; it runs no program that the repository names."""
    return (yield from git(worktree.path, *words, ceiling=_ceiling(worktree), **how))


def filters_of(worktree: Worktree) -> Steps[list[str]]:
    """The filters to switch off where git reads files of the checkout."""
    return (yield from find_filters(worktree.path, _ceiling(worktree)))


def _ceiling(worktree: Worktree) -> str:
    """Without its .git file, git would find a repository further up: the user's own."""
    return os.path.dirname(os.path.realpath(worktree.path))


def counted(count: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
