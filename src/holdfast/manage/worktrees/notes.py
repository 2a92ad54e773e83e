"""What is on disk about runs' worktrees: where they are, and a note for each while it has no run.

The note is written before a worktree is made, by its launcher: one whose launcher died before it
wrote the run's spec is found by it. Nothing is removed here but notes.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused
from holdfast.lean import read_json
from holdfast.process.identity import ProcessIdentity
from holdfast.record import Record
from holdfast.run.atomic_files import atomic_write, encode, remove_file
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.run.home import Home

    Json = dict[str, Any]


class Worktree(Record):
    """One run's checkout: the contract's `worktree`."""

    path: str
    branch: str
    repository: str  # the checkout, or bare repository, that it was made from
    base: str  # the commit that it began with
    made_branch: bool  # whether the branch was made with it

    def to_json(self) -> Json:
        """For the spec."""
        return self.as_dict()


def folder(home: Home) -> str:
    """All worktrees of a home, their notes, and a lock for each repository."""
    return f"{home.path}/worktrees"


def believed(home: Home, document: Json) -> Worktree:
    """A worktree from a record, believed only if it is one that we could have made."""
    worktree = _from_json(document)
    if worktree is not None:
        parent, name = os.path.split(os.path.realpath(worktree.path))
        if parent == os.path.realpath(folder(home)) and is_id(name):
            return worktree
    raise Refused(
        f"{document.get('path')!r} is not a worktree that Holdfast made",
        hint="it is left alone; see the run's spec.json",
    )


def write_note(home: Home, run_id: str, worktree: Worktree) -> None:
    """Before it is made."""
    launcher = ProcessIdentity.current().to_json()
    note = {"schema": 1, "worktree": worktree.to_json(), "launcher": launcher}
    atomic_write(_note_path(home, run_id), encode(note) + b"\n")


def read_note(home: Home, run_id: str) -> Worktree | None:
    """The worktree that was made, or was about to be."""
    return _from_json(_read(home, run_id).get("worktree"))


def forget_note(home: Home, run_id: str) -> None:
    """It is gone."""
    remove_file(_note_path(home, run_id))


def is_being_made(home: Home, run_id: str) -> bool:
    """Whether a launcher may be making a worktree for a run that has no spec yet."""
    launcher = _launcher(home, run_id)
    return launcher is not None and not _is_gone(launcher)


def orphaned(home: Home) -> Iterator[tuple[str, Worktree]]:
    """Those without a run, whose launcher is proven gone."""
    try:
        names = sorted(os.listdir(folder(home)))
    except FileNotFoundError:
        return
    for name in names:
        run_id = name.removesuffix(".json")
        if run_id == name or not is_id(run_id) or RunDirectory(home, run_id).exists():
            continue
        worktree, launcher = read_note(home, run_id), _launcher(home, run_id)
        is_ours = worktree is not None and worktree.path == f"{folder(home)}/{run_id}"
        if worktree is not None and is_ours and launcher is not None and _is_gone(launcher):
            yield run_id, worktree


def _is_gone(launcher: ProcessIdentity) -> bool:
    return launcher.verdict().is_gone


def _note_path(home: Home, run_id: str) -> str:
    return f"{folder(home)}/{run_id}.json"


def _read(home: Home, run_id: str) -> Json:
    try:
        with open(_note_path(home, run_id), encoding="utf-8") as file:
            note = read_json(file.read())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _launcher(home: Home, run_id: str) -> ProcessIdentity | None:
    try:
        return ProcessIdentity.from_json(_read(home, run_id)["launcher"])
    except (HoldfastError, KeyError, TypeError):
        return None


def _from_json(document: object) -> Worktree | None:
    if not isinstance(document, dict):
        return None
    path, branch, repository, base = map(document.get, ("path", "branch", "repository", "base"))
    if not all(isinstance(text, str) for text in (path, branch, repository, base)):
        return None
    made_branch = document.get("made_branch") is True
    return Worktree(str(path), str(branch), str(repository), str(base), made_branch)
