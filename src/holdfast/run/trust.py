"""Reasons not to believe a run's record: it is somebody else's, a copy, or has been cut.

What is doubted is listed as `unknown`, kept, never adopted; no process is signalled by it.
"""

from __future__ import annotations

import os

from holdfast.process import this_host
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec


class Doubt(Record):
    """Why a record is not believed."""

    why: str
    of_ending_too: bool  # False: a recorded ending is believed all the same


def doubt_origin(directory: RunDirectory, spec: RunSpec) -> Doubt | None:
    """Whether the directory is what a launcher of this user made on this machine."""
    try:
        owner = os.stat(directory.path).st_uid
    except FileNotFoundError:
        raise directory.not_found() from None
    if owner != os.geteuid():
        return Doubt(f"its directory belongs to another user (uid {owner})", of_ending_too=True)
    if spec.id != directory.id:
        return Doubt(f"its directory is a copy: the spec is that of {spec.id}", of_ending_too=True)
    if spec.host != this_host.place().host:
        return Doubt(f"it was recorded on another host ({spec.host})", of_ending_too=False)
    return None


def has_summary(directory: RunDirectory) -> bool:
    """Whether a summary was written. Ask before reading the events, which then have its ending.

    A summary is written after the ending is recorded. Asked later, a shim may have written both
    since the events were read, and the record would look cut.
    """
    return os.path.lexists(directory.summary_path)


def doubt_length(directory: RunDirectory, facts: RunFacts, had_summary: bool) -> str | None:
    """Whether the events, which no shim is writing now, are shorter than they once were."""
    if had_summary and not facts.has_ended:
        return "there is a summary of an ending that the events have lost"
    began = (
        facts.attempt.root is not None or facts.adopted or facts.queued is not None
    )  # an adopter, and a queued run's shim, listen before there is a command
    if not began and os.path.lexists(directory.control_path):
        return "its shim was listening, but the events have lost the start of the command"
    return None
