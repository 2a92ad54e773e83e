"""How a process ended: its exit status, and by what means that is known."""

from __future__ import annotations

import os

from holdfast.process import pidfd
from holdfast.process.identity import HeldProcess
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import Attempt


class ExitFacts(Record):
    """Exactly one of code and signal is known, or neither: then how it ended was not seen."""

    exit_code: int | None
    signal: int | None
    core_dumped: bool | None
    how: str  # waitid, pidfd, stat, or unknown

    def to_json(self) -> dict[str, Any]:
        """For an event."""
        return self.as_dict()

    def __str__(self) -> str:
        """As people say it."""
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        if self.signal is None:
            return "nobody saw how it ended"
        from holdfast.process.signals import signal_name

        return signal_name(self.signal) + (" (core dumped)" if self.core_dumped else "")


class RootUsage(Record):
    """What the kernel counted for a root and the children that it waited for."""

    cpu_seconds: float
    peak_rss_bytes: int | None  # None: not more than the shim's own, from before the exec


NOT_SEEN = ExitFacts(None, None, None, "unknown")
NEVER_LET_GO = "the shim died before the command was let go: it never ran"


def from_wait_status(status: int, how: str) -> ExitFacts:
    """Decode what wait(2) would have given."""
    if os.WIFSIGNALED(status):
        return ExitFacts(None, os.WTERMSIG(status), os.WCOREDUMP(status), how)
    return ExitFacts(os.WEXITSTATUS(status), None, False, how)


def exit_of_child(held: HeldProcess) -> ExitFacts | None:
    """The exit of our own child, without reaping it: its PID stays pinned until it is recorded.

    While a debugger has the child, the kernel tells us nothing: then /proc shows the zombie's
    status. None: it may become known later.
    """
    found = os.waitid(os.P_PIDFD, held.fd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    return exit_of_stranger(held) if found is None else from_waitid(found)


def reap_child(held: HeldProcess) -> RootUsage | None:
    """Reap our own child, whose exit is recorded; what it used."""
    import resource

    pid, _status, used = os.wait4(held.identity.pid, os.WNOHANG)
    if not pid:
        return None
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The kernel keeps the highest value through an exec, and the child began as a copy of us.
    peak = used.ru_maxrss * 1024 if used.ru_maxrss > ours else None
    return RootUsage(round(used.ru_utime + used.ru_stime, 3), peak)


def from_event(event: dict[str, Any] | None) -> ExitFacts | None:
    """What a root_exited or workload_exited event holds."""
    if event is None:
        return None
    how = str(event.get("how"))
    return ExitFacts(event.get("exit_code"), event.get("signal"), event.get("core_dumped"), how)


def exit_of_attempt(attempt: Attempt) -> ExitFacts:
    """How an earlier attempt ended: a run that did start ends as its last real attempt did."""
    return ExitFacts(attempt.exit_code, attempt.signal, None, f"attempt {attempt.attempt}")


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
