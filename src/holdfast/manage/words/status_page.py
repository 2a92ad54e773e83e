"""What `holdfast status` says about a run, line by line. Pure."""

from __future__ import annotations

import os

from holdfast.manage.plaintext import LINE_BREAK, home_path, unbroken
from holdfast.manage.words.notes import note
from holdfast.manage.words.reasons import proof, why
from holdfast.manage.words.status_events import anomalies, happened
from holdfast.manage.words.status_processes import (
    budget_line,
    cleanup_line,
    processes,
    suspects,
    usage_now,
    usage_peak,
)
from holdfast.manage.words.views import is_unrecorded, next_steps
from holdfast.options import WATCHED
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.facts import RunFacts, State
from holdfast.run.units import age, clock, duration, in_its_unit, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.processes import Processes
    from holdfast.run.event_log import LoggedEvent


# Labels by which a screen picks lines out, or leaves them out.
WHY = "why"
NEEDS_YOU = "needs you"
OUTPUT = "output"
ORIGIN = "origin"
PROCESSES = "processes"
SUSPECTS = "suspects"
EVIDENCE = "evidence"
EVENTS = "events"
NEXT = "next"


class StatusFacts(Record):
    """All that a page is made of."""

    info: RunInfo
    facts: RunFacts
    events: tuple[LoggedEvent, ...]
    processes: Processes
    now: float
    hint: str = ""

    def headline(self) -> str:
        """`api (k2m9...)  ended: lost   ended by: unknown   exit code: not seen`."""
        info = self.info
        parts = [f"{info.name or '?'} ({info.id})", info.state.value]
        if info.paused is not None:
            parts[-1] += f", {_paused(info.paused.get('since'), self.now)}"
        if info.state is State.ENDED:
            parts[-1] += f": {info.outcome}"
            parts.append(f"ended by: {info.ended_by}")
            parts.append(_code(info))
        return "  ".join(parts)


def _paused(since: str | None, now: float) -> str:
    return "paused" if since is None else f"paused {age(now - seconds_of(since))} ago"


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


def lines_of(known: StatusFacts) -> Iterator[tuple[str, str]]:
    """Label and text of each line; what there is nothing to say about is left out."""
    info = known.info
    texts = {
        # What people ask first; what only proves it comes last.
        WHY: why(info),
        NEEDS_YOU: _asked(known),
        "waits": note(info) if info.state is State.QUEUED else "",
        "needs": _need(info),
        OUTPUT: _output(known),
        "result": _result(info),
        "limit": _limit(known),
        "budget": budget_line(info),
        "now": usage_now(known),
        "peak": usage_peak(info),
        "time": _time(known),
        "command": _command(info),
        "agent": _agent(info),
        "hooks": _hooks(known),
        "asked for": _wanted(info),
        ORIGIN: _origin(info),
        "worktree": _worktree(info),
        "attempts": _attempts(known),
        "completed": _completion(info),
        "anomalies": anomalies(known),
        "watching": _watching(known),
        "faults": "; ".join(
            f"{one.get('where')}: {one.get('error')}" for one in known.facts.faults
        ),
        "notify": _notice(known.info),
        "hint": known.hint,
        PROCESSES: processes(known),
        "cleanup": cleanup_line(known),
        SUSPECTS: suspects(known.processes),
        EVIDENCE: proof(info),
        EVENTS: happened(known),
        NEXT: " | ".join(unbroken(f"holdfast {step}") for step in next_steps(info)),
    }
    return ((label, text) for label, text in texts.items() if text)


def _need(info: RunInfo) -> str:
    """The memory that it has to find free before it starts, and who says so."""
    need = (info.queue or {}).get("needs_memory")
    if need is None:
        return ""
    said = f"{size(need['bytes'])} of memory" if need["bytes"] else "no memory that is known"
    return f"{said}: {need['from']}"


def _command(info: RunInfo) -> str:
    if info.command is None:
        return ""
    from holdfast.shell_words import command_line

    where = f"   in {home_path(info.cwd)}" if info.cwd else ""
    return command_line(info.command) + where


def _agent(info: RunInfo) -> str:
    if info.agent is None and info.session is None:
        return ""
    said = [info.agent or ""]
    if info.session is not None:
        is_safe = info.state is State.ENDED and not is_unrecorded(info)
        said.append(f"session {info.session.get('id')}" + (" (resume is safe)" if is_safe else ""))
    return ", ".join(filter(None, said))


_LONGEST = 120  # of a text from outside
_SHOWN = (*WATCHED, "log_max_bytes", "workload", "notify", "notify_on")


def _wanted(info: RunInfo) -> str:
    said = _limits_of(info)
    if not info.given_by:
        return ", ".join(said.values())
    by: dict[str, list[str]] = {}
    for name, text in said.items():
        by.setdefault(info.given_by.get(name, "given at the start"), []).append(text)
    return "; ".join(f"{origin}: {', '.join(texts)}" for origin, texts in by.items())


def _limits_of(info: RunInfo) -> dict[str, str]:
    """What is worth showing of what was asked, by the option's name."""
    wanted, said = info.wanted or {}, {}
    for name in _SHOWN:
        value = wanted.get(name)
        if value is not None and value is not False:
            option = name.removesuffix("_seconds").removesuffix("_bytes").removesuffix("_usd")
            sign = " $" if name.endswith("_usd") else " "
            shown = "" if value is True else f"{sign}{in_its_unit(name, value)}"
            said[option] = f"{option.replace('_', ' ')}{shown}"
    if wanted.get("on_budget") == "pause":
        said["on_budget"] = "paused at its budget"
    if wanted.get("restart", "no") != "no":
        said["restart"] = f"restart {wanted['restart']}"
    if wanted.get("on_limit", "off") != "off":
        said["on_limit"] = f"on limit {wanted['on_limit']}"
    if wanted.get("leftovers") == "keep":
        said["leftovers"] = "leftovers kept"
    if wanted.get("approve", "off") != "off":
        said["approve"] = f"approve {wanted['approve']}"
    if info.pty:
        said["pty"] = "a terminal"
    return said


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
    if info.placement is not None:
        placed = info.placement
        said.append(f"placed by {placed.get('submitter')} through {placed.get('engine')}")
    return ", ".join(said)


