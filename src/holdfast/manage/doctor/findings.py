"""What `doctor` found about one thing. Pure."""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FindingStatus(StrEnum):
    """Whether it works; MISSING: weaker or not available; FAIL: a guarantee does not hold."""

    OK = "ok"
    MISSING = "missing"
    FAIL = "fail"


class DoctorFinding(Record):
    """The result of one check."""

    name: str
    status: FindingStatus
    says: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For `doctor --json`."""
        return self.as_dict()

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> DoctorFinding:
        """Read one back."""
        return cls(**{**document, "status": FindingStatus(document["status"])})


def works(name: str, says: str) -> DoctorFinding:
    """It works."""
    return DoctorFinding(name, FindingStatus.OK, says)


def missing(name: str, says: str, fix: str | None = None) -> DoctorFinding:
    """It is not available; something weaker takes its place, or it is not needed."""
    return DoctorFinding(name, FindingStatus.MISSING, says, fix)


def failed(name: str, says: str, fix: str | None = None) -> DoctorFinding:
    """A guarantee does not hold on this machine."""
    return DoctorFinding(name, FindingStatus.FAIL, says, fix)
