"""The order at death: drain the output, record the ending, sync, write the summary, release.

A crash point stands between each pair: whoever takes over finds either no ending, and looks
for itself, or the whole one.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import signal_name
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.outcomes import Loss, Outcome, StopCause, decide_outcome
from holdfast.run.summary import summarise
from holdfast.shim import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.outcomes import Ending
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
    supervisor.guarded("summary", lambda: clear_up(supervisor.directory, supervisor.spec, facts))
    for note in supervisor.after_ending:
        supervisor.guarded("notice", note)
    supervisor.on_ready()
    supervisor.loop.stop()


def clear_up(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> None:
    """What follows from a recorded ending; also for one whose shim died before it could."""
    try:
        _write_out_signals(directory, facts)
        directory.write_summary(summarise(spec, facts))
    except FileNotFoundError:
        if directory.exists():
            raise
        directory.drop_marker()  # somebody deleted its directory: it leads nowhere any more
        return
    crash_point("shim.summary-written")
    directory.unmark_active()
    crash_point("shim.marker-removed")
    directory.home.forget_recent()


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
    own = supervisor.own_exit() or exits.NOT_SEEN
    oom_killed, oom_evidence = supervisor.oom.verdict(own.signal, own.exit_code)
    ending = conclude(
        supervisor.spec,
        supervisor.journal.facts,
        own=own,
        root_exit=supervisor.root_exit,
        workload_exit=supervisor.workload_exit,
        failure=supervisor.exec_failure,
        stop_cause=supervisor.stop_cause,
        oom_killed=oom_killed,
        signalled_by_us=_signalled_by_us(supervisor, own),
        loss=supervisor.loss,
        vouched=supervisor.vouched,
    )
    outcome = ending["outcome"]
    who = "workload" if supervisor.workload_outlived_root else "root"
    said = "" if outcome is Outcome.NEVER_STARTED else explain(own, who)
    evidence = [*supervisor.evidence, _missed(supervisor, ending), oom_evidence, said]
    return {
        **ending,
        "evidence": "; ".join(text for text in evidence if text),
        "usage": _usage(supervisor),
        **(_unseen(supervisor) if outcome is Outcome.LOST else {}),
        **_taken_along(supervisor),
    }


def conclude(
    spec: RunSpec,
    facts: RunFacts,
    *,
    own: exits.ExitFacts,
    root_exit: exits.ExitFacts | None = None,
    workload_exit: exits.ExitFacts | None = None,
    failure: dict[str, Any] | None = None,
    stop_cause: StopCause | None = None,
    oom_killed: bool | None = None,
    signalled_by_us: bool = False,
    loss: Loss = Loss.UNSEEN,
    vouched: bool = False,
) -> dict[str, Any]:
    """What follows from how a run ended: for whoever records it, and for whoever only reads.

    `loss` counts only where the outcome is lost.
    """
    ending = decide_outcome(
        stop_cause=stop_cause,
        exit_code=own.exit_code if failure is None else int(failure["exit_code"]),
        signal=own.signal,
        exec_failed=failure is not None and facts.attempt <= 1,  # else it did start once
        is_error=bool(facts.completion and facts.completion.get("is_error")),
        oom_killed=bool(oom_killed),
        signalled_by_us=signalled_by_us,
    )
    if stop_cause is None and failure is None and _missed_workload(spec, facts, ending):
        stop_cause, ending = StopCause.REQUIRE_WORKLOAD, ending.replace(outcome=Outcome.FAILED)
    if _is_root(facts.workload, facts.root):
        workload_exit = root_exit
    return {
        "outcome": ending.outcome,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "workload_exit_code": None if workload_exit is None else workload_exit.exit_code,
        "core_dumped": own.core_dumped,
        "oom_killed": oom_killed,
        "ended_by": ending.ended_by,
        "loss": loss if ending.outcome is Outcome.LOST else None,
        "vouched": vouched,
        "stop_reason": stop_cause,
    }


def _usage(supervisor: Supervisor) -> dict[str, Any] | None:
    try:
        return supervisor.usage()
    except Exception as error:  # noqa: BLE001 - recorded; figures are not worth an ending
        supervisor.journal.record_fault("usage", error)
        return None


def _taken_along(supervisor: Supervisor) -> dict[str, Any]:
    """On a full disk the ending has room of its own: nobody is struck without a record."""
    signals = supervisor.journal.unwritten_signals()
    return {"unwritten_signals": signals} if signals else {}


def _unseen(supervisor: Supervisor) -> dict[str, Any]:
    """The time of its recording is not the time of an ending that nobody saw."""
    return {"ended_at": None, "last_seen_at": supervisor.last_seen_at}


def _is_root(workload: dict[str, Any] | None, root: dict[str, Any] | None) -> bool:
    return workload is not None and root is not None and workload["token"] == root["token"]


def _missed_workload(spec: RunSpec, facts: RunFacts, ending: Ending) -> bool:
    """Whether it exited by itself and the workload that was required had never come."""
    missed = spec.wanted.require_workload and facts.workload is None
    return missed and ending.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)


def _missed(supervisor: Supervisor, ending: dict[str, Any]) -> str:
    if supervisor.stop_cause is not None or ending["stop_reason"] is None:
        return ""
    spec, root = supervisor.spec, supervisor.journal.facts.root or {}
    name = spec.wanted.workload or spec.agent or "that was required"
    return f"no workload {name} was ever seen below root {root.get('pid')}, which ended by itself"


def _signalled_by_us(supervisor: Supervisor, own: exits.ExitFacts) -> bool:
    if own.signal is None:
        return False
    outlived, facts = supervisor.workload_outlived_root, supervisor.journal.facts
    held = supervisor.workload if outlived else supervisor.root
    if held is not None:
        return supervisor.journal.we_sent(held.identity, own.signal)
    # Its exit was recorded by a shim that is gone.
    recorded = facts.workload if outlived else facts.root
    if recorded is None:
        return False
    return supervisor.journal.we_sent(ProcessIdentity.from_json(recorded), own.signal)


def explain(own: exits.ExitFacts, who: str) -> str:
    """How it ended, and by what means that is known."""
    if own.exit_code is not None:
        return f"{who} exited {own.exit_code} (seen by {own.how})"
    if own.signal is not None:
        return f"{who} ended by {signal_name(own.signal)} (seen by {own.how})"
    return f"how the {who} ended was not seen"
