"""Reads how a process ended, our child or not: its exit status, and how that is known."""

from __future__ import annotations

import os

from holdfast.process import pidfd
from holdfast.process.identity import HeldProcess
from holdfast.record import Record
from holdfast.run.facts import ExitFacts


class RootUsage(Record):
    """What the kernel counted for a root and the children that it waited for."""

    cpu_seconds: float
    peak_rss_bytes: int | None  # None: not more than the shim's own, from before the exec

    def and_before(self, before: RootUsage | None) -> RootUsage:
        """Together with the roots of earlier attempts."""
        if before is None:
            return self
        peak = max(self.peak_rss_bytes or 0, before.peak_rss_bytes or 0) or None
        return RootUsage(round(self.cpu_seconds + before.cpu_seconds, 3), peak)


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
