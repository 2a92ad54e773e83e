"""What a rule is: thresholds with their reasons, the anomaly that it makes, one per episode.

Pure. The rules themselves: `run/resource_rules.py` and `run/progress_rules.py`.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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


class Threshold(Record):
    """A number, and why it is that number."""

    value: float
    reason: str


THRESHOLDS: dict[str, Threshold] = {
    "growth_steps": Threshold(3, "a program that loads its data grows in one or two samples"),
    "growth_seconds": Threshold(3, "with a short interval, a start-up is many samples long"),
    "growth_bytes": Threshold(64 << 20, "below that, growth is of no consequence"),
    "growth_factor": Threshold(1.5, "a large program's caches breathe by a few percent"),
    "growth_step_bytes": Threshold(64 << 10, "less in one sample is noise of the allocator"),
    "growth_largest_step": Threshold(0.75, "an agent loads once, then creeps while it waits"),
    "growth_pause_samples": Threshold(3, "so many without growth: it has found its level"),
    "growth_drop": Threshold(0.98, "a leak does not give memory back"),
    "limit_share": Threshold(0.9, "the last tenth goes quickly"),
    "limit_calm_share": Threshold(0.8, "one episode, not one for each wobble"),
    "oom_jump": Threshold(100, "10-15 % of the machine's memory, by the kernel's formula"),
    "oom_critical": Threshold(400, "40-60 % of the machine's memory"),
    "fd_share": Threshold(0.85, "programs fail at 1.0, and libraries open several at once"),
    "fd_calm_share": Threshold(0.7, "one episode"),
    "threads_more": Threshold(100, "thread pools have a few dozen; agents 35"),
    "threads_factor": Threshold(4, "growth, not a pool that was large from the start"),
    "threads_per_cpu": Threshold(8, "numeric libraries start one for each core, a JVM a few"),
    "threads_absolute": Threshold(200, "also without having seen it grow"),
    "zombies": Threshold(5, "a busy parent is a few behind, for moments"),
    "zombie_samples": Threshold(2, "twice in a row is no moment"),
    "stuck_samples": Threshold(3, "twice without a single context switch in between"),
    "stuck_seconds": Threshold(1, "a slow disk answers within that"),
    "spin_percent": Threshold(90, "one core, all of the time"),
    "spin_loaded_percent": Threshold(2, "on a loaded machine others have the rest"),
    "spin_seconds": Threshold(10, "a computation that long reads or writes something"),
    "spin_samples": Threshold(3, "with a long interval, one burst may fill a sample"),
    "spin_memory_share": Threshold(0.05, "memory that changes is work"),
    "stall_seconds": Threshold(900, "agents wait minutes for a model or a long tool call"),
    "stall_percent": Threshold(1, "timers and garbage collection use less"),
    "loop_restarts": Threshold(3, "two failures happen; three in a row are a loop"),
    "loop_lived_seconds": Threshold(60, "who lives longer gets something done"),
    "loop_window_seconds": Threshold(600, "restarts are delayed more and more"),
}


def threshold(name: str) -> float:
    """A number of the table."""
    return THRESHOLDS[name].value


class Finding(Record):
    """The condition of a rule holds: what to say, and about whom if not the workload."""

    evidence: str
    token: str | None = None
    comm: str | None = None


class Rule:
    """One rule. `look` says whether its condition holds; `Watch` fires it once an episode."""

    name = ""
    severity = Severity.WARNING

    def __init__(self) -> None:
        self.active = False
        self.context = Context()

    def another_subject(self) -> None:
        """Rows describe another process from here on: forget."""
        self.__init__()  # type: ignore[misc]

    def knows(self, row: Row) -> bool:
        """Whether the row has what the rule needs."""
        raise NotImplementedError

    def look(self, row: Row) -> Finding | None:
        """The condition. `self.active`: it held before, so that a lower bar ends the episode."""
        raise NotImplementedError

    def anomaly(self, row: Row, found: Finding) -> Anomaly:
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
