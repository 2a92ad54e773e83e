"""What `holdfast status` says about a run, line by line. Pure."""

from __future__ import annotations

from holdfast.cli.terminal import home_path
from holdfast.manage.processes import Processes, Role, Seen
from holdfast.manage.units import age, clock, count, duration, money, percent, size, span
from holdfast.manage.views import is_unrecorded, next_steps
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.events import Kind
from holdfast.run.facts import RunFacts, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.run.events import Event

    Json = dict[str, Any]

KEPT_SPACE = "\x1f"  # a space at which a line is not broken
_MOST_EVENTS = 12
_MOST_PROCESSES = 6


class Facts(Record):
    """All that a page is made of."""

    info: RunInfo
    facts: RunFacts
    events: tuple[Event, ...]
    processes: Processes
    now: float

    def headline(self) -> str:
        """`api (k2m9...)  ended: lost   ended by: unknown   exit code: not seen`."""
        info = self.info
        parts = [f"{info.name or '?'} ({info.id})", info.state.value]
        if info.state is State.ENDED:
            parts[-1] += f": {info.outcome}"
            parts.append(f"ended by: {info.ended_by}")
            parts.append(_code(info))
        return "  ".join(parts)


def _code(info: RunInfo) -> str:
    if info.signal is not None:
        from holdfast.process.signals import signal_name

        core = ", core dumped" if info.core_dumped else ""
        return f"signal: {signal_name(info.signal)}{core}"
    if info.exit_code is None:
        return "exit code: not seen"
    other = info.workload_exit_code
    apart = f" (workload: {other})" if other not in (None, info.exit_code) else ""
    return f"exit code: {info.exit_code}{apart}"


def lines_of(known: Facts) -> Iterator[tuple[str, str]]:
    """Label and text of each line; what there is nothing to say about is left out."""
    texts = {
        "evidence": known.info.evidence,
        "command": _command(known.info),
        "agent": _agent(known.info),
        "asked for": _wanted(known.info),
        "origin": _origin(known.info),
        "time": _time(known),
        "output": _output(known),
        "processes": _processes(known),
        "attempts": _attempts(known),
        "completed": _completion(known.info),
        "limit": _limit(known),
        "result": _result(known.info),
        "now": _now(known),
        "peak": _peak(known.info),
        "cleanup": _cleanup(known),
        "anomalies": _anomalies(known),
        "watching": _watching(known),
        "faults": "; ".join(
            f"{one.get('where')}: {one.get('error')}" for one in known.facts.faults
        ),
        "suspects": _suspects(known.processes),
        "events": _events(known),
        "next": " | ".join(_together(f"holdfast {step}") for step in next_steps(known.info)),
    }
    return ((label, text) for label, text in texts.items() if text)


def _together(text: str) -> str:
    return text.replace(" ", KEPT_SPACE)


def _command(info: RunInfo) -> str:
    if info.command is None:
        return ""
    import shlex

    where = f"   in {home_path(info.cwd)}" if info.cwd else ""
    return shlex.join(info.command) + where


def _agent(info: RunInfo) -> str:
    if info.agent is None and info.session is None:
        return ""
    said = [info.agent or ""]
    if info.session is not None:
        is_safe = info.state is State.ENDED and not is_unrecorded(info)
        said.append(f"session {info.session.get('id')}" + (" (resume is safe)" if is_safe else ""))
    return ", ".join(filter(None, said))


_LIMITS = {
    "timeout_seconds": "timeout",
    "idle_timeout_seconds": "idle timeout",
    "memory_max_bytes": "memory max",
    "log_max_bytes": "log max",
    "done_when": "done when",
    "workload": "workload",
    "notify": "notify",
}


def _wanted(info: RunInfo) -> str:
    wanted, said = info.wanted or {}, []
    for name, label in _LIMITS.items():
        value = wanted.get(name)
        if value is not None:
            shown = span(value) if name.endswith("_seconds") else value
            said.append(f"{label} {size(value) if name.endswith('_bytes') else shown}")
    if wanted.get("restart", "no") != "no":
        said.append(f"restart {wanted['restart']}")
    if wanted.get("leftovers") == "keep":
        said.append("leftovers kept")
    if info.pty:
        said.append("a terminal")
    return ", ".join(said)


def _origin(info: RunInfo) -> str:
    said = []
    if info.tags:
        said.append("tags " + " ".join(f"{name}={value}" for name, value in info.tags.items()))
    for label, value in (
        ("key", info.key),
        ("resumed from", info.resumed_from),
        ("started in", info.started_in),
        ("worktree of branch", info.worktree and info.worktree.get("branch")),
    ):
        if value:
            said.append(f"{label} {value}")
    return ", ".join(said)


