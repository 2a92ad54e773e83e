"""Applies a profile's rules to records: completion, usage and limits, from whatever source."""

from __future__ import annotations

import json

from holdfast.agents.facts import CompletionProven, LimitHit, UsageRead
from holdfast.agents.records import number_at, text_at, total_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.profile import CompletionRule, Json, LimitRule, UsageRule

_MAX_PROOF = 300
_NOTHING = UsageRead(None, None, None)


def completion(rule: CompletionRule, record: Json, source: str, at_byte: int) -> CompletionProven:
    """The proof names the values that were looked at, and nothing that was not there."""
    looked_at = dict(rule.when.match.said_by(record) if rule.when.match else record)
    is_error = rule.failed
    if rule.error_when is not None:
        is_error = is_error or rule.error_when.holds(record)
        looked_at |= rule.error_when.said_by(record)
    said = {path: value for path, value in looked_at.items() if value is not None}
    proof = json.dumps(said, ensure_ascii=True)
    return CompletionProven(source, proof[:_MAX_PROOF], is_error, at_byte)


class UsageTally:
    """Adds up what one usage rule finds: some agents say totals, some say parts."""

    def __init__(self, rule: UsageRule) -> None:
        self.rule = rule
        self._tokens_in: int | None = None
        self._tokens_out: int | None = None
        self._cost: float | None = None

    def add(self, record: Json) -> list[UsageRead]:
        """The totals with this record; none while nothing is known."""
        rule = self.rule
        tokens_in = _combined(rule.tokens, self._tokens_in, total_at(record, rule.tokens_in))
        tokens_out = _combined(rule.tokens, self._tokens_out, total_at(record, rule.tokens_out))
        self._tokens_in = None if tokens_in is None else int(tokens_in)
        self._tokens_out = None if tokens_out is None else int(tokens_out)
        cost = number_at(record, rule.cost_usd) if rule.cost_usd else None
        self._cost = _combined(rule.cost, self._cost, cost)
        known = UsageRead(self._tokens_in, self._tokens_out, self._cost)
        return [] if known == _NOTHING else [known]


def _combined(how: str, known: float | None, new: float | None) -> float | None:
    if new is None or known is None:
        return known if new is None else new
    return known + new if how == "sum" else new


def limit(rule: LimitRule, record: Json, now: float) -> LimitHit | None:
    """A used-up quota, if this record says so."""
    text = text_at(record, rule.text) or ""
    if rule.only_when is not None and not rule.only_when.search(text):
        return None
    from holdfast.agents.retry import retry_at

    return LimitHit(retry_at(rule, record, text, now), text)
