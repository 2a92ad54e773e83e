"""Abandons what a stop could not end, so that its run can be removed: `rm --stop --force`.

Those processes are put on the home's list first. A shim that still waits for them is then ended
through the gate; one that SIGKILL does not end in time is put on the list, too.
"""

from __future__ import annotations

from holdfast.errors import StillAlive
from holdfast.lean import signal
from holdfast.manage.process_info import look_at_process
from holdfast.manage.removal.abandoned import abandon
from holdfast.manage.state import read_facts
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from holdfast.process.verdict import Verdict
from holdfast.run.inner_runs import InnerRuns
from holdfast.run.signal_log import signal_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.removal.abandoned import Abandoned
    from holdfast.manage.removal.liveness import ReadableRun
    from holdfast.run.directory import RunDirectory

_SHIM_SECONDS = 5.0
_DYING_SECONDS = 0.5


def give_up(run: ReadableRun) -> tuple[Abandoned, ...]:
    """The recorded processes that are proven alive; a stop has signalled them all before."""
    directory, name, living = run.directory, run.name, _living(run)
    # Looked at again: while they were waited for, the shim may have recorded the ending.
    facts = read_facts(directory)
    shim = facts.shim
    is_waiting = not facts.has_ended and directory.lock_is_held()
    left = [identity for identity in living if identity != shim]
    told = abandon(directory.home, directory.id, name, _named(left)) if left else ()
    if is_waiting and shim is not None and not _end_shim(directory, shim):
        told += abandon(directory.home, directory.id, name, _named([shim]))
    return told


def _living(run: ReadableRun) -> list[ProcessIdentity]:
    """Processes of runs inside it have shims of their own: those are not abandoned."""
    inner = InnerRuns(run.directory, run.spec).owns
    recorded = map(ProcessIdentity.parse, sorted(run.tokens()))
    same = [one for one in recorded if one.verdict() is Verdict.SAME and not inner(one)]
    return [one for one in same if not one.wait(_DYING_SECONDS)]


def _named(living: Iterable[ProcessIdentity]) -> list[tuple[ProcessIdentity, str | None]]:
    return [(identity, look_at_process(identity).get("comm")) for identity in living]


def _end_shim(directory: RunDirectory, shim: ProcessIdentity) -> bool:
    """False: SIGKILL is pending, but it is frozen; it will never run again."""
    delivery = send_signal(shim, signal.SIGKILL)
    why = "removed by force, though its shim waits for what could not be stopped"
    directory.append_signal(signal_row(delivery, why))
    if not delivery.delivered and shim.verdict() is Verdict.SAME:
        raise StillAlive(
            f"run {directory.id} is still running: its supervisor can't be ended"
            f" ({delivery.evidence})",
            hint=f"holdfast status {directory.id}",
            run=directory.id,
            identity=shim,
        )
    return shim.wait(_SHIM_SECONDS)
