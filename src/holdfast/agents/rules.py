"""Applies a profile's rules to records: completion and limits, from whatever source."""

from __future__ import annotations

import json

from holdfast.agents.facts import CompletionProven, LimitHit
from holdfast.agents.json_lines import text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.profile import CompletionRule, Json, LimitRule

_MAX_PROOF = 300


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


def limit(rule: LimitRule, record: Json, now: float) -> LimitHit | None:
    """A used-up quota, if this record says so."""
    text = text_at(record, rule.text) or ""
    if rule.only_when is not None and not rule.only_when.search(text):
        return None
    from holdfast.agents.quota_reset import retry_at

    return LimitHit(retry_at(rule, record, text, now), text)
