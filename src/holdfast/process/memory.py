"""How much memory is there for new programs: of the machine, and of a process's control groups.

Only what the kernel says counts. A look that fails is an error, never a number.
"""

from __future__ import annotations

from holdfast.errors import ProcessGone
from holdfast.process import procfs
from holdfast.process.cgroups import ControlGroup
from holdfast.record import Record

_FLOOR_SHARE = 20  # 1/20 stays free for use that no run declared
_LEAST_FLOOR_BYTES = 256 << 20


class MemoryBound(Record):
    """One thing that bounds what programs can use: the machine, or a control group."""

    total_bytes: int
    available_bytes: int

    @property
    def floor_bytes(self) -> int:
        """What stays free: no run is admitted to it."""
        return max(self.total_bytes // _FLOOR_SHARE, _LEAST_FLOOR_BYTES)


class MemoryBounds(Record):
    """All that bounds the programs of one control group."""

    all: tuple[MemoryBound, ...]

    @property
    def free_bytes(self) -> int:
        """What a run can be admitted to now; less than 0 where the floor is in use."""
        return min(one.available_bytes - one.floor_bytes for one in self.all)

    @property
    def tightest(self) -> MemoryBound:
        """The bound with the least room, if nothing else ran."""
        return min(self.all, key=lambda one: one.total_bytes - one.floor_bytes)

    @property
    def most_bytes(self) -> int:
        """What could be given if nothing else ran."""
        return max(0, self.tightest.total_bytes - self.tightest.floor_bytes)


def own_groups() -> bytes:
    """The control groups of this process, for `memory_bounds`."""
    try:
        return procfs.read("self", "cgroup")
    except ProcessGone:  # a kernel without control groups
        return b""


def memory_bounds(groups: bytes) -> MemoryBounds:
    """As of now. HoldfastError, or OSError, when it can't be known."""
    machine = MemoryBound(*procfs.machine_memory())
    group = ControlGroup.of(groups)
    limits = [] if group is None else group.memory_limits()
    within = (MemoryBound(one.limit_bytes, one.limit_bytes - one.used_bytes) for one in limits)
    return MemoryBounds((machine, *within))
