"""What the readers find in an agent's output. The shim turns these facts into events."""

from __future__ import annotations

from holdfast.record import Record


class SessionFound(Record):
    id: str


class CompletionProven(Record):
    """The agent's work is over; `at_byte` is where the proof begins in its source."""

    source: str
    proof: str
    is_error: bool
    at_byte: int


class UsageRead(Record):
    """Totals so far; None is unknown. `source`: the end of a turn (`final`), or what is read."""

    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    source: str


class ResultRead(Record):
    """The final answer, or why there is none."""

    text: str
    is_error: bool


class BudgetGivenUp(Record):
    """The agent gave up at the limit of its own option."""


class LimitHit(Record):
    """A quota is used up; `retry_at` is a UTC time in ISO form, None when it was not said."""

    retry_at: str | None
    text: str


TYPE_CHECKING = False
if TYPE_CHECKING:
    Fact = SessionFound | CompletionProven | UsageRead | ResultRead | LimitHit | BudgetGivenUp
