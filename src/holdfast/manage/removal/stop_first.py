"""Stops a run that is to be removed, and says what the removal may give up then."""

from __future__ import annotations

from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.queueing.awaiting import awaited_error
from holdfast.manage.removal.remove import Removed, remove_run
from holdfast.manage.stopping import stop_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.operations import Steps
    from holdfast.run.directory import RunDirectory


def stop_first(directory: RunDirectory, *, force: bool) -> Steps[bool]:
    """Whether what survives the stop may be given up; the stop's own error without `force`."""
    try:
        yield from stop_run(directory)
    except HoldfastError as error:
        if not force:
            raise
        # A doubtful record authorises no signal: then nothing survived that could be given up.
        return isinstance(error, Unavailable)
    return force


def remove_steps(
    directory: RunDirectory, *, stop: bool, force: bool, discard_worktree: bool
) -> Steps[Removed]:
    """Remove one run, as `rm` does: nothing is signalled if it could not be removed then."""
    awaited = awaited_error(directory) if stop else None
    if awaited is not None:
        raise awaited
    abandon = (yield from stop_first(directory, force=force)) if stop else False
    return remove_run(directory, force=force, abandon=abandon, discard_worktree=discard_worktree)