def _time(known: Facts) -> str:
    info, now = known.info, known.now
    said = []
    if info.started_at is not None:
        said.append(f"{clock(info.started_at, now)} started")
    elif info.created_at is not None:
        said.append(f"{clock(info.created_at, now)} asked for")
    if info.ended_at is not None:
        said.append(f"{clock(info.ended_at, now)} ended")
    elif info.state is State.ENDED and known.facts.last_at is not None:
        said.append(f"{clock(known.facts.last_at, now)} last event; the end was not seen")
    if info.duration_seconds is not None:
        said.append(f"{'ran' if info.ended_at else 'runs for'} {duration(info.duration_seconds)}")
    if info.deadline_at is not None and info.is_active:
        left = seconds_of(info.deadline_at) - now
        said.append(f"deadline {clock(info.deadline_at, now)} (in {duration(max(0.0, left))})")
    return ", ".join(said)


def _output(known: Facts) -> str:
    info = known.info
    if info.log_bytes is None:
        return ""
    said = size(info.log_bytes) if info.log_bytes else "nothing yet" if info.is_active else "none"
    if info.last_output_at is not None:
        at = clock(info.last_output_at, known.now)
        ago = age(known.now - seconds_of(info.last_output_at))
        said += f", last at {at} ({ago} ago)"
    if known.facts.output_first_byte:
        said += f", the first {size(known.facts.output_first_byte)} were given back to the disk"
    if known.facts.output_truncations:
        cut = known.facts.output_truncations[-1]
        said += f"; cut from {size(cut.get('was'))} to {size(cut.get('now'))}: {cut.get('hint')}"
    return said


def _processes(known: Facts) -> str:
    members = known.processes.members
    said = [_process(one) for one in members if one.role is not Role.DESCENDANT]
    others = [one for one in members if one.role is Role.DESCENDANT]
    said += [_process(one) for one in others[: max(0, _MOST_PROCESSES - len(said))]]
    left = len(members) - len(said)
    if left:
        said.append(f"and {left} more (holdfast tree)")
    if known.info.workload_resolution == "unresolved":
        why = known.facts.resolution_why
        said.append("workload unresolved" + (f": {why}" if why else ""))
    return ", ".join(said)


def _process(one: Seen) -> str:
    process = one.process
    role = "" if one.role is Role.DESCENDANT else f"{one.role.value} "
    is_live = process["verdict"] == "SAME" and one.role is not Role.SHIM
    state = f" {process['state']}" if is_live and process.get("state") else ""
    comm = f" {process['comm']}" if process.get("comm") else ""
    return f"{role}{process['pid']}{comm} {process['verdict']}{state}"


def _attempts(known: Facts) -> str:
    attempts = known.facts.attempts
    if len(attempts) < 2:
        return ""
    said = [
        f"{one.attempt}: {one.outcome or 'running'}"
        + (f", exit {one.exit_code}" if one.exit_code is not None else "")
        for one in attempts[-5:]
    ]
    if known.facts.restart is not None:
        said.append(f"restart due: {known.facts.restart.get('reason')}")
    return f"{len(attempts)}; " + "; ".join(said)


def _completion(info: RunInfo) -> str:
    if info.completion is None:
        return ""
    proof = str(info.completion.get("proof") or "")
    return f"proven by {info.completion.get('source')}: {_short(proof)}"


def _limit(known: Facts) -> str:
    limit = known.info.limit
    if limit is None:
        return ""
    retry_at = limit.get("retry_at")
    when = f"again at {clock(retry_at, known.now)}" if retry_at else "for how long was not said"
    return f"a quota is used up, {when}: {_short(str(limit.get('text') or ''))}"


def _result(info: RunInfo) -> str:
    if info.result is None:
        return ""
    text = _short(str(info.result.get("text") or ""))
    return f"(error) {text}" if info.result.get("is_error") else text


def _short(text: str, most: int = 120) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _now(known: Facts) -> str:
    now = known.info.now
    if now is None:
        return ""
    figures = [
        ("RSS ", size(now["rss_bytes"]), ""),
        ("swap ", size(now["swap_bytes"] or None), ""),
        ("CPU ", percent(now["cpu_percent"]), ""),
        ("", count(now["processes"]), _plural(now["processes"])),
    ]
    said = ", ".join(f"{a}{b}{c}" for a, b, c in figures if b)
    return f"{said} ({age(max(0.0, known.now - seconds_of(now['at'])))} ago)"


