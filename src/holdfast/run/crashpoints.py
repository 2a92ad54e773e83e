"""Named points at which a test can make the process die, or hold it. No-ops otherwise.

HOLDFAST_CRASH_AT=<point>[@<role>] kills the process there, as `kill -9` would; the file of
HOLDFAST_CRASH_LOG, if given, then has a line that says so.
HOLDFAST_HOLD_AT=<point>[@<role>] with HOLDFAST_HOLD_FIFO=<path> holds it there: opening the fifo
for writing returns when the process has arrived, and closing it lets the process go on.
HOLDFAST_HOLD_CALLBACK=<name>[@<role>] with that fifo holds the shim's loop the same way, once, at
the first callback of that name.
"""

from __future__ import annotations

import os

from holdfast.errors import Bug

ROLES = ("launcher", "shim", "adopter", "remover", "submitter")

# What a death there leaves behind. Comments, since every shim has the names in memory.
POINTS = (
    "launcher.claimed",  # the name is locked and nothing exists yet
    "launcher.directory-made",  # a run directory without a spec
    "launcher.spec-written",  # a spec that no marker and no name leads to
    "launcher.marked-active",  # a run that looks active and has neither shim nor name
    "launcher.key-written",  # a key that leads to a run that will not be started
    "launcher.name-written",  # a name that leads to a run that will not be started
    "launcher.shim-spawned",  # a shim whose launcher no longer waits for it
    "launcher.ready",  # a running workload whose start is not reported
    "shim.started",  # a shim that has not taken the lock
    "shim.locked",  # a lock that was held by a shim of which nothing is recorded
    "shim.supervised",  # a shim is recorded and no attempt
    "shim.queued",  # a run that waits, and is in no line yet
    "shim.in-line",  # a place in the line of a shim that is gone
    "shim.baton-taken",  # the baton of a queue was held by a shim that is gone
    "shim.memory-locked",  # the lock of admissions by memory was held by a shim that is gone
    "shim.slot-taken",  # a slot of a run of which no admission is recorded
    "shim.admission-recorded",  # an admitted run, with the baton still held
    "shim.baton-released",  # the next in line was not told
    "shim.admitted",  # an admitted run that was not started
    "shim.forked",  # a child waits for its release; its identity is not recorded
    "shim.attempt-recorded",  # the identity of a child that will never exec is recorded
    "shim.released",  # the workload may run and no event says so
    "shim.running",  # the launcher was not told; the workload lives without a shim
    "shim.ready",  # the launcher was told; nothing watches the run yet
    "shim.root-exited",  # an exit status that was seen and not recorded
    "shim.exit-recorded",  # the exit is recorded; the run has no ending
    "shim.reaped",  # the same, and the status can't be read again
    "shim.restart-scheduled",  # a restart that is due and no shim to do it
    "shim.pause-begun",  # a pause that is recorded, with no process stopped
    "shim.continued",  # a run that goes on, and is recorded as paused
    "shim.budget-reached",  # a budget that is used up, on record, and not acted on
    "shim.adjusted",  # limits that are changed on record, and not watched
    "shim.stop-begun",  # a stop that is not finished
    "shim.cleaned",  # the tree is empty; the run has no ending
    "shim.before-ended",  # the output is drained; the run has no ending
    "shim.ended-synced",  # an ending without summary, still marked active, with its slot
    "shim.queue-left",  # the same, and its slot is another's
    "shim.summary-written",  # an ended run, still marked active
    "shim.usage-kept",  # the line of an ended run, which is still marked active
    "shim.marker-removed",  # an ended run whose lock is still held
    "shim.lock-released",  # all is recorded; the shim's own end is not reported
    "shim.rescue-found",  # a shim has found a run without one, and done nothing about it
    "shim.rescue-noted",  # a rescue that is noted and has no adopter
    "shim.rescue-spawned",  # an adopter below a shim that is gone
    "adopter.started",  # an adopter that has not taken the lock
    "adopter.tree-emptied",  # the tree of a shim that hangs is empty; that shim still has the lock
    "adopter.shim-ended",  # a shim that hung is ended; the lock is free
    "adopter.locked",  # an adopter that has recorded nothing
    "adopter.recorded",  # the adopter is recorded as the shim and watches nothing yet
    "remover.locked",  # an ended run whose lock was held by a remover
    "remover.archived",  # an archive beside the run that it was made from
    "remover.usage-kept",  # the line of a run that is still there
    "remover.renamed",  # a removed run that markers and a name still lead to
    "remover.unmarked",  # a removed run that a name still leads to
    "remover.unnamed",  # a removed run whose files are still there
    "submitter.intended",  # a placement that nothing is reserved for
    "submitter.reserved",  # a reservation that no ledger names
    "submitter.bound",  # a bound placement that is not started
    "submitter.committed",  # a started run whose ledger does not know that
)

_VARIABLES = ("HOLDFAST_CRASH_AT", "HOLDFAST_HOLD_AT")
_held_callbacks = [os.environ.get("HOLDFAST_HOLD_CALLBACK")]  # empty once it was held
_armed = any(name in os.environ for name in _VARIABLES)
_role: str | None = None


def set_role(role: str) -> None:
    """Say what this process is, so that a test can mean one of several that pass a point."""
    global _role
    if role not in ROLES:
        raise Bug(f"{role!r} is not a role")
    _role = role


def crash_point(name: str) -> None:
    """Die or wait here if a test asks for it."""
    if name not in POINTS:
        raise Bug(f"{name!r} is not a declared crash point")
    if not _armed:
        return
    if _is_meant("HOLDFAST_HOLD_AT", name):
        _hold()
    if _is_meant("HOLDFAST_CRASH_AT", name):
        from holdfast.process.signals import kill_self

        _note(name)
        kill_self()


def hold_callback(name: str) -> None:
    """Hold the loop here if a test asks for it."""
    if not _held_callbacks or _held_callbacks[0] is None:
        return
    wanted, _, role = _held_callbacks[0].partition("@")
    if wanted == name and role in ("", _role):
        _held_callbacks.clear()
        _hold()


def _is_meant(variable: str, name: str) -> bool:
    point, _, role = os.environ.get(variable, "").partition("@")
    if point and (point not in POINTS or role not in ("", *ROLES)):
        # Such a point is never reached: the test would pass without a death.
        raise Bug(f"{variable} names {point!r} of {role or 'any role'!r}, which does not exist")
    return point == name and role in ("", _role)


def _note(name: str) -> None:
    path = os.environ.get("HOLDFAST_CRASH_LOG")
    if path:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, f"{name}@{_role} {os.getpid()}\n".encode())


def _hold() -> None:
    fd = os.open(os.environ["HOLDFAST_HOLD_FIFO"], os.O_RDONLY | os.O_CLOEXEC)
    try:
        while os.read(fd, 4096):
            pass
    finally:
        os.close(fd)
