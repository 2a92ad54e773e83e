"""What a list says about a run beside its state, in a few words. Pure.

It says what the record says; what is not known is empty.
"""

from __future__ import annotations

from holdfast.manage.words.reasons import last_line, needs_you, over_budget
from holdfast.process.clock import seconds_of
from holdfast.process.verdict import Verdict
from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
from holdfast.run.units import age, clock, duration, size, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.manage.info import RunInfo


def note(info: RunInfo) -> str:
    """What is worth knowing about a run beside its state, in a few words."""
    failed = "its notice failed" if info.notify_failure is not None else ""
    return ", ".join(filter(None, (_note(info), failed)))


def _note(info: RunInfo) -> str:
    survivors = (info.cleanup or {}).get("survivors") or ()
    if survivors:
        named = ", ".join(
            f"{one.get('pid')} {one.get('comm')} ({one.get('state')})" for one in survivors[:2]
        )
        return f"survives: {named}" + (", ..." if len(survivors) > 2 else "")
    if info.state is State.ENDED:
        said = _note_of_ended(info)
        last = last_line(info) if info.outcome in _WITH_LAST_LINE else ""
        return f"{said}: {last}" if last else said
    if info.state is State.ORPHANED:
        return f"shim {info.shim['pid']} gone" if info.shim else "its shim is gone"
    if info.state is State.UNKNOWN:
        return info.evidence
    if info.state is State.QUEUED and info.queue is not None:
        return waits_note(info.queue)
    return _note_of_running(info)


def waits_note(queue: dict[str, Any]) -> str:
    """What follows "queued": `in main: 3rd`, `until 03:00:00`, `after build: running`."""
    reason, position = queue["waits_for"] or {}, queue["position"]
    if reason.get("kind") == "time":
        import time

        return f"until {clock(str(reason['until']), time.time())}"
    if reason.get("kind") == "after":
        return f"after {reason['detail']}"
    place = f"in {queue['name']}" if queue["name"] is not None else ""
    if position is not None:
        place += f": {_ordinal(position)}"
    if reason.get("kind") in ("paused", "shim", "memory"):
        place += f"; {reason['detail']}"
    return place.removeprefix("; ")


def _ordinal(number: int) -> str:
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{('th', 'st', 'nd', 'rd')[last if last < 4 else 0]}"


_WITH_LAST_LINE = (
    *(Outcome.FAILED, Outcome.KILLED, Outcome.OUT_OF_MEMORY),
    *(Outcome.TIMED_OUT, Outcome.STALLED),
)


def _note_of_running(info: RunInfo) -> str:
    notes = [needs_you(info)] if info.attention is not None else []
    if info.paused is not None and info.paused.get("since") is not None:
        import time

        notes.append(f"paused {age(time.time() - seconds_of(info.paused['since']))}")
    waits = (info.queue or {}).get("waits_for")
    if waits is not None:  # for its agent's quota: how the last attempt ended is known
        return ", ".join([*notes, waits["detail"]])
    if over_budget(info):
        notes.append(f"over budget: {over_budget(info)}")
    if info.attempt is not None and info.attempt > 1:
        notes.append(f"attempt {info.attempt}")
    if info.workload_resolution == "unresolved":
        notes.append("workload unresolved")
    if info.completion is not None:
        notes.append("completion proven")
    if info.limit is not None:
        notes.append(_limit(info.limit))
    if info.anomaly_count:
        notes.append(f"{info.anomaly_count} anomal{'y' if info.anomaly_count == 1 else 'ies'}")
    return ", ".join(notes)


def _note_of_ended(info: RunInfo) -> str:
    if info.outcome is Outcome.NEVER_STARTED or info.stop_reason is StopCause.REQUIRE_WORKLOAD:
        return info.evidence
    tell = _NOTES_OF_ENDED.get(info.outcome) if info.outcome is not None else None
    return "" if tell is None else tell(info)


def _note_of_timed_out(info: RunInfo) -> str:
    asked = (info.wanted or {}).get("timeout_seconds")
    return f"after {span(asked)}, stopped" if asked else ""


