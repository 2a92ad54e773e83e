"""Everything known about one run, at one look: what `status` and every live view of a run show."""

from __future__ import annotations

import time

from holdfast.manage.info import examine_run
from holdfast.manage.processes import look_at_processes
from holdfast.manage.reading.buffering import buffering_hint
from holdfast.manage.words.status_page import StatusFacts
from holdfast.run.lifecycle import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.directory import RunDirectory
    from holdfast.run.event_log import LoggedEvent


def read_status(directory: RunDirectory) -> StatusFacts:
    """The run at one look: its document, its events, its processes and the suspects."""
    info, view = examine_run(directory)
    spec = None if view is None else view.spec
    events = _events(directory) if view is None else view.read.events
    facts = fold(events) if view is None else view.facts
    processes = look_at_processes(directory, facts, spec)
    suspects = processes.suspects
    found = None if suspects is None else [suspect.process for suspect in suspects]
    hint = "" if spec is None else buffering_hint(info, spec.env)
    info = info.replace(suspects=found)
    if info.worktree is not None:
        from holdfast.manage.worktrees.changes import Counting

        info = Counting(directory.home).add_to(info)
    return StatusFacts(info, facts, events, processes, time.time(), hint)


def _events(directory: RunDirectory) -> tuple[LoggedEvent, ...]:
    """Of a run without a spec that can be read; the evidence says why there are none."""
    try:
        read = directory.read_events()
    except OSError:
        return ()
    return () if read.damage else read.events
