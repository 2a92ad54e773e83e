"""The life of a run: one table, and a pure fold of events by it. No OS, clock or I/O.

`TABLE` says for every phase and every kind of event what the phase becomes, or why the event is
ignored. Nothing leads out of `ended`. `Folder` takes events one by one, so that a shim keeps its
facts in memory; `fold` is the same over a whole log.
"""

from __future__ import annotations

from holdfast.record import Record
from holdfast.run.events import Event, Kind
from holdfast.run.facts import Attempt, Phase, RunFacts
from holdfast.run.outcomes import (
    Outcome,
    StopCause,
    decide_outcome,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Facts = dict[str, Any]


class Ignored(Record):
    """A cell of the table: the event changes nothing, for this reason."""

    why: str


_S, _R, _P = Phase.STARTING, Phase.RUNNING, Phase.STOPPING
_E = Phase.ENDED
_OVER = Ignored("the run has ended: its first ending stands")
_EXECED_BEFORE = Ignored("exec of this attempt was confirmed before")

_ROWS: dict[Kind, tuple[Phase | Ignored, ...]] = {
    # event                  starting  running         stopping  ended
    Kind.SUPERVISED:        (_S,       _R,             _P,       _OVER),
    Kind.ATTEMPT_STARTED:   (_S,       _S,             _P,       _OVER),
    Kind.EXEC_FAILED:       (_S,       _EXECED_BEFORE, _P,       _OVER),
    Kind.RUNNING:           (_R,       _R,             _P,       _OVER),
    Kind.WORKLOAD_RESOLVED: (_S,       _R,             _P,       _OVER),
    Kind.EXECED:            (_S,       _R,             _P,       _OVER),
    Kind.MEMBERS_SEEN:      (_S,       _R,             _P,       _OVER),
    Kind.SESSION_FOUND:     (_S,       _R,             _P,       _OVER),
    Kind.COMPLETION_PROVEN: (_S,       _R,             _P,       _OVER),
    Kind.USAGE_READ:        (_S,       _R,             _P,       _OVER),
    Kind.RESULT_READ:       (_S,       _R,             _P,       _OVER),
    Kind.LIMIT_HIT:         (_S,       _R,             _P,       _OVER),
    Kind.STOP_BEGUN:        (_P,       _P,             _P,       _OVER),
    Kind.ROOT_EXITED:       (_S,       _R,             _P,       _OVER),
    Kind.WORKLOAD_EXITED:   (_S,       _R,             _P,       _OVER),
    # Leftovers of one attempt are stopped before the next one starts.
    Kind.RESTART_SCHEDULED: (_S,       _S,             _S,       _OVER),
    Kind.OUTPUT_TRUNCATED:  (_S,       _R,             _P,       _OVER),
    Kind.OUTPUT_TRIMMED:    (_S,       _R,             _P,       _OVER),
    Kind.WATCHING:          (_S,       _R,             _P,       _OVER),
    Kind.LINE_GIVEN_UP:     (_S,       _R,             _P,       _OVER),
    Kind.ANOMALY_FIRED:     (_S,       _R,             _P,       _OVER),
    # A disk that does not sync is known only after the ending is written.
    Kind.FAULT:             (_S,       _R,             _P,       _E),
    # Survivors of a stop may be stopped again later.
    Kind.CLEANED:           (_S,       _R,             _P,       _E),
    Kind.ENDED:             (_E,       _E,             _E,       _OVER),
}  # fmt: skip

TABLE: dict[tuple[Phase, Kind], Phase | Ignored] = {
    (phase, kind): cell
    for kind, row in _ROWS.items()
    for phase, cell in zip(Phase, row, strict=True)
}


class Folder:
    """Adds events up. `facts` is a snapshot that later events don't change."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._now: Facts = dict(RunFacts._defaults)
        self._members: dict[str, str | None] = {}
        self._snapshot: RunFacts | None = None
        for event in events:
            self.apply(event)

    @property
    def facts(self) -> RunFacts:
        if self._snapshot is None:
            self._snapshot = RunFacts(**{**self._now, "members": dict(self._members)})
        return self._snapshot

    @property
    def phase(self) -> Phase:
        phase: Phase = self._now["phase"]
        return phase

    def apply(self, event: Event) -> None:
        """Take one event into account, as the table says."""
        self._snapshot = None
        now = self._now
        now["last_seq"] = event.seq or now["last_seq"]  # 0: it waits for room on the disk
        cell = TABLE[now["phase"], event.kind]
        if isinstance(cell, Ignored):
            now["ignored"] += 1
            return
        now.update(last_at=event.at, last_boottime=event.boottime)
        if event.kind is Kind.MEMBERS_SEEN:
            self._see_members(event)
        else:
            _CHANGES[event.kind](now, event)
        now["phase"] = cell

    def _see_members(self, event: Event) -> None:
        for member in event.facts["members"]:
            token, comm = member.get("token"), member.get("comm")
            if isinstance(token, str):
                self._members[token] = comm if isinstance(comm, str) else None


def fold(events: Iterable[Event]) -> RunFacts:
    """What the events add up to."""
    return Folder(events).facts


def _supervised(now: Facts, event: Event) -> None:
    previous = event.facts.get("previous_shim") or now["shim"]
    now["adopted"] = event.facts.get("how") == "adopted"
    if now["adopted"] and previous is not None:
        now["previous_shims"] += (previous,)
    now["shim"] = event.facts["shim"]


_PER_ATTEMPT = (
    "heir_in_doubt",
    "root_exit",
    "exec_failure",
    "is_exec_confirmed",
    "workload",
    "workload_exit",
    "workload_outlives_root",
    "workload_outlived_root",
    "wrappers",
    "resolution",
    "resolution_why",
    "completion",
    "result",
    "limit",
    "restart",
    "over_at",
    "over_boottime",
)
_PER_STOP = ("stop_cause", "stop")


def _forget(now: Facts, names: tuple[str, ...]) -> None:
    for name in names:
        now[name] = RunFacts._defaults[name]


def _attempt_started(now: Facts, event: Event) -> None:
    _forget(now, _PER_ATTEMPT)
    number, root = event.facts["attempt"], event.facts["root"]
    now["attempts"] += (Attempt(attempt=number, root=root, started_at=event.at),)
    now.update(attempt=number, root=root)
    if now["started_at"] is None:
        now.update(started_at=event.at, started_boottime=event.boottime)
    if now["began_boottime"] is None:
        now["began_boottime"] = event.boottime


def _change_attempt(now: Facts, **changes: Any) -> None:
    if now["attempts"]:
        *before, latest = now["attempts"]
        now["attempts"] = (*before, latest.replace(**changes))


def _exec_failed(now: Facts, event: Event) -> None:
    code = _whole(event.facts.get("exit_code"))
    _change_attempt(now, ended_at=event.at, exit_code=code, outcome=Outcome.NEVER_STARTED)
    now["exec_failure"] = event.facts
    if len(now["attempts"]) <= 1:
        # The process that was made for it never became the command.
        now.update(started_at=None, started_boottime=None)


def _running(now: Facts, event: Event) -> None:
    now["is_exec_confirmed"] = True
    now["log_start_byte"] = _whole(event.facts.get("log_bytes")) or 0


def _workload_resolved(now: Facts, event: Event) -> None:
    workload = event.facts.get("workload")
    before, now["workload"] = now["workload"], workload if isinstance(workload, dict) else None
    if (before or {}).get("token") != (now["workload"] or {}).get("token"):
        now["workload_exit"] = None  # that was another one's
    token = (now["workload"] or {}).get("token")
    if isinstance(token, str) and token not in now["workloads"]:
        now["workloads"] += (token,)
    now["workload_outlives_root"] = event.facts.get("outlives_root") is True
    now["wrappers"] = _objects(event.facts.get("wrappers"))
    now["resolution"] = event.facts.get("resolution")
    now["resolution_why"] = event.facts.get("why")


def _execed(now: Facts, event: Event) -> None:
    now["execs"] += (event.facts,)
    token = event.facts.get("token")
    changed = {name: event.facts[name] for name in ("comm", "exe") if name in event.facts}
    workload = now["workload"]
    if isinstance(workload, dict) and workload.get("token") == token:
        now["workload"] = {**workload, **changed}
    now["wrappers"] = tuple(
        {**wrapper, **changed} if wrapper.get("token") == token else wrapper
        for wrapper in now["wrappers"]
    )


def _usage_read(now: Facts, event: Event) -> None:
    now["usage"] = {**now["usage"], **event.facts}


def _stop_begun(now: Facts, event: Event) -> None:
    cause = StopCause(event.facts["cause"])
    if cause is not StopCause.LEFTOVERS and now["stop_cause"] is None:
        now.update(stop_cause=cause, stop=event.facts)


def _root_exited(now: Facts, event: Event) -> None:
    heir = event.facts.get("heir")
    if isinstance(heir, dict):  # the root left it by design: it is the root from now on
        now.update(root=heir, heir_in_doubt=event.facts.get("in_doubt") is True)
        return
    now["root_exit"] = event.facts
    now["workload_outlived_root"] = event.facts.get("workload_outlived") is True
    code, signal = _whole(event.facts.get("exit_code")), _whole(event.facts.get("signal"))
    _change_attempt(now, ended_at=event.at, exit_code=code, signal=signal)
    now.update(over_at=event.at, over_boottime=event.boottime)


def _workload_exited(now: Facts, event: Event) -> None:
    now["workload_exit"] = event.facts
    if now["root_exit"] is None or now["workload_outlived_root"]:
        now.update(over_at=event.at, over_boottime=event.boottime)


def _restart_scheduled(now: Facts, event: Event) -> None:
    if now["attempts"] and now["attempts"][-1].outcome is None:
        latest: Attempt = now["attempts"][-1]
        proof = now["completion"] or {}
        ending = decide_outcome(
            stop_cause=now["stop_cause"],
            exit_code=latest.exit_code,
            signal=latest.signal,
            is_error=bool(proof.get("is_error")),
            oom_killed=bool((now["root_exit"] or {}).get("oom_killed")),
        )
        _change_attempt(now, outcome=ending.outcome)
    _forget(now, (*_PER_STOP, "over_at", "over_boottime"))
    now["restart"] = event.facts


def _ended(now: Facts, event: Event) -> None:
    outcome = Outcome(event.facts["outcome"])
    # An ending that nobody saw has its own time, or none; one that was seen is over when its
    # root is. What is read, stopped and recorded after that is our time, not the run's.
    at = event.facts.get("ended_at", now["over_at"] or event.at)
    seen = now["over_boottime"] if now["over_at"] else event.boottime
    seen = None if at is None else seen
    now.update(outcome=outcome, ending=event.facts, ended_at=at, ended_boottime=seen)
    if now["attempts"] and now["attempts"][-1].ended_at is None:
        _change_attempt(now, ended_at=at)
    _change_attempt(now, outcome=outcome)


def _keep(name: str) -> Callable[[Facts, Event], None]:
    def change(now: Facts, event: Event) -> None:
        now[name] = event.facts

    return change


def _collect(name: str) -> Callable[[Facts, Event], None]:
    def change(now: Facts, event: Event) -> None:
        now[name] += (event.facts,)

    return change


def _output_truncated(now: Facts, event: Event) -> None:
    now["output_truncations"] += (event.facts,)
    if (_whole(event.facts.get("now")) or 0) < now["output_first_byte"]:
        now["output_first_byte"] = 0  # bytes are counted anew


def _output_trimmed(now: Facts, event: Event) -> None:
    now["output_first_byte"] = event.facts["first_byte"]


def _watching(now: Facts, event: Event) -> None:
    why = event.facts.get("why")
    now["degraded"] = tuple(event.facts["degraded"])
    now["degraded_why"] = why if isinstance(why, str) and now["degraded"] else None


def _anomaly_fired(now: Facts, event: Event) -> None:
    now["anomaly_count"] += 1
    if event.facts.get("rule") in ("identity_drift", "wrapper_traced"):
        now["identity_drifted"] = True


def _objects(value: object) -> tuple[Facts, ...]:
    return (
        tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_CHANGES: dict[Kind, Callable[[Facts, Event], None]] = {
    Kind.SUPERVISED: _supervised,
    Kind.ATTEMPT_STARTED: _attempt_started,
    Kind.EXEC_FAILED: _exec_failed,
    Kind.RUNNING: _running,
    Kind.WORKLOAD_RESOLVED: _workload_resolved,
    Kind.EXECED: _execed,
    Kind.SESSION_FOUND: _keep("session"),
    Kind.COMPLETION_PROVEN: _keep("completion"),
    Kind.USAGE_READ: _usage_read,
    Kind.RESULT_READ: _keep("result"),
    Kind.LIMIT_HIT: _keep("limit"),
    Kind.STOP_BEGUN: _stop_begun,
    Kind.ROOT_EXITED: _root_exited,
    Kind.WORKLOAD_EXITED: _workload_exited,
    Kind.RESTART_SCHEDULED: _restart_scheduled,
    Kind.OUTPUT_TRUNCATED: _output_truncated,
    Kind.OUTPUT_TRIMMED: _output_trimmed,
    Kind.WATCHING: _watching,
    Kind.LINE_GIVEN_UP: _collect("lines_given_up"),
    Kind.ANOMALY_FIRED: _anomaly_fired,
    Kind.FAULT: _collect("faults"),
    Kind.CLEANED: _keep("cleanup"),
    Kind.ENDED: _ended,
}
