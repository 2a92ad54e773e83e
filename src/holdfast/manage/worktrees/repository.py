"""Looks at the git repository that a worktree is to be made from, and at its branches.

It changes nothing there.
"""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, Refused, WrongUse, argument
from holdfast.manage.worktrees.git import git
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.manage.operations import Steps

_HEADS = "refs/heads/"


class Repository(Record):
    """Where the caller stands, and which repository that belongs to."""

    cwd: str
    top: str | None  # the top of the checkout that `cwd` is in; None: a bare repository
    common: str  # the directory that all its worktrees share
    main: str  # the first checkout, or the bare repository: what people are shown


class Branch(Record):
    """What a worktree of a branch will begin with."""

    name: str
    base: str  # the commit
    is_new: bool
    tracks: str | None = None  # the remote's branch that a new one follows


def find_repository(cwd: str) -> Steps[Repository]:
    """The repository around a directory. WrongUse when there is none to make worktrees of."""
    asked = ("rev-parse", "--is-inside-work-tree", "--is-bare-repository", "--git-common-dir")
    said = yield from git(cwd, *asked)
    if not said.is_well:
        raise WrongUse(
            f"{argument('worktree')}: {cwd} is not in a git repository: {said.complaint}",
            hint="start it in a repository, or without a worktree",
        )
    inside, bare, common = said.text.split("\n", 2)
    top = None
    if inside == "true":
        top = (yield from git(cwd, "rev-parse", "--show-toplevel")).text
    elif bare != "true":
        raise WrongUse(
            f"{argument('worktree')}: {cwd} is inside a repository's own .git directory",
            hint="start it in the checkout",
        )
    common = os.path.realpath(os.path.join(cwd, common))
    listed = yield from git(cwd, "worktree", "list", "--porcelain")
    main = next((path for path, _ in list_worktrees(listed.output)), top or common)
    return Repository(cwd, top, common, main)


def check_branch(name: str, repository: Repository) -> Steps[None]:
    """InvalidOption for what can't be the name of a branch, and for options in disguise."""
    # git itself would take @{-1} for the branch before this one.
    said = None
    if name and not name.startswith("-"):
        said = yield from git(repository.cwd, "check-ref-format", "--branch", name)
    if said is None or said.text != name or name.startswith("refs/"):
        raise InvalidOption(
            f"{argument('worktree')}: {name!r} can't be the name of a branch",
            hint="letters, digits, - _ . and / as in feature/login",
            option="worktree",
            value=name,
        )


def find_branch(name: str, repository: Repository) -> Steps[Branch]:
    """The branch as it is, as a remote has it, or a new one from here. Refused: it is in use."""
    listed = yield from git(repository.cwd, "worktree", "list", "--porcelain")
    for path, branch in list_worktrees(listed.output):
        if branch == name:
            raise _in_use(name, path)
    known = yield from _commit(repository, _HEADS + name)
    if known is not None:
        return Branch(name, known, is_new=False)
    remote = yield from _remote_branch(name, repository)
    base = yield from _commit(repository, remote or "HEAD")
    if base is None:
        raise WrongUse(
            f"{argument('worktree')}: {repository.main} has no commit yet to make {name} from",
            hint="commit something first, or name a branch that exists",
        )
    return Branch(name, base, is_new=True, tracks=remote)


def _in_use(name: str, path: str) -> Refused:
    if os.path.exists(path):
        hint = f"work there, or name another branch: --worktree {name}-2"
    else:
        hint = "that directory is gone: `git worktree prune` makes git forget it"
    return Refused(f"branch {name} is checked out already, in {path}", hint=hint, path=path)


def _remote_branch(name: str, repository: Repository) -> Steps[str | None]:
    pattern = f"refs/remotes/*/{name}"  # no character of a branch's name is special in a pattern
    said = yield from git(repository.cwd, "for-each-ref", "--format=%(refname)", pattern)
    found = said.text.split()
    if len(found) > 1:
        raise Refused(
            f"branch {name} is on several remotes: {', '.join(found)}",
            hint=f"choose one: git branch {name} {found[0].removeprefix('refs/remotes/')}",
        )
    return found[0] if found else None


def _commit(repository: Repository, name: str) -> Steps[str | None]:
    said = yield from git(repository.cwd, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return said.text if said.is_well else None


def list_worktrees(porcelain: str) -> Iterator[tuple[str, str | None]]:
    """Each worktree's path and branch, the main one first."""
    for entry in porcelain.split("\n\n"):
        lines = dict(line.partition(" ")[::2] for line in entry.splitlines())
        if "worktree" in lines:
            branch = lines.get("branch")
            yield lines["worktree"], branch and branch.removeprefix(_HEADS)
