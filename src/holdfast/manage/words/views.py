"""Rows of runs, hints and next steps, alike in every interface. Pure.

It says what the record says, in fewer words; it decides nothing. What is not known is empty.
"""

from __future__ import annotations

from holdfast.manage.words.notes import note
from holdfast.manage.words.reasons import answer_steps, over_budget
from holdfast.manage.words.urgency import Urgency, urgency_of
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.facts import STATES_IN_ORDER, State
from holdfast.run.outcomes import Outcome
from holdfast.run.units import age, count, money, percent, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.manage.info import RunInfo

NUMBERS = ("AGE", "CPU", "MEM", "OUTPUT", "TOKENS", "COST")


class Figures(Record):
    """What a run's tree uses now. None: not known."""

    cpu_percent: float | None = None
    memory_bytes: int | None = None


NO_FIGURES = Figures()


class Row(Record):
    """One run in a list. Times are seconds since the epoch; ages are worked out when it is shown,
    so that a row stays the same while nothing happens."""

    id: str
    name: str
    state: State
    outcome: Outcome | None
    urgency: Urgency
    created: float | None
    ended: float | None
    figures: Figures
    output: float | None  # the last one, of an active run
    tokens: int | None  # in and out
    cost_usd: float | None
    note: str
    agent: str | None
    tags: dict[str, str]
    node: str = ""  # on another machine: which

    def cells(self, now: float) -> dict[str, str]:
        """The texts of the columns that a list may have."""
        quiet = "" if self.output is None else f"{age(now - self.output)} ago"
        return {
            "NAME": self.name,
            "NODE": self.node,
            "STATE": self.state.value,
            "OUTCOME": self.outcome.value if self.outcome is not None else "",
            "AGE": "" if self.created is None else age(now - self.created),
            "CPU": percent(self.figures.cpu_percent),
            "MEM": size(self.figures.memory_bytes),
            "OUTPUT": quiet,
            "TOKENS": count(self.tokens),
            "COST": money(self.cost_usd),
            "NOTE": self.note,
        }


def row_of(info: RunInfo) -> Row:
    """A run as one line."""
    usage = info.usage or {}
    tokens = [usage.get(name) for name in ("tokens_in", "tokens_out")]
    return Row(
        info.id,
        info.name or info.id,
        info.state,
        info.outcome,
        urgency_of(info),
        _seconds(info.created_at),
        _seconds(info.ended_at),
        _figures(info.now),
        _seconds(info.last_output_at) if info.is_active else None,
        None if tokens == [None, None] else sum(filter(None, tokens)),
        usage.get("cost_usd"),
        note(info),
        info.agent,
        info.tags,
    )


def _seconds(at: str | None) -> float | None:
    return None if at is None else seconds_of(at)


def row_with_figures(row: Row, now: dict[str, Any] | None, last_output_at: str | None) -> Row:
    """The row of an active run after a newer sample, or more output."""
    return row.replace(figures=_figures(now), output=_seconds(last_output_at))


def _figures(now: dict[str, Any] | None) -> Figures:
    """Of the contract's `now`."""
    if now is None:
        return NO_FIGURES
    memory = now.get("rss_bytes")
    if memory is not None:
        memory += now.get("swap_bytes") or 0
    return Figures(now.get("cpu_percent"), memory)


# Lists


_NOT_RUN = (126, 127)  # as a shell says it: not executable, not found


def failed_at_once(info: RunInfo) -> bool:
    """Whether its command could not be run at all, which the start itself reported."""
    is_first = info.attempt in (None, 1)
    return info.outcome is Outcome.NEVER_STARTED and info.exit_code in _NOT_RUN and is_first


def summary(
    states: Iterable[State], *, window: str = "", older: int = 0, unstarted: int = 0
) -> str:
    """`1 running, 1 orphaned, 3 ended in 24h (1 not started, 212 older: ls --all)`."""
    counts: dict[State, int] = {}
    for one in states:
        counts[one] = counts.get(one, 0) + 1
    said = [f"{counts[state]} {state.value}" for state in STATES_IN_ORDER if state in counts]
    if State.ENDED in counts and window:
        said[-1] += f" in {window}"
    left_out = [f"{unstarted} not started"] if unstarted else []
    left_out += [f"{older} older"] if older else []
    more = f" ({', '.join(left_out)}: ls --all)" if left_out else ""
    return (", ".join(said) or ("no runs" + (f" in {window}" if window else ""))) + more


def hints(infos: Iterable[RunInfo]) -> list[str]:
    """What should be done about these runs, one line for each thing to do."""
    orphans, unrecorded, unknown, deserted = [], [], [], []
    for info in infos:
        name = info.name or info.id
        if info.state is State.ORPHANED:
            orphans.append(name)
        elif _is_deserted(info):
            deserted.append(name)
        elif is_unrecorded(info):
            unrecorded.append(name)
        elif info.state is State.UNKNOWN:
            unknown.append(name)
    said = []
    if orphans:
        said.append(f"holdfast recover adopts {_names(orphans)}")
    if deserted:
        said.append(f"holdfast recover sets {_names(deserted)} waiting again")
    if unrecorded:
        said.append(f"holdfast recover records the end of {_names(unrecorded)}")
    if unknown:
        said.append(f"holdfast status {unknown[0]} says why it is unknown")
    return said


def is_odd(info: RunInfo) -> bool:
    """Whether something is to be done about it."""
    return info.state.needs_recovery or is_unrecorded(info) or _is_deserted(info)


def _is_deserted(info: RunInfo) -> bool:
    """Whether it waits, and its shim is gone."""
    return ((info.queue or {}).get("waits_for") or {}).get("kind") == "shim"


def is_unrecorded(info: RunInfo) -> bool:
    """Whether it is proven to be over, but no ending is recorded."""
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
    answer = answer_steps(info)
    unpause = [] if info.paused is None else [f"unpause {name}"]
    if unpause and over_budget(info):
        option = str((info.budget or {})["reached"]["limit"]).removesuffix("_usd").replace("_", "-")
        unpause = [f"adjust {name} --{option} N", *unpause]
    if info.state is State.QUEUED:
        return [*unpause, "queue", f"wait {name}", f"stop {name}"]
    if info.state is not State.ENDED:
        attach = [f"attach {name}"] if info.pty else []
        return [*answer, *unpause, f"logs -f {name}", *attach, f"wait {name}", f"stop {name}"]
    if info.has_survivors:
        return [f"tree {name}", f"stop {name}"]
    result = [f"result {name}"] if info.result is not None else []
    resume = [f'resume {name} "..."'] if info.session is not None else []
    return [f"logs {name}", *result, *resume, f"rerun {name}", f"rm {name}"]
