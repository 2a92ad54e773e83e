"""The four verdicts on a process, what each rests on, and the sentence that says why."""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record


class Verdict(StrEnum):
    """What looking at an identity showed. GONE and RECYCLED both mean: ours has ended."""

    SAME = "SAME"
    GONE = "GONE"
    RECYCLED = "RECYCLED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_gone(self) -> bool:
        """Proven: the process that was recorded has ended."""
        return self in (Verdict.GONE, Verdict.RECYCLED)


class Proof(StrEnum):
    """What a verdict rests on, strongest first."""

    INODE = "pidfd inode"
    TICKS = "start ticks"
    BOOT = "boot id"
    NO_SUCH_PID = "no such pid"
    CREATE_TIME = "create_time"


class Look(Record):
    """A verdict with its reason."""

    verdict: Verdict
    proof: Proof | None
    evidence: str

    @property
    def is_gone(self) -> bool:
        """Proven: the process that was recorded has ended."""
        return self.verdict.is_gone


def unknown(evidence: str) -> Look:
    """Nothing is proven either way."""
    return Look(Verdict.UNKNOWN, None, evidence)
