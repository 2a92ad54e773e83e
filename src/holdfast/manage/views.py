"""Rows, notes and hints about runs, alike in every interface. Pure.

It says what the record says, in fewer words; it decides nothing. What is not known is empty.
"""

from __future__ import annotations

from holdfast.manage.units import age, clock, money, percent, size, span
from holdfast.process.clock import seconds_of
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.manage.info import RunInfo

COLUMNS = ("NAME", "STATE", "OUTCOME", "AGE", "CPU", "MEM", "OUTPUT", "COST", "NOTE")
NUMBERS = ("AGE", "CPU", "MEM", "OUTPUT", "COST")


class Figures(Record):
    """What a run's tree uses now. None: not known."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None


class Row(Record):
    """One run in a list."""

    id: str
    name: str
    state: State
    outcome: Outcome | None
    age_seconds: float | None
    figures: Figures
    output_age_seconds: float | None
    cost_usd: float | None
    note: str

    def cells(self) -> tuple[str, ...]:
        """The texts of COLUMNS."""
        quiet = self.output_age_seconds
        return (
            self.name,
            self.state.value,
            self.outcome.value if self.outcome is not None else "",
            age(self.age_seconds),
            percent(self.figures.cpu_percent),
            size(self.figures.memory_bytes),
            "" if quiet is None else f"{age(quiet)} ago",
            money(self.cost_usd),
            self.note,
        )


def row_of(info: RunInfo, now: float) -> Row:
    """A run as one line. `now`: seconds since the epoch."""
    quiet = None
    if info.is_active and info.last_output_at is not None:
        quiet = now - seconds_of(info.last_output_at)
    return Row(
        info.id,
        info.name or info.id,
        info.state,
        info.outcome,
        None if info.created_at is None else now - seconds_of(info.created_at),
        _figures(info.now or {}),
        quiet,
        (info.usage or {}).get("cost_usd"),
        note(info),
    )


def _figures(now: dict[str, Any]) -> Figures:
    memory = now.get("rss_bytes")
    if memory is not None:
        memory += now.get("swap_bytes") or 0
    return Figures(now.get("cpu_percent"), memory)


# Notes


def note(info: RunInfo) -> str:
    """What is worth knowing about a run beside its state, in a few words."""
    survivors = (info.cleanup or {}).get("survivors") or ()
    if survivors:
        named = ", ".join(
            f"{one.get('pid')} {one.get('comm')} ({one.get('state')})" for one in survivors[:2]
        )
        return f"survives: {named}" + (", ..." if len(survivors) > 2 else "")
    if info.state is State.ENDED:
        return _note_of_ended(info)
    if info.state is State.ORPHANED:
        return f"shim {info.shim['pid']} gone" if info.shim else "its shim is gone"
    if info.state is State.UNKNOWN:
        return info.evidence
    return _note_of_running(info)


def _note_of_running(info: RunInfo) -> str:
    notes = []
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
    wanted = info.wanted or {}
    if info.outcome is Outcome.STALLED and wanted.get("idle_timeout_seconds"):
        return f"silent {span(wanted['idle_timeout_seconds'])}, stopped"
    if info.outcome is Outcome.TIMED_OUT and wanted.get("timeout_seconds"):
        return f"after {span(wanted['timeout_seconds'])}, stopped"
    if info.outcome is Outcome.OUT_OF_MEMORY and info.ended_by is EndedBy.HOLDFAST:
        return f"over {size(wanted.get('memory_max_bytes'))}, stopped"
    if info.outcome is Outcome.LOST:
        return _note_of_lost(info)
    if info.outcome is Outcome.NEVER_STARTED or info.stop_reason is StopCause.REQUIRE_WORKLOAD:
        return info.evidence
    if info.outcome is Outcome.FAILED and info.limit is not None:
        return _limit(info.limit)
    if info.outcome in (Outcome.FAILED, Outcome.KILLED, Outcome.OUT_OF_MEMORY):
        return _own_ending(info)
    if info.outcome is Outcome.STOPPED:
        return _STOPPED.get(info.stop_reason, "") if info.stop_reason else _own_ending(info)
    return ""


_STOPPED = {
    StopCause.SHIM_SIGNALLED: "the shim was sent SIGTERM",
    StopCause.OUTER: "stopped with the run around it",
    StopCause.REPLACED: "replaced",
}


def _limit(limit: dict[str, Any]) -> str:
    """`usage limit until 16:00:00`, as far as the agent said so."""
    if limit.get("retry_at") is None:
        return "usage limit"
    import time

    return f"usage limit until {clock(str(limit['retry_at']), time.time())}"


def _note_of_lost(info: RunInfo) -> str:
    if info.loss is Loss.REBOOT:
        return "reboot"
    if info.workload is None or info.workload_exit_code is not None:
        return "nobody saw the end"
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


# Lists


def summary(infos: Iterable[RunInfo], *, window: str = "", older: int = 0) -> str:
    """`1 running, 1 orphaned, 3 ended in 24h (212 older: ls --all)`."""
    counts: dict[State, int] = {}
    for info in infos:
        counts[info.state] = counts.get(info.state, 0) + 1
    said = [f"{counts[state]} {state.value}" for state in _ORDER if state in counts]
    if State.ENDED in counts and window:
        said[-1] += f" in {window}"
    more = f" ({older} older: ls --all)" if older else ""
    return (", ".join(said) or ("no runs" + (f" in {window}" if window else ""))) + more


_ORDER = (
    State.QUEUED,
    State.STARTING,
    State.RUNNING,
    State.STOPPING,
    State.ORPHANED,
    State.UNKNOWN,
    State.ENDED,
)


def hints(infos: Iterable[RunInfo]) -> list[str]:
    """What should be done about these runs, one line for each thing to do."""
    orphans, unrecorded, unknown = [], [], []
    for info in infos:
        name = info.name or info.id
        if info.state is State.ORPHANED:
            orphans.append(name)
        elif is_unrecorded(info):
            unrecorded.append(name)
        elif info.state is State.UNKNOWN:
            unknown.append(name)
    said = []
    if orphans:
        said.append(f"holdfast recover adopts {_names(orphans)}")
    if unrecorded:
        said.append(f"holdfast recover records the end of {_names(unrecorded)}")
    if unknown:
        said.append(f"holdfast status {unknown[0]} says why it is unknown")
    return said


def is_unrecorded(info: RunInfo) -> bool:
    """Whether it is over as far as anybody can see, but no ending is recorded."""
    return info.is_recorded is False


def _names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def next_steps(info: RunInfo) -> list[str]:
    """The commands that make sense now, the likeliest first."""
    name = info.name or info.id
    if info.state is State.ORPHANED or is_unrecorded(info):
        return ["recover", f"logs {name}", f"stop {name}"]
    if info.state is State.UNKNOWN:
        return ["recover --dry-run", f"logs {name}"]
    if info.state is not State.ENDED:
        attach = [f"attach {name}"] if info.pty else []
        return [f"logs -f {name}", *attach, f"wait {name}", f"stop {name}"]
    if (info.cleanup or {}).get("survivors"):
        return [f"tree {name}", f"stop {name}"]
    result = [f"result {name}"] if info.result is not None else []
    resume = [f'resume {name} "..."'] if info.session is not None else []
    return [f"logs {name}", *result, *resume, f"rerun {name}", f"rm {name}"]