def _peak(info: RunInfo) -> str:
    usage = info.usage or {}
    figures = [
        ("RSS ", size(usage.get("peak_rss_bytes")), ""),
        ("swap ", size(usage.get("peak_swap_bytes") or None), ""),
        ("CPU ", percent(usage.get("peak_cpu_percent")), ""),
        ("", duration(usage.get("cpu_seconds")), " CPU time"),
        ("", count(usage.get("peak_processes")), _plural(usage.get("peak_processes"))),
        ("read ", size(usage.get("read_bytes") or None), ""),
        ("wrote ", size(usage.get("write_bytes") or None), ""),
    ]
    tokens = [
        ("", count(usage.get("tokens_in")), " tokens in"),
        ("", count(usage.get("tokens_out")), " out"),
        ("", money(usage.get("cost_usd")), ""),
    ]
    parts = [", ".join(f"{a}{b}{c}" for a, b, c in part if b) for part in (figures, tokens)]
    return "; ".join(filter(None, parts))


def _plural(number: int | None) -> str:
    return " process" if number == 1 else " processes"


def _cleanup(known: Facts) -> str:
    cleanup = known.info.cleanup
    if cleanup is None:
        return ""
    said = [f"{cleanup.get('signalled')} signalled"]
    if cleanup.get("refused"):
        said.append(f"{cleanup['refused']} refused")
    survivors = cleanup.get("survivors") or ()
    for one in survivors:
        where = f" in {one['wait_channel']}" if one.get("wait_channel") else ""
        said.append(f"{one.get('pid')} {one.get('comm')} survives: {one.get('state')}{where}")
    said += [
        f"{one.get('pid')} {one.get('comm')} survived, and has ended since"
        for one in _ended_since(known.facts.cleanup, survivors)
    ]
    if not survivors:
        whole = {True: "tree empty", None: "could not see every fork", False: "not complete"}
        said.append(whole[cleanup.get("complete")])
    return ", ".join(said)


def _ended_since(recorded: Json | None, living: Sequence[Json]) -> list[Json]:
    tokens = {one.get("token") for one in living}
    left = (recorded or {}).get("survivors") or ()
    return [one for one in left if one.get("token") not in tokens]


def _anomalies(known: Facts) -> str:
    fired = [event.facts for event in known.events if event.kind is Kind.ANOMALY_FIRED]
    return "; ".join(
        f"{one.get('rule')} ({one.get('severity')}): {one.get('evidence')}" for one in fired
    )


def _watching(known: Facts) -> str:
    """What the shim can't observe: nothing is concluded from it."""
    facts, said = known.facts, []
    if facts.degraded:
        said.append(f"without {', '.join(facts.degraded)} ({facts.degraded_why})")
    if facts.lines_given_up:
        first = facts.lines_given_up[0].get("at_byte")
        number = len(facts.lines_given_up)
        said.append(
            f"{number} line{'s' if number > 1 else ''} took too long to match against --done-when,"
            f" the first at byte {first}"
        )
    return "; ".join(said)


def _suspects(processes: Processes) -> str:
    if processes.suspects is None:
        return "can't be looked for on this system"
    return ", ".join(
        f"{one.process['pid']} {one.process['comm']}: {one.evidence}" for one in processes.suspects
    )


_WORDS = {
    Kind.SUPERVISED: "supervised",
    Kind.RUNNING: "started",
    Kind.EXEC_FAILED: "could not be started",
    Kind.SESSION_FOUND: "session found",
    Kind.COMPLETION_PROVEN: "completion proven",
    Kind.LIMIT_HIT: "limit hit",
    Kind.STOP_BEGUN: "stop begun",
    Kind.ROOT_EXITED: "exited",
    Kind.RESTART_SCHEDULED: "restart scheduled",
    Kind.OUTPUT_TRUNCATED: "output truncated",
    Kind.WATCHING: "watching changed",
    Kind.ANOMALY_FIRED: "anomaly",
    Kind.CLEANED: "cleaned",
    Kind.ENDED: "ended",
}


def _events(known: Facts) -> str:
    told = [event for event in known.events if event.kind in _WORDS and _is_news(event)]
    sessions = {e.facts.get("id"): e for e in reversed(told) if e.kind is Kind.SESSION_FOUND}
    # A session's transcript is found later than its id, which is not news.
    told = [e for e in told if e.kind is not Kind.SESSION_FOUND or e in sessions.values()]
    left_out = len(told) - _MOST_EVENTS
    said = [
        _together(f"{clock(event.at, known.now)} {_word(event)}") for event in told[-_MOST_EVENTS:]
    ]
    return (f"({left_out} earlier)  " if left_out > 0 else "") + "  ".join(said)


def _is_news(event: Event) -> bool:
    return event.kind is not Kind.SUPERVISED or event.facts.get("how") == "adopted"


def _word(event: Event) -> str:
    facts = event.facts
    if event.kind is Kind.SUPERVISED:
        return "adopted"
    if event.kind is Kind.STOP_BEGUN:
        return f"stop begun: {facts.get('cause')}"
    if event.kind is Kind.ANOMALY_FIRED:
        return f"anomaly: {facts.get('rule')}"
    if event.kind is Kind.ENDED:
        return f"ended: {facts.get('outcome')}"
    return _WORDS[event.kind]