def _worktree(info: RunInfo) -> str:
    """Where it is, what the run changed there, and how that is merged."""
    worktree = info.worktree
    if worktree is None or not isinstance(worktree.get("path"), str):
        return ""
    path = worktree["path"]
    is_gone = info.placement is None and not os.path.isdir(path)
    where = f"{home_path(path)}{' (gone)' if is_gone else ''}"
    return LINE_BREAK.join((where, *_included(worktree), *_changes(worktree)))


def _included(worktree: dict[str, Any]) -> Iterator[str]:
    included = worktree.get("included") or {}
    if worktree.get("setup"):
        yield f"set up by: {_short(worktree['setup'])}; what that printed is in setup.log"
    if included.get("copied"):
        yield f"copied into it: {_short(', '.join(included['copied']))}"
    if included.get("left_out"):
        yield f"not copied: {_short('; '.join(included['left_out']))}"


def _changes(worktree: dict[str, Any]) -> Iterator[str]:
    counts = worktree.get("changes")
    if counts is None:
        yield "what it changed is not known"
        return
    if not counts["files"]:
        yield "nothing is changed"
        return
    files = f"{counts['files']} file{'s' if counts['files'] != 1 else ''} changed"
    commits = f"{counts['commits']} commit{'s' if counts['commits'] != 1 else ''}"
    yield f"{files}, {commits}, {counts['uncommitted'] or 'nothing'} uncommitted"
    if counts["commits"]:
        from holdfast.shell_words import command_line

        words = ("git", "-C", worktree["repository"], "merge", worktree["branch"])
        yield unbroken(command_line(words))


def _time(known: StatusFacts) -> str:
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


def _output(known: StatusFacts) -> str:
    """How much there is; of a run that did not succeed, also its last lines."""
    return LINE_BREAK.join(filter(None, (_log(known), *_last_lines(known.info))))


def _last_lines(info: RunInfo) -> Iterator[str]:
    last = info.last_output or {}
    for stream in ("stderr", "output"):
        lines = last.get(stream) or ()
        if lines and last.get("stderr") is not None:
            yield f"{'stdout' if stream == 'output' else stream}:"
        yield from (f"| {line}" for line in lines)


def _log(known: StatusFacts) -> str:
    info = known.info
    if info.log_bytes is None:
        return ""
    said = size(info.log_bytes) if info.log_bytes else "nothing yet" if info.is_active else "none"
    if info.last_output_at is not None:
        at = clock(info.last_output_at, known.now)
        ago = age(known.now - seconds_of(info.last_output_at))
        said += f", last at {at} ({ago} ago)"
    if known.facts.output_first_byte:
        said += f", the first {size(known.facts.output_first_byte)} were dropped to save space"
    if known.facts.output_truncations:
        cut = known.facts.output_truncations[-1]
        said += f"; cut from {size(cut.get('was'))} to {size(cut.get('now'))}: {cut.get('hint')}"
    return said


def _attempts(known: StatusFacts) -> str:
    attempts = known.facts.attempts
    if len(attempts) < 2:
        return ""
    said = [
        f"{one.number}: {one.outcome or 'running'}"
        + (f", exit {one.exit_code}" if one.exit_code is not None else "")
        for one in attempts[-5:]
    ]
    restart = known.facts.attempt.restart
    if restart is not None:
        said.append(f"restart due: {restart.get('reason')}")
    return f"{len(attempts)}; " + "; ".join(said)


def _completion(info: RunInfo) -> str:
    if info.completion is None:
        return ""
    proof = str(info.completion.get("proof") or "")
    return f"proven by {info.completion.get('source')}: {_short(proof)}"


def _limit(known: StatusFacts) -> str:
    limit = known.info.limit
    if limit is None:
        return ""
    retry_at = limit.get("retry_at")
    when = f"again at {clock(retry_at, known.now)}" if retry_at else "for how long was not said"
    wait = known.facts.limit_wait
    goes_on = f"; goes on at {clock(wait['at'], known.now)}" if wait is not None else ""
    return f"a quota is used up, {when}: {_short(str(limit.get('text') or ''))}{goes_on}"


def _asked(known: StatusFacts) -> str:
    """All that its agent waits for, each whole."""
    asked = known.info.attention
    if asked is None:
        return ""
    return LINE_BREAK.join(
        f"{one['text']} ({one['id']}, {age(known.now - seconds_of(one['since']))} ago)"
        for one in (asked, *asked["others"])
    )


def _hooks(known: StatusFacts) -> str:
    """Why nothing is known of what its agent waits for, where that could be."""
    hooks = known.info.hooks or {}
    if not hooks.get("why_not"):
        return ""
    return f"its agent does not report what it waits for: {hooks['why_not']}"


def _result(info: RunInfo) -> str:
    if info.result is None:
        return ""
    text = _short(str(info.result.get("text") or ""))
    return f"(error) {text}" if info.result.get("is_error") else text


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def _notice(info: RunInfo) -> str:
    """A notice that failed."""
    if info.notify_failure is None:
        return ""
    return f"the notice failed: {_short(info.notify_failure)}; what it printed is in notify.log"


def _watching(known: StatusFacts) -> str:
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
