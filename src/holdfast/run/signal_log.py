"""The rows of `signals.jsonl`: which process was signalled, by which, why, on what proof."""

from __future__ import annotations

from holdfast.process.clock import boottime, wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import Delivery, Fate, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

ANNOUNCED = "announced"  # the fate of a signal that is about to be sent


def announcement(identity: ProcessIdentity, sig: int, why: str, asked_by: Any = None) -> Row:
    """The row before the signal: the process may end before its sender can record the delivery."""
    return {
        "at": wall_clock(),
        "boottime": round(boottime(), 6),
        "by": ProcessIdentity.current().token,
        "asked_by": asked_by,
        "to": identity.token,
        "signal": signal_name(sig),
        "why": why,
        "proof": None,
        "fate": ANNOUNCED,
        "evidence": None,
    }


def signal_row(delivery: Delivery, why: str, asked_by: Any = None) -> Row:
    """The row of one signal, sent or refused."""
    return {
        **announcement(delivery.identity, delivery.signal, why, asked_by),
        "proof": None if delivery.proof is None else delivery.proof.value,
        "fate": delivery.fate.value,
        "evidence": delivery.evidence,
    }


def without_settled(rows: list[Row]) -> list[Row]:
    """The rows, less each announcement whose result is there as well."""
    settled = [_signal_of(row) for row in rows if row.get("fate") != ANNOUNCED]
    return [r for r in rows if r.get("fate") != ANNOUNCED or _signal_of(r) not in settled]


def was_sent(rows: list[Row], token: str, sig: int) -> bool:
    """Whether that signal was delivered to that process, or announced."""
    about = [row for row in rows if (row.get("to"), row.get("signal")) == (token, signal_name(sig))]
    return any(row.get("fate") in (Fate.DELIVERED.value, ANNOUNCED) for row in about)


def _signal_of(row: Row) -> tuple[object, ...]:
    return row.get("by"), row.get("to"), row.get("signal")
