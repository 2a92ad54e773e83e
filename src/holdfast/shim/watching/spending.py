"""What a run has used, all its attempts together: recorded as it grows, and told to budgets.

A long turn has thousands of messages. One that adds little is recorded a while later, together
with those that follow; budgets are told of each.
"""

from __future__ import annotations

from holdfast.agents.usage import FINAL
from holdfast.process.clock import boottime
from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agents.facts import UsageRead
    from holdfast.shim.supervisor import Supervisor

    Used = dict[str, Any]

WORTH_AN_EVENT = 0.02  # of what was recorded; what is less waits
LONGEST_WAIT_SECONDS = 60.0
_FIGURES = ("tokens_in", "tokens_out", "cost_usd")


class Spending:
    """The figures of one run; None, or missing: unknown."""

    def __init__(self, supervisor: Supervisor) -> None:
        facts = supervisor.journal.facts
        self._supervisor = supervisor
        self._before: Used = dict(facts.attempt.usage_before)  # what earlier attempts used
        self._used: Used = dict(facts.usage)
        self._least: Used = dict(facts.usage)  # an adopter may not be able to read it all again
        self._recorded_at = boottime()

    def begin_attempt(self) -> None:
        """What was used so far is an earlier attempt's."""
        self._before = dict(self._used)

    def take(self, read: UsageRead) -> None:
        """The totals of this attempt, as they are known now."""
        for name in _FIGURES:
            value = getattr(read, name)
            if value is not None:
                total = value + (self._before.get(name) or 0)
                self._used[name] = max(total, self._least.get(name) or 0)
        if read.tokens_in is not None or read.tokens_out is not None:
            self._used["tokens_source"] = read.source
        if read.source == FINAL or self._is_worth_an_event():
            self.flush()
        else:
            due = self._recorded_at + LONGEST_WAIT_SECONDS
            self._supervisor.loop.at("usage", due, self.flush)

    def _is_worth_an_event(self) -> bool:
        if boottime() - self._recorded_at >= LONGEST_WAIT_SECONDS:
            return True
        recorded = self._supervisor.journal.facts.usage
        return any(
            (self._used.get(name) or 0) > (recorded.get(name) or 0) * (1 + WORTH_AN_EVENT)
            for name in _FIGURES
        )

    def flush(self) -> None:
        """Record what is known now."""
        self._supervisor.loop.cancel("usage")
        journal = self._supervisor.journal
        if {**journal.facts.usage, **self._used} != journal.facts.usage:
            journal.record(Kind.USAGE_READ, **self._used)
            self._recorded_at = boottime()

    def given_up(self) -> None:
        """The agent says that it ended itself at the limit of its own option."""
        self.flush()
        supervisor = self._supervisor
        supervisor.journal.record(
            Kind.BUDGET_REACHED,
            limit="max_cost_usd",
            most=supervisor.spec.wanted.max_cost_usd,
            used=self._used.get("cost_usd"),
            by="agent",
            attempt=supervisor.attempt.number,
        )

    def judge(self) -> None:
        """Let the budgets see it."""
        for look in self._supervisor.on_usage:
            self._supervisor.guarded("budget", look, self._used, self.flush)
