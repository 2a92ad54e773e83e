"""What a rule is: thresholds with their reasons, the anomaly that it makes, one per episode.

Pure. The rules themselves, each with its thresholds: `run/anomalies/resource_rules.py` and
`run/anomalies/progress_rules.py`.
"""

from __future__ import annotations

import abc

from holdfast.lean import StrEnum
from holdfast.record import Record

UNCHANGED_SINCE = "unchanged_since"  # of a row: the boottime of the one that it repeats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    Row = dict[str, Any]


class Severity(StrEnum):
    """How much it should alarm."""

    WARNING = "warning"
    CRITICAL = "critical"


class Anomaly(Record):
    """A rule that fired, and on what."""

    rule: str
    severity: Severity
    evidence: str
    at: str
    boottime: float
    token: str | None = None  # of the process that it is about
    comm: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A row of anomalies.jsonl."""
        return {**self.as_dict(), "severity": self.severity.value}


class Context(Record):
    """What a row does not say by itself."""

    workload_token: str | None = None  # what the run's resolution says the rows describe
    wrapper_tokens: tuple[str, ...] = ()
    memory_max_bytes: int | None = None  # --memory-max
    cpus: int = 1
    idle_oom_score: int = 667  # of a process that uses nothing: the kernel's, since Linux 5.9


class Threshold(float):
    """A number of a rule, and why it is that number."""

    __slots__ = ("reason",)
    reason: str

    def __new__(cls, value: float, reason: str) -> Self:
        made = super().__new__(cls, value)
        made.reason = reason
        return made


class RuleHit(Record):
    """The condition of a rule holds: what to say, and about which process if not the workload."""

    evidence: str
    token: str | None = None
    comm: str | None = None


class Rule(abc.ABC):
    """One rule. `look` says whether its condition holds; `AnomalyWatch` fires it once an episode.

    Its thresholds are attributes of the class. Slots: a class without takes 768 bytes more.
    """

    __slots__ = ("active", "context")
    name = ""
    severity = Severity.WARNING

    def __init__(self) -> None:
        self.active = False
        self.context = Context()

    def another_subject(self) -> None:
        """Rows describe another process from here on: forget."""
        self.__init__()  # type: ignore[misc]

    @abc.abstractmethod
    def knows(self, row: Row) -> bool:
        """Whether the row has what the rule needs."""

    @abc.abstractmethod
    def look(self, row: Row) -> RuleHit | None:
        """The condition. `self.active`: it held before, so that a lower bar ends the episode."""

    def anomaly(self, row: Row, found: RuleHit) -> Anomaly:
        """What fires, once an episode."""
        return Anomaly(
            self.name,
            self.severity,
            found.evidence,
            str(row.get("at")),
            time_of(row),
            found.token or row.get("token"),
            found.comm or row.get("comm"),
        )


def time_of(row: Row) -> float:
    return float(row.get("boottime") or 0.0)