def _note_of_memory(info: RunInfo) -> str:
    if info.ended_by is not EndedBy.HOLDFAST:
        return _note_of_failed(info)
    used = f"{size(info.stop_figure)}, " if info.stop_figure is not None else ""
    return f"{used}over {size((info.wanted or {}).get('memory_max_bytes'))}, stopped"


def _note_of_over_budget(info: RunInfo) -> str:
    did = "stopped" if info.ended_by is EndedBy.HOLDFAST else "the agent gave up"
    return ", ".join(filter(None, (over_budget(info), did)))


def _note_of_failed(info: RunInfo) -> str:
    if info.outcome is Outcome.FAILED and info.limit is not None:
        return _limit(info.limit)
    return _own_ending(info) + _given_up(info)


def _note_of_success(info: RunInfo) -> str:
    """That more was used than it was given is known at the end alone."""
    if over_budget(info):
        return f"over budget: {over_budget(info)}"
    restarts = str((info.wanted or {}).get("restart")).startswith("always")
    is_service = restarts and info.outcome is Outcome.SUCCEEDED
    return f"exit 0{_given_up(info)}" if is_service else ""


def _note_of_stopped(info: RunInfo) -> str:
    return _STOPPED.get(info.stop_reason, "") if info.stop_reason else _own_ending(info)


def _given_up(info: RunInfo) -> str:
    """That it was to be restarted, and is not any more."""
    attempts = len(info.attempts)
    return f", given up after {attempts} attempts" if attempts > 1 else ""


def _note_of_stalled(info: RunInfo) -> str:
    """How long it was silent; earlier versions recorded only how long it might be."""
    if info.stop_figure is not None:
        return f"silent {duration(info.stop_figure)}, stopped"
    asked = (info.wanted or {}).get("idle_timeout_seconds")
    return f"silent {span(asked)}, stopped" if asked else ""


_STOPPED = {
    StopCause.SHIM_SIGNALLED: "the shim was sent SIGTERM",
    StopCause.OUTER: "stopped with the run it was started in",
    StopCause.REPLACED: "replaced",
}


def _limit(limit: dict[str, Any]) -> str:
    from holdfast.manage.queueing.view import limit_text

    return limit_text(limit.get("retry_at"))


def _note_of_lost(info: RunInfo) -> str:
    if info.vouched:
        return info.evidence  # a person's word: nobody looked at its processes
    if info.loss is Loss.REBOOT:
        return "reboot"
    if info.workload is None or info.workload_exit_code is not None:
        return "its end was not seen"
    fate = Verdict.RECYCLED if info.loss is Loss.RECYCLED else Verdict.GONE
    return f"pid {info.workload.pid} {fate}"


def _own_ending(info: RunInfo) -> str:
    if info.signal is not None:
        from holdfast.process.signals import signal_name

        outside = " from outside" if info.ended_by is EndedBy.OUTSIDE else ""
        core = ", core dumped" if info.core_dumped else ""
        kernel = ", by the kernel" if info.oom_killed else outside
        return f"{signal_name(info.signal)}{kernel}{core}"
    if info.exit_code:
        return f"exit {info.exit_code}"
    if info.completion is not None and info.completion.get("is_error"):
        return "the agent says that it failed"
    return info.evidence


_NOTES_OF_ENDED: dict[Outcome, Callable[[RunInfo], str]] = {
    Outcome.SUCCEEDED: _note_of_success,
    Outcome.COMPLETED: _note_of_success,
    Outcome.FAILED: _note_of_failed,
    Outcome.KILLED: _note_of_failed,
    Outcome.OUT_OF_MEMORY: _note_of_memory,
    Outcome.OVER_BUDGET: _note_of_over_budget,
    Outcome.TIMED_OUT: _note_of_timed_out,
    Outcome.STALLED: _note_of_stalled,
    Outcome.STOPPED: _note_of_stopped,
    Outcome.LOST: _note_of_lost,
}
