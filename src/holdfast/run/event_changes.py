"""How each kind of event changes the facts of a run; `events.py` has the kinds. Pure.

Each function is given the facts of the run and of its latest attempt, and changes them in place.
"""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from holdfast.run.facts import AttemptFacts, ExitFacts, ProcessFacts, whole
from holdfast.run.outcomes import Outcome, StopCause, decide_outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.event_log import LoggedEvent

    Facts = dict[str, Any]
    Change = Callable[[Facts, Facts, LoggedEvent], None]


def supervised(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    previous = _identity(event.facts.get("previous_shim")) or run["shim"]
    run["adopted"] = event.facts.get("how") == "adopted"
    if run["adopted"] and previous is not None:
        run["previous_shims"] += (previous,)
    run["shim"] = _identity(event.facts["shim"])


def queued(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run.update(queued=event.facts, is_admitted=False)


def admitted(run: Facts, _attempt: Facts, _event: LoggedEvent) -> None:
    run["is_admitted"] = True


def paused(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    since = (run["paused"] or {}).get("since", event.at)
    run["paused"] = {**event.facts, "since": since}


def unpaused(run: Facts, _attempt: Facts, _event: LoggedEvent) -> None:
    run["paused"] = None


def adjusted(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["adjusted"] = {**run["adjusted"], **event.facts["changes"]}


def attempt_started(run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    if attempt["number"]:
        run["earlier_attempts"] += (AttemptFacts(**attempt),)
    root = _identity(event.facts["root"])
    attempt.update(
        AttemptFacts._defaults,
        number=event.facts["attempt"],
        command=_words(event.facts.get("command")),
        started_at=event.at,
        first_root=root,
        root=root,
        log_start_byte=attempt["log_start_byte"],
        usage_before=run["usage"],
    )
    if run["started_at"] is None:
        run.update(started_at=event.at, started_boottime=event.boottime)
    if run["began_boottime"] is None:
        run["began_boottime"] = event.boottime


def exec_failed(run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    attempt.update(exec_failure=event.facts, ended_at=event.at, outcome=Outcome.NEVER_STARTED)
    if not run["earlier_attempts"]:
        # The process that was made for it never became the command.
        run.update(started_at=None, started_boottime=None)


def running(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    attempt["is_exec_confirmed"] = True
    attempt["log_start_byte"] = whole(event.facts.get("log_bytes")) or 0


def workload_resolved(run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    before, workload = attempt["workload"], _process(event.facts.get("workload"))
    if (before and before.identity) != (workload and workload.identity):
        attempt["workload_exit"] = None  # that was another one's
    if workload is not None and workload.identity.token not in run["workloads"]:
        run["workloads"] += (workload.identity.token,)
    attempt.update(
        workload=workload,
        workload_outlives_root=event.facts.get("outlives_root") is True,
        wrappers=tuple(map(_process, event.facts.get("wrappers") or ())),
        resolution=event.facts.get("resolution"),
        resolution_why=event.facts.get("why"),
    )


def execed(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    changed = {name: event.facts[name] for name in ("comm", "exe") if name in event.facts}

    def renamed(process: ProcessFacts) -> ProcessFacts:
        is_it = process.identity.token == event.facts.get("token")
        return process.replace(**changed) if is_it else process

    attempt["wrappers"] = tuple(map(renamed, attempt["wrappers"]))
    if attempt["workload"] is not None:
        attempt["workload"] = renamed(attempt["workload"])


def members_seen(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    for member in event.facts["members"]:
        token, comm = member.get("token"), member.get("comm")
        if isinstance(token, str):
            run["members"][token] = comm if isinstance(comm, str) else None


def usage_read(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["usage"] = {**run["usage"], **event.facts}


def attention_needed(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    attempt["attention"] += ({**event.facts, "since": event.at},)


def attention_over(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    over = event.facts["id"]
    attempt["attention"] = tuple(one for one in attempt["attention"] if one["id"] != over)


def budget_reached(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["budget_reached"] = {**event.facts, "at": event.at}


def stop_begun(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    cause = StopCause(event.facts["cause"])
    if cause is not StopCause.LEFTOVERS and run["stop_cause"] is None:
        run.update(stop_cause=cause, stop=event.facts, paused=None)


def root_exited(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    heir = _identity(event.facts.get("heir"))
    if heir is not None:  # the root left it by design: it is the root from now on
        attempt.update(root=heir, heir_in_doubt=event.facts.get("in_doubt") is True)
        return
    attempt.update(
        root_exit=_exit(event.facts),
        workload_outlived_root=event.facts.get("workload_outlived") is True,
        ended_at=event.at,
        over_at=event.at,
        over_boottime=event.boottime,
    )


def workload_exited(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    attempt["workload_exit"] = _exit(event.facts)
    if attempt["root_exit"] is None or attempt["workload_outlived_root"]:
        attempt.update(over_at=event.at, over_boottime=event.boottime)


def restart_scheduled(run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    if attempt["number"] and attempt["outcome"] is None:
        latest = AttemptFacts(**attempt)
        ending = decide_outcome(
            stop_cause=run["stop_cause"],
            exit_code=latest.exit_code,
            signal=latest.signal,
            is_error=bool((latest.completion or {}).get("is_error")),
        )
        attempt["outcome"] = ending.outcome
    attempt["restart"] = event.facts
    run.update(stop_cause=None, stop=None)


def ended(run: Facts, attempt: Facts, event: LoggedEvent) -> None:
    outcome = Outcome(event.facts["outcome"])
    # An ending that nobody saw has its own time, or none; one that was seen is over when its
    # root is. What is read, stopped and recorded after that is our time, not the run's. A run that
    # waited for its next attempt ended while it waited.
    over_at = None if attempt["restart"] else attempt["over_at"]
    at = event.facts.get("ended_at", over_at or event.at)
    seen = attempt["over_boottime"] if over_at else event.boottime
    seen = None if at is None else seen
    run.update(outcome=outcome, ending=event.facts, ended_at=at, ended_boottime=seen)
    attempt.update(outcome=outcome, ended_at=attempt["ended_at"] or at)


def output_truncated(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["output_truncations"] += (event.facts,)
    if (whole(event.facts.get("now")) or 0) < run["output_first_byte"]:
        run["output_first_byte"] = 0  # bytes are counted anew


def output_trimmed(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["output_first_byte"] = event.facts["first_byte"]


def watching(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    why = event.facts.get("why")
    run["degraded"] = tuple(event.facts["degraded"])
    run["degraded_why"] = why if isinstance(why, str) and run["degraded"] else None


def anomaly_fired(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
    run["anomaly_count"] += 1
    if event.facts.get("rule") in ("identity_drift", "wrapper_traced"):
        run["identity_drifted"] = True


def keep(name: str) -> Change:
    def change(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
        run[name] = event.facts

    return change


def of_attempt(name: str) -> Change:
    def change(_run: Facts, attempt: Facts, event: LoggedEvent) -> None:
        attempt[name] = event.facts

    return change


def collect(name: str) -> Change:
    def change(run: Facts, _attempt: Facts, event: LoggedEvent) -> None:
        run[name] += (event.facts,)

    return change


def _identity(document: Facts | None) -> ProcessIdentity | None:
    return None if document is None else ProcessIdentity.from_json(document)


def _process(document: Facts | None) -> ProcessFacts | None:
    if document is None:
        return None
    comm, exe, state = (_text(document.get(name)) for name in ("comm", "exe", "state"))
    cmdline = _words(document.get("cmdline"))
    return ProcessFacts(ProcessIdentity.from_json(document), comm, exe, cmdline, state)


def _words(value: object) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _exit(facts: Facts) -> ExitFacts:
    core, how = facts.get("core_dumped"), str(facts.get("how"))
    is_known = isinstance(core, bool)
    code, signal = whole(facts.get("exit_code")), whole(facts.get("signal"))
    return ExitFacts(code, signal, core if is_known else None, how)
