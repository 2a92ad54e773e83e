"""Looks at the tree of a run from time to time: who is in it, who is the workload, what it uses.

It records what it sees and decides nothing. A process that vanishes or can't be read is normal.
"""

from __future__ import annotations

from holdfast.process import procfs
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.members import Member
    from holdfast.shim.supervisor import Supervisor

EARLY_LOOKS_SECONDS = (0.05, 0.3, 1.0)  # wrappers start their workload soon after


class Activity(Record):
    """How much the tree has done so far."""

    at: float
    cpu_seconds: float
    io_bytes: int
    connections: int


class Observer:
    """The eyes of one shim."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._seen = set(supervisor.journal.facts.members)
        self.profile_names: tuple[str, ...] = ()

    def begin(self) -> None:
        """Look soon, then at the sample interval."""
        self._early = list(EARLY_LOOKS_SECONDS)
        self._look()

    def _look(self) -> None:
        self.look()
        interval = self._supervisor.spec.wanted.sample_interval_seconds
        seconds = self._early.pop(0) if self._early else interval
        if seconds:
            self._supervisor.loop.after("look", seconds, self._look)

    def look(self) -> list[Member]:
        members = self._supervisor.tree.walk()
        fresh = [m for m in members if m.identity.token not in self._seen]
        if fresh:
            self._seen.update(m.identity.token for m in fresh)
            rows = [{"token": m.identity.token, "comm": m.comm} for m in fresh]
            self._supervisor.journal.record(Kind.MEMBERS_SEEN, members=rows)
        for member in members:
            self._supervisor.oom.look(member.identity)
        return members

    def last_look(self) -> None:
        """Before the reap."""
        self.look()

    def usage(self) -> dict[str, Any] | None:
        return None

    def activity(self) -> Activity:
        return Activity(boottime(), 0.0, 0, 0)

    def memory_bytes(self) -> int | None:
        total = 0
        for member in self._supervisor.tree.walk():
            total += procfs.read_stat(member.identity.pid).rss_pages * 4096
        return total
