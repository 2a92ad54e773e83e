"""Where a run works that is made from one with a worktree.

Without `--worktree` that is the same worktree. With it, a new one is made from the repository, and
not from the old worktree: what the old run has committed there is no part of the new one's start.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused, argument, called
from holdfast.manage.worktrees.notes import Worktree, believed, folder
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Options = dict[str, Any]


def place_again(home: Home, spec: RunSpec, changes: Options) -> Options:
    """Options that the new run needs beside those of the old one; Refused where that is gone."""
    made_by = _made_by(home, spec)
    if changes.get("cwd") is not None or made_by is None:
        return {}
    document = _document(home, spec, made_by)
    if changes.get("worktree") is None:
        if not os.path.isdir(f"{folder(home)}/{made_by}"):
            raise _gone(spec, document is not None)
        return {}
    if document is None:
        return {}
    setup = document.get("setup")
    kept = {} if setup is None or "worktree_setup" in changes else {"worktree_setup": setup}
    return {"cwd": _in_repository(spec, believed(home, document)), **kept}


def _made_by(home: Home, spec: RunSpec) -> str | None:
    """The run whose worktree it works in, its own or that of an earlier one."""
    path = spec.cwd if spec.worktree is None else str(spec.worktree.get("path"))
    first = os.path.relpath(path, folder(home)).partition("/")[0]
    return first if is_id(first) else None


def _document(home: Home, spec: RunSpec, made_by: str) -> Options | None:
    """What is recorded of that worktree; None: its run was removed."""
    if spec.worktree is not None:
        return spec.worktree
    try:
        return RunDirectory(home, made_by).read_spec().worktree
    except (HoldfastError, OSError):
        return None


def _in_repository(spec: RunSpec, worktree: Worktree) -> str:
    """The directory of the repository that corresponds to the run's own."""
    inside = os.path.relpath(spec.cwd, worktree.path)
    path = os.path.normpath(os.path.join(worktree.repository, inside))
    is_inside = not inside.startswith("..") and os.path.isdir(path)
    return path if is_inside else worktree.repository


def _gone(spec: RunSpec, is_known: bool) -> Refused:
    how = f"{argument('worktree')} BRANCH" if is_known else f"{argument('cwd')} DIR"
    return Refused(
        f"the worktree that {spec.name} ({spec.id}) worked in is gone",
        hint=f"{called('rerun')} with {how} starts its command again in another",
        run=spec.id,
    )
