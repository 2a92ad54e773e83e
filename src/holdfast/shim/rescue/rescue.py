"""Has a run whose shim is gone adopted, by an adopter of its own, with no command given.

Loaded when the first such run is met. What can't be told from here is left to `recover`: a run of
another boot, host or PID namespace, one whose record is damaged or of a later version; a queued
run or a due restart that would not get its own control group, limits, umask and namespaces from us.

A shim is a subreaper: the adopter that it starts lands below it, and after its end below the next
shim above: that of the run which rescued it, or in which it was started. So the run is noted in
`rescued/<id>` of all of them first, and what is that run's is never taken for theirs
(`run/inner_runs.py`).
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import this_host
from holdfast.process.context import own_context
from holdfast.process.this_host import STAMP, STAMP_HOME
from holdfast.process.verdict import Verdict
from holdfast.run import conclusion
from holdfast.run.crashpoints import crash_point
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.inner_runs import NOTICE_STAMP
from holdfast.run.lifecycle import fold
from holdfast.run.trust import doubt_length, doubt_origin, has_summary
from holdfast.shim.rescue.spawn import RUN_SHIM, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.facts import RunFacts
    from holdfast.shim.supervisor import Supervisor

# Seconds before each try. First: an adopter that a command started, to end a shim which hung, may
# just be taking the lock. Second: our own adopter needs time to load. Later tries are further and
# further apart.
_PAUSES = (0.2, 3.0, 15.0, 60.0, 240.0, 960.0, 3600.0)


class Rescue:
    """The runs that one shim has adopters started for."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tried: dict[str, int] = {}

    def consider(self, directory: RunDirectory) -> None:
        """Rescue a run whose lock is free; a second call for it changes nothing."""
        if directory.id not in self._tried and needs_rescue(directory):
            self._tried[directory.id] = 0
            self._try_later(directory)

    def _try_later(self, directory: RunDirectory) -> None:
        pause = _PAUSES[min(self._tried[directory.id], len(_PAUSES) - 1)]
        call = lambda: self._try(directory)  # noqa: E731
        self._supervisor.loop.after(f"rescue {directory.id}", pause, call)

    def _try(self, directory: RunDirectory) -> None:
        if self._supervisor.journal.facts.has_ended:
            return
        if directory.lock_is_held() or not needs_rescue(directory):
            del self._tried[directory.id]  # a later encounter starts counting anew
            return
        self._tried[directory.id] += 1
        self._try_later(directory)
        crash_point("shim.rescue-found")
        for above in _shims_above(self._supervisor.directory):
            if above.id != directory.id:  # it may have rescued us; never note a run in itself
                above.add_rescued(directory)
        crash_point("shim.rescue-noted")
        self._start_adopter(directory)
        crash_point("shim.rescue-spawned")

    def _start_adopter(self, directory: RunDirectory) -> None:
        """Until the adopter is recorded, its stamp tells whose it is."""
        stamps = {STAMP: directory.id, STAMP_HOME: directory.home.path}
        own = {name: value for name, value in os.environ.items() if name != NOTICE_STAMP}
        no_launcher = (os.POSIX_SPAWN_OPEN, 3, os.devnull, os.O_RDWR, 0)
        spawn(RUN_SHIM, ("adopt", directory.path, "3", "null"), [no_launcher], {**own, **stamps})


def _shims_above(directory: RunDirectory) -> list[RunDirectory]:
    """This run, and those whose shims are above its own: they rescued it, or it is inside them."""
    found, todo = [directory], [directory]
    homes = {directory.home.path: directory.home}
    outer_home = os.environ.get(STAMP_HOME)
    if outer_home:
        homes.setdefault(outer_home, Home(outer_home))
    runs = [RunDirectory(home, i) for home in homes.values() for i in home.run_ids(active=True)]
    while todo:
        below = todo.pop()
        above = [one for one in runs if one not in found and one.has_below(below.id)]
        found += above
        todo += above
    return found


def needs_rescue(directory: RunDirectory) -> bool:
    """Whether an adopter would do something for a run that has no shim."""
    try:
        spec, read = directory.read_spec(), directory.read_events()
        if read.damage is not None:
            return False
        facts = fold(read.events)
        doubt = doubt_origin(directory, spec)
        if doubt is not None or doubt_length(directory, facts, has_summary(directory)) is not None:
            return False
        return directory.is_marked_active() and _is_of_here(facts)
    except (HoldfastError, OSError):  # not known: nothing is done on a guess
        return False


def _is_of_here(facts: RunFacts) -> bool:
    """Whether all that an adopter would look at can be seen from here, in this boot."""
    shim, boot_id = facts.shim, this_host.place().boot_id
    if shim is None or shim.boot_id != boot_id:
        return False  # its launcher is at work, or has died; or it is lost to a reboot
    is_to_start = facts.waits_to_begin or conclusion.is_restart_due(facts, boot_id)
    if is_to_start and _context_of(facts) != own_context():
        return False
    looked_at = (shim, conclusion.root_without_exit(facts), conclusion.workload_without_exit(facts))
    return all(one is None or one.verdict() is not Verdict.UNKNOWN for one in looked_at)


def _context_of(facts: RunFacts) -> object:
    """What its command is to be started with, as it was when the run began to wait."""
    return (facts.limit_wait or facts.queued or {}).get("context")
