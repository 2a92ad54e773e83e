"""Why a run stands as it does, in one plain sentence. Pure: fields in, words out.

For those who do not know the words of the record; the evidence is below it.
"""

from __future__ import annotations

from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
from holdfast.run.units import duration, size, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.info import RunInfo


def why(info: RunInfo) -> str:
    """Empty where state, outcome and exit code say it all."""
    if _is_told_by_evidence(info):
        return info.evidence
    if info.state is State.ENDED and info.outcome is not None:
        explain = _ENDINGS.get(info.outcome)
        said = "" if explain is None else explain(info)
        if info.is_recorded is False:
            said += ("; " if said else "") + "the ending is not recorded yet"
        return said
    if info.state is State.ORPHANED:
        return "the program is running, but the process that supervised it is gone"
    return ""


def proof(info: RunInfo) -> str:
    """The evidence, where it is not the reason itself."""
    return "" if _is_told_by_evidence(info) else info.evidence


def _is_told_by_evidence(info: RunInfo) -> bool:
    if info.state is State.UNKNOWN or info.outcome is Outcome.NEVER_STARTED:
        return True
    if info.outcome is Outcome.LOST and info.vouched:
        return True  # whose word it is
    return info.state is State.ENDED and info.stop_reason is StopCause.REQUIRE_WORKLOAD


def last_line(info: RunInfo) -> str:
    """What a run that did not succeed said at its end: an agent's own error, else its last line of
    output; empty: nothing."""
    result = info.result or {}
    if result.get("is_error") and str(result.get("text") or "").strip():
        return str(result["text"]).strip().split("\n", maxsplit=1)[0]
    last = info.last_output or {}
    lines = last.get("stderr") or last.get("output") or ()
    return str(lines[-1]) if lines else ""


def _failed(info: RunInfo) -> str:
    if info.exit_code:
        return ""
    if info.completion is not None and info.completion.get("is_error"):
        return "the program exited with code 0, but the agent reported a failure"
    return ""


def _completed(info: RunInfo) -> str:
    stopped = "" if info.signal is None else " (it had not ended by itself)"
    return f"it was proven to be done, and was then stopped{stopped}"


def _stopped(info: RunInfo) -> str:
    if info.stop_reason is None:
        return f"{_signal(info)} ended it, sent through Holdfast (`holdfast signal`, or ctrl-c)"
    return _STOPS.get(info.stop_reason, "")


_STOPS = {
    StopCause.USER: "it was asked for (`holdfast stop`)",
    StopCause.SHIM_SIGNALLED: "its supervisor was sent SIGTERM: by a person, a logout, a shutdown",
    StopCause.OUTER: "the run that it was started in was stopped",
    StopCause.REPLACED: "a newer run took its name (`run --replace`)",
}


def _timed_out(info: RunInfo) -> str:
    limit = (info.wanted or {}).get("timeout_seconds")
    return f"it ran longer than its timeout{f' of {span(limit)}' if limit else ''}, and was stopped"


def _stalled(info: RunInfo) -> str:
    wanted = info.wanted or {}
    option = "silence" if info.stop_reason is StopCause.SILENCE else "idle"
    limit = wanted.get(f"{option}_timeout_seconds")
    beyond = f", beyond its {option} timeout of {span(limit)}" if limit else ""
    seconds = info.stop_figure or limit  # earlier versions recorded only how long it might be
    return f"it wrote nothing{f' for {duration(seconds)}' if seconds else ''}{beyond}; stopped"


def _out_of_memory(info: RunInfo) -> str:
    if info.ended_by is EndedBy.HOLDFAST:
        limit = size((info.wanted or {}).get("memory_max_bytes"))
        used = "more" if info.stop_figure is None else f"{size(info.stop_figure)} of"
        return f"it used {used} memory, above its limit of {limit}, and was stopped"
    return "the kernel killed it because memory ran out"


def over_budget(info: RunInfo) -> str:
    """`1050 of 1000 tokens (50 over)`: what it used in the end; empty: within its budget.

    A budget that was raised after it was reached is the one that counts.
    """
    budget = info.budget or {}
    reached = budget.get("reached")
    if reached is None or reached.get("most") is None:
        return ""
    from holdfast.run.usage.budget import in_words, used_of

    limit, most, seen = str(reached["limit"]), reached["most"], reached.get("used")
    known = [one for one in (seen, used_of(limit, info.usage or {})) if one is not None]
    if info.outcome is not Outcome.OVER_BUDGET:
        most = budget.get(limit)
        if most is None or (known and max(known) <= most):
            return ""
    return in_words(limit, max(known), most) if known else ""


def _over_budget(info: RunInfo) -> str:
    used = over_budget(info)
    if info.ended_by is not EndedBy.HOLDFAST:
        return f"the agent gave up at its budget{f': {used} used' if used else ''}"
    return f"it used more than it was given, {used}, and was stopped"


def _killed(info: RunInfo) -> str:
    core = " (core dumped)" if info.core_dumped else ""
    if info.ended_by is EndedBy.ITSELF:
        return f"it crashed: {_signal(info)}{core}"
    return f"{_signal(info)} killed it{core}; Holdfast did not send that"


def _signal(info: RunInfo) -> str:
    from holdfast.process.signals import signal_name

    return "a signal" if info.signal is None else signal_name(info.signal)


def _lost(info: RunInfo) -> str:
    if info.loss is Loss.REBOOT:
        return "the machine was restarted while it ran"
    return "it ended while nothing supervised it: how is not known"


_ENDINGS: dict[Outcome, Callable[[RunInfo], str]] = {
    Outcome.FAILED: _failed,
    Outcome.COMPLETED: _completed,
    Outcome.STOPPED: _stopped,
    Outcome.TIMED_OUT: _timed_out,
    Outcome.STALLED: _stalled,
    Outcome.OUT_OF_MEMORY: _out_of_memory,
    Outcome.OVER_BUDGET: _over_budget,
    Outcome.KILLED: _killed,
    Outcome.LOST: _lost,
}


def needs_you(info: RunInfo) -> str:
    """`needs you: permission for Bash: rm -r build (and 2 more)`; empty: nothing is asked."""
    if info.attention is None:
        return ""
    text = " ".join(str(info.attention["text"] or info.attention["kind"]).split())
    others = len(info.attention["others"])
    return f"needs you: {text}" + (f" (and {others} more)" if others else "")


def answer_steps(info: RunInfo) -> list[str]:
    """The commands that answer what it asks, where they can."""
    asked, is_open = info.attention or {}, (info.wanted or {}).get("approve") == "ask"
    if asked.get("kind") != "permission" or not is_open:
        return []
    return [f"{verb} {info.name or info.id} {asked['id']}" for verb in ("approve", "deny")]
