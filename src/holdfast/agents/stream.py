"""Reads an agent's stdout, line by line, for the facts that its profile tells of.

Pure: the caller brings whole lines from where the run began, with their place in the log. Bytes
that are no record are nobody's fault and never raise.
"""

from __future__ import annotations

import time

from holdfast.agents.arguments import has_many_turns
from holdfast.agents.facts import BudgetGivenUp, ResultRead, SessionFound
from holdfast.agents.json_lines import MAX_TEXT, JsonLine, needles, session_id_at, text_at
from holdfast.agents.profile import When
from holdfast.agents.rules import completion, limit
from holdfast.agents.usage import STDOUT, UsageMeter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.agents.facts import CompletionProven, Fact, LimitHit
    from holdfast.agents.profile import AgentProfile, AnswerRule, CompletionRule, Json


class StreamReader:
    """One run's stdout. `arguments` are the agent's own words of the command."""

    def __init__(
        self,
        profile: AgentProfile,
        arguments: Sequence[str] = (),
        *,
        meter: UsageMeter | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._profile = profile
        self._clock = clock
        # After `claude -p --input-format stream-json` has answered, it waits for the next turn.
        self._ends_with_turn = not has_many_turns(profile.options, arguments)
        self._meter = meter or UsageMeter(profile, arguments)
        self._answer = _Answer(profile.answer) if profile.answer else None
        self._session: str | None = None
        self._limit: LimitHit | None = None
        whens = _whens(profile)
        self._needles = needles(when for when in whens if when.match is not None)
        self._reads_plain_lines = any(when.line is not None for when in whens)

    def feed(self, line: bytes, at_byte: int) -> list[Fact]:
        """The facts in one whole line that begins at that byte of the log."""
        parsed = JsonLine(line)
        if not (parsed.may_hold(self._needles) if parsed.is_json else self._reads_plain_lines):
            return []
        return [
            *self._sessions(parsed),
            *self._meter.take(parsed, STDOUT),
            *self._limits(parsed),
            *self._given_up(parsed),
            *self._endings(parsed, at_byte),
        ]

    def _sessions(self, line: JsonLine) -> Iterator[SessionFound]:
        for rule in self._profile.session:
            for record in line.seen_by(rule.when):
                found = session_id_at(record, rule.id)
                # A plain line can be an answer that looks like a header: the first one counts.
                if rule.when.match is None and self._session is not None:
                    continue
                if found is not None and found != self._session:
                    self._session = found
                    yield SessionFound(found)

    def _limits(self, line: JsonLine) -> Iterator[LimitHit]:
        for rule in self._profile.limit:
            for record in line.seen_by(rule.when):
                hit = limit(rule, record, self._clock())
                if hit is not None and self._is_news(hit):
                    self._limit = hit
                    yield hit

    def _given_up(self, line: JsonLine) -> list[BudgetGivenUp]:
        rules = self._profile.budget.over
        return [BudgetGivenUp()] if any(line.seen_by(rule.when) for rule in rules) else []

    def _is_news(self, hit: LimitHit) -> bool:
        """The same limit is said by two records; only one of them may know the time."""
        known = self._limit
        return known is None or (hit.retry_at is not None and known.retry_at is None)

    def _endings(self, line: JsonLine, at_byte: int) -> Iterator[CompletionProven | ResultRead]:
        if self._answer is not None:
            self._answer.take(line)
        for rule in self._profile.completion:
            for record in line.seen_by(rule.when):
                proven = completion(rule, record, "stdout", at_byte)
                text = self._final_text(rule, record)
                if text is not None:
                    yield ResultRead(text, proven.is_error)
                if self._ends_with_turn:
                    yield proven

    def _final_text(self, rule: CompletionRule, record: Json) -> str | None:
        said = text_at(record, rule.text)
        return said if said is not None else self._answer.text if self._answer else None


class _Answer:
    """The final answer, gathered from the records before the completion."""

    def __init__(self, rule: AnswerRule) -> None:
        self._rule = rule
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str | None:
        return "".join(self._pieces) if self._pieces else None

    def take(self, line: JsonLine) -> None:
        for record in line.records:
            if any(begin.holds(record) for begin in self._rule.anew):
                self._clear()
            if self._rule.when.match is None or not self._rule.when.match.holds(record):
                continue
            if not self._rule.append:
                self._clear()
            piece = text_at(record, [self._rule.text])
            if piece is not None and self._length + len(piece) <= MAX_TEXT:
                self._pieces.append(piece)
                self._length += len(piece)

    def _clear(self) -> None:
        self._pieces.clear()
        self._length = 0


def _whens(profile: AgentProfile) -> list[When]:
    whens = [
        *(rule.when for rule in profile.session),
        *(rule.when for rule in profile.completion),
        *(rule.when for rule in profile.usage),
        *(rule.when for rule in profile.limit),
        *(rule.when for rule in profile.budget.over),
    ]
    if profile.answer is not None:
        whens += [profile.answer.when, *(When(match=match) for match in profile.answer.anew)]
    return whens
