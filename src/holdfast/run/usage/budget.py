"""What a run may use, and whether it has used more. Pure.

A limit is a field of `Wanted`: `max_tokens`, tokens in and out together, or `max_cost_usd`. What is
not known is not over.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.options import Wanted

LIMITS = ("max_tokens", "max_cost_usd")


class OverBudget(Record):
    """A limit that was passed."""

    limit: str
    most: float
    used: float

    def __str__(self) -> str:
        """As people say it, with how far it went beyond."""
        return in_words(self.limit, self.used, self.most)


def used_of(limit: str, usage: Mapping[str, Any]) -> float | None:
    """What counts against a limit; None: not known."""
    if limit == "max_cost_usd":
        return usage.get("cost_usd")
    known = [usage[name] for name in ("tokens_in", "tokens_out") if usage.get(name) is not None]
    return sum(known) if known else None


def find_over(wanted: Wanted, usage: Mapping[str, Any]) -> OverBudget | None:
    """The first limit that is passed."""
    for limit in LIMITS:
        most, used = getattr(wanted, limit), used_of(limit, usage)
        if most is not None and used is not None and used > most:
            return OverBudget(limit, most, used)
    return None


def in_words(limit: str, used: float, most: float) -> str:
    """`1050 of 1000 tokens (50 over)`, `$0.5125 of $0.5 ($0.0125 over)`."""
    is_cost = limit == "max_cost_usd"
    shown, whole, beyond = (
        (_dollars if is_cost else _plain)(one) for one in (used, most, used - most)
    )
    unit = "" if is_cost else " tokens"
    return f"{shown} of {whole}{unit}" + (f" ({beyond} over)" if used > most else "")


def _plain(count: float) -> str:
    return f"{count:.0f}"


def _dollars(amount: float) -> str:
    """To four digits, and to the cent at least: a turn may cost less than a cent."""
    if abs(amount) >= 1000:
        return f"${amount:.2f}"
    digits = f"{amount:.4g}"
    return f"${amount:.6f}" if "e" in digits else f"${digits}"
