"""The order at death: drain the output, record the ending and sync it, leave the queue, write the
summary, add the line of its usage, remove the marker, release the lock.

A crash point stands between each pair: an adopter finds either no ending, and looks for itself,
or the whole one, and does what is missing after it. It leaves the queue last.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process.clock import boottime
from holdfast.run.conclusion import conclude
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.facts import NOT_SEEN
from holdfast.run.outcomes import Outcome
from holdfast.run.usage.kept import add_line, usage_line
from holdfast.shim.summary import summarise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import ExitFacts, RunFacts
    from holdfast.run.spec import RunSpec
    from holdfast.shim.supervisor import Supervisor

DRAIN_SECONDS = 5.0  # for output that is longer than could be read while it came


def end_run(supervisor: Supervisor) -> None:
    """Record the ending of a run whose root and workload have ended."""
    _drain(supervisor, list(supervisor.before_ending), boottime() + DRAIN_SECONDS)


def _drain(supervisor: Supervisor, drains: list[Callable[[], bool | None]], until: float) -> None:
    """Read what is left, turn by turn, and for no longer than that."""
    while drains:
        if supervisor.guarded("drain", drains[0]):
            if boottime() < until:
                supervisor.loop.after("ending", 0.0, lambda: _drain(supervisor, drains, until))
                return
            for give_up in supervisor.out_of_time:
                supervisor.guarded("drain", give_up)
        drains.pop(0)
    _record(supervisor)


def _record(supervisor: Supervisor) -> None:
    crash_point("shim.before-ended")
    supervisor.journal.record(Kind.ENDED, sync=True, **describe(supervisor))
    _when_recorded(supervisor)


def _when_recorded(supervisor: Supervisor) -> None:
    """Nothing is reported that is not recorded: on a full disk, wait until it is."""
    if not supervisor.journal.is_settled:
        supervisor.loop.after("ending", 0.5, lambda: _when_recorded(supervisor))
        return
    crash_point("shim.ended-synced")
    facts = supervisor.journal.facts
    # The next in line need not wait for the summary.
    supervisor.guarded("queue", lambda: leave_queue(supervisor.directory, supervisor.spec))
    crash_point("shim.queue-left")
    supervisor.guarded("summary", lambda: clear_up(supervisor.directory, supervisor.spec, facts))
    for note in supervisor.after_ending:
        supervisor.guarded("notice", note)
    supervisor.on_ready()
    supervisor.loop.stop()


def leave_queue(directory: RunDirectory, spec: RunSpec) -> None:
    """Give the slot, or the place in the line, to the next; before our lock is free."""
    if spec.waits is not None and spec.waits.get("queue") is not None:
        from holdfast.run.queueing.waking import leave

        leave(directory, str(spec.waits["queue"]))


def clear_up(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> None:
    """What follows from a recorded ending; also for one whose shim died before it could."""
    try:
        _write_out_signals(directory, facts)
        directory.write_summary(summarise(spec, facts))
    except FileNotFoundError:
        if directory.exists():
            raise
        directory.drop_marker()  # its directory was deleted: the marker leads nowhere
        return
    crash_point("shim.summary-written")
    _keep_usage(directory, spec, facts)
    crash_point("shim.usage-kept")
    directory.unmark_active()
    crash_point("shim.marker-removed")
    directory.home.forget_recent()


def _keep_usage(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> None:
    """Keep what it used, for when it is removed. `rm` makes up for what fails here."""
    try:
        add_line(directory.home, usage_line(spec.id, spec, facts))
    except (HoldfastError, OSError):
        return


def _write_out_signals(directory: RunDirectory, facts: RunFacts) -> None:
    waiting = (facts.ending or {}).get("unwritten_signals") or ()
    known = {_key(row) for row in directory.read_signals()} if waiting else set()
    for row in waiting:
        if _key(row) not in known:
            directory.append_signal(row)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row.get("boottime"), row.get("to"), row.get("signal")


def describe(supervisor: Supervisor) -> dict[str, Any]:
    """The `ended` event: outcome, whose code it is, and why we believe it."""
    end = supervisor.attempt.end
    own = end.own_exit or NOT_SEEN
    oom_killed, oom_evidence = supervisor.oom.verdict(own.signal, own.exit_code)
    ended = conclude(
        supervisor.spec,
        supervisor.journal.facts,
        end,
        stop_cause=supervisor.stop_cause,
        oom_killed=oom_killed,
        signalled_by_us=_signalled_by_us(supervisor, own),
        loss=supervisor.loss,
        vouched=supervisor.vouched,
        evidence=(*supervisor.evidence, oom_evidence),
    )
    return {
        **ended.as_dict(),
        "usage": _usage(supervisor),
        **_last_output(supervisor, ended.outcome),
        **(_unseen(supervisor) if ended.outcome is Outcome.LOST else {}),
        **_taken_along(supervisor),
    }


def _usage(supervisor: Supervisor) -> dict[str, Any] | None:
    try:
        return supervisor.usage()
    except Exception as error:  # noqa: BLE001 - recorded; figures are not worth an ending
        supervisor.journal.record_fault("usage", error)
        return None


def _last_output(supervisor: Supervisor, outcome: Outcome) -> dict[str, Any]:
    """What it wrote last, which often says why; not for a success."""
    if outcome.is_success:
        return {}
    try:
        from holdfast.run.last_words.last_output import read_last_output

        return {"last_output": read_last_output(supervisor.directory, supervisor.spec)}
    except Exception as error:  # noqa: BLE001 - recorded; a text is not worth an ending
        supervisor.journal.record_fault("last output", error)
        return {"last_output": None}


def _taken_along(supervisor: Supervisor) -> dict[str, Any]:
    """On a full disk the ending has room of its own: no signal goes unrecorded."""
    signals = supervisor.journal.unwritten_signals()
    return {"unwritten_signals": signals} if signals else {}


def _unseen(supervisor: Supervisor) -> dict[str, Any]:
    """The time of recording is not the time of an ending that was not seen."""
    return {"ended_at": None, "last_seen_at": supervisor.last_seen_at}


def _signalled_by_us(supervisor: Supervisor, own: ExitFacts) -> bool:
    if own.signal is None:
        return False
    attempt, outlived = supervisor.attempt, supervisor.attempt.end.workload_outlived_root
    held = attempt.workload if outlived else attempt.root
    if held is not None:
        return supervisor.journal.we_sent(held.identity, own.signal)
    # Its exit was recorded by a shim that is gone.
    recorded = supervisor.journal.facts.attempt
    identity = recorded.workload_identity if outlived else recorded.root
    return identity is not None and supervisor.journal.we_sent(identity, own.signal)
