"""How a process ended: its exit status, and by what means that is known."""

from __future__ import annotations

import os

from holdfast.process import pidfd
from holdfast.process.identity import HeldProcess
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ExitFacts(Record):
    """Exactly one of code and signal is known, or neither: then how it ended was not seen."""

    exit_code: int | None
    signal: int | None
    core_dumped: bool | None
    how: str  # waitid, pidfd, stat, or unknown

    def to_json(self) -> dict[str, Any]:
        """For an event."""
        return self.as_dict()


NOT_SEEN = ExitFacts(None, None, None, "unknown")


def from_wait_status(status: int, how: str) -> ExitFacts:
    """Decode what wait(2) would have given."""
    if os.WIFSIGNALED(status):
        return ExitFacts(None, os.WTERMSIG(status), os.WCOREDUMP(status), how)
    return ExitFacts(os.WEXITSTATUS(status), None, False, how)


def exit_of_child(held: HeldProcess) -> ExitFacts:
    """The exit of our own child, without reaping it: its PID stays pinned until it is recorded."""
    found = os.waitid(os.P_PIDFD, held.fd, os.WEXITED | os.WNOWAIT)
    return NOT_SEEN if found is None else from_waitid(found)


def from_waitid(found: os.waitid_result) -> ExitFacts:
    """Decode what waitid(2) gave."""
    if found.si_code == os.CLD_EXITED:
        return ExitFacts(found.si_status, None, False, "waitid")
    return ExitFacts(None, found.si_status, found.si_code == os.CLD_DUMPED, "waitid")


def exit_of_stranger(held: HeldProcess) -> ExitFacts | None:
    """The exit of a process that is not our child; None: it may become known after the reap."""
    status = held.exit_status()
    how = "pidfd" if pidfd.is_reaped(held.fd) else "stat"  # a zombie's status is in /proc
    return None if status is None else from_wait_status(status, how)
