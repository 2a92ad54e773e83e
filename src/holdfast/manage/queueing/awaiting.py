"""Which queued runs wait for a run: `awaited/<id>` in its directory."""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused
from holdfast.manage.state import read_facts
from holdfast.run.atomic_files import make_directory
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container


def note_awaited(directory: RunDirectory, waiter_id: str) -> None:
    """Tell a run that another waits for its end."""
    path = f"{directory.path}/awaited"
    try:
        make_directory(path)
        os.close(os.open(f"{path}/{waiter_id}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        return  # it was removed: the next look shows that


def awaited_error(
    directory: RunDirectory, path: str | None = None, besides: Container[str] = ()
) -> Refused | None:
    """Why a run can't be removed: others wait for it. `path`: where its directory is now.

    `besides`: those that are to be stopped as well.
    """
    waiters = _waiters_of(directory, path or directory.path, besides)
    if not waiters:
        return None
    return Refused(
        f"run {directory.id} is awaited by {', '.join(waiters)}",
        hint=f"holdfast stop {waiters[0]} cancels it; then try again",
        run=directory.id,
    )


def _waiters_of(directory: RunDirectory, path: str, besides: Container[str]) -> list[str]:
    """The names of the runs that still wait for it."""
    try:
        ids = sorted(filter(is_id, os.listdir(f"{path}/awaited")))
    except FileNotFoundError:
        return []
    names = (_waiting_name(directory.sibling(waiter)) for waiter in ids if waiter not in besides)
    return [name for name in names if name is not None]


def _waiting_name(waiter: RunDirectory) -> str | None:
    """Its name, while it waits; what can't be read may wait."""
    if not waiter.exists():
        return None
    try:
        facts = read_facts(waiter)
        waits = not facts.has_ended and not facts.attempt.number and not facts.is_admitted
        return waiter.read_spec().name if waits else None
    except (HoldfastError, OSError):
        return waiter.id
