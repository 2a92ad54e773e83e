"""What memory there is for runs that wait for it, as the queues of one home see it.

    queues/.memory   kernel lock: taken after the baton, held until `admitted` is recorded

So of two queues that look at the same time, the second sees what the first admits. Needs are of
the same kind as the measured peaks: resident memory of a run's tree.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.memory import memory_bounds
from holdfast.process.sampling.samples import tree_figure
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.live import is_recent
from holdfast.run.queueing.disk import (
    Queue,
    Slot,
    need_of,
    queue_names,
    signed_by,
    slot_of,
    take_signed,
)
from holdfast.run.trace_rows import last_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock
    from holdfast.run.spec import RunSpec


class MemoryLook(Record):
    """What a plan needs to know of the memory."""

    free_bytes: int  # for runs that are not admitted yet; less than 0: even the floor is in use
    nothing_active: bool  # in any queue


def memory_lock_path(home: Home) -> str:
    """The lock of every admission by memory."""
    return f"{home.queues_path}/.memory"


def take_memory_lock(home: Home) -> HeldLock | None:
    """Take it if it is free; None: another process has it, and its file has the PID."""
    return take_signed(memory_lock_path(home))


def memory_lock_pid(home: Home) -> int | None:
    """The PID that took it last, as far as that is known."""
    return signed_by(memory_lock_path(home))


def look_at_memory(home: Home, groups: bytes) -> MemoryLook:
    """For a run in these control groups. HoldfastError, or OSError: no verdict.

    What active runs have not used yet of their needs is spoken for.
    """
    active = [
        directory
        for name in queue_names(home)
        for run_id in Queue(home, name).active()
        if slot_of(directory := RunDirectory(home, run_id)) is Slot.TAKEN
    ]
    promised = sum(map(_unused_bytes, active))
    # Read last: growth in between is counted twice rather than missed.
    return MemoryLook(memory_bounds(groups).free_bytes - promised, not active)


def _unused_bytes(directory: RunDirectory) -> int:
    try:
        spec = directory.read_spec()
    except RunNotFound:  # removed since
        return 0
    need = need_of(spec)
    return max(0, need - _used_bytes(directory, spec)) if need else 0


def _used_bytes(directory: RunDirectory, spec: RunSpec) -> int:
    """What its tree uses: the workload now, the others as last sampled; what is unknown is 0."""
    row = last_row(directory.trace_path)
    if row is None or row.get("token") is None:
        return 0
    tree, workload = tree_figure(row, "rss_bytes"), row.get("rss_bytes")
    others = 0
    if is_recent(row, spec.wanted.sample_interval_seconds) and None not in (tree, workload):
        others = max(0, tree - workload)
    return others + _resident_bytes(row["token"])


def _resident_bytes(token: str) -> int:
    try:
        identity = ProcessIdentity.parse(token)
        if identity.verdict() is not Verdict.SAME:
            return 0
        return procfs.read_stat(identity.pid).rss_bytes
    except HoldfastError:
        return 0
