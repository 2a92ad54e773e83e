"""Prometheus' text format, version 0.0.4. Pure: families in, text out."""

from __future__ import annotations

import math

from holdfast.lean import StrEnum
from holdfast.manage.plaintext import printable
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_LABEL = 128  # characters of a value: names are at most 64, agents are the user's words


class MetricKind(StrEnum):
    """Whether a figure can fall."""

    COUNTER = "counter"
    GAUGE = "gauge"


class MetricSample(Record):
    """One figure of a family."""

    labels: dict[str, str]
    value: float


class MetricFamily(Record):
    """All figures of one name."""

    name: str
    kind: MetricKind
    help: str
    samples: tuple[MetricSample, ...]


def exposition(families: Iterable[MetricFamily]) -> str:
    """The text of a scrape."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: MetricFamily) -> Iterable[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind.value}"
    for sample in family.samples:
        pairs = ",".join(f'{name}="{_label(value)}"' for name, value in sample.labels.items())
        yield (
            f"{family.name}{{{pairs}}} {_number(sample.value)}"
            if pairs
            else (f"{family.name} {_number(sample.value)}")
        )


def _label(value: str) -> str:
    """One line of harmless characters, and not too many."""
    shown = printable(value)
    if len(shown) > MOST_LABEL:
        shown = shown[: MOST_LABEL - 3] + "..."
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def _number(value: float) -> str:
    if isinstance(value, int) or not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, str(value))
    return repr(value)
