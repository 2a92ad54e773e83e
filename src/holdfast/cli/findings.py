"""What `doctor` found about one thing, and how a list of that looks."""

from __future__ import annotations

from holdfast.cli.terminal import columns, paint
from holdfast.lean import StrEnum
from holdfast.manage.plaintext import printable
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_INDENT = 17


class Status(StrEnum):
    """`--` is weaker or not there, and Holdfast copes; FAIL breaks a promise."""

    OK = "ok"
    MISSING = "--"
    FAIL = "FAIL"


_LOOKS = {Status.OK: ("green",), Status.MISSING: ("dim",), Status.FAIL: ("red", "bold")}


class Finding(Record):
    """One thing, tried."""

    name: str
    status: Status
    says: str
    fix: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For `doctor --json`."""
        status = {Status.OK: "ok", Status.MISSING: "missing", Status.FAIL: "fail"}[self.status]
        return {"name": self.name, "status": status, "says": self.says, "fix": self.fix}

    def lines(self) -> list[str]:
        """For people, wrapped to the screen."""
        import textwrap

        room = max(columns() - _INDENT, 30)
        said = textwrap.wrap(printable(self.says), room, break_on_hyphens=False)
        if self.fix:
            said += textwrap.wrap(f"fix: {printable(self.fix)}", room, break_on_hyphens=False)
        status = paint(f"{self.status.value:<4}", *_LOOKS[self.status])
        first = f"{status}  {self.name:<{_INDENT - 7}} {said[0]}"
        return [first, *(" " * _INDENT + line for line in said[1:])]


def works(name: str, says: str) -> Finding:
    """It was tried and does what it should."""
    return Finding(name, Status.OK, says)


def missing(name: str, says: str, fix: str | None = None) -> Finding:
    """It is not there; something weaker takes its place, or it is not needed."""
    return Finding(name, Status.MISSING, says, fix)


def failed(name: str, says: str, fix: str | None = None) -> Finding:
    """A promise can't be kept on this machine as it is."""
    return Finding(name, Status.FAIL, says, fix)
