"""What is known about a run's workload, and the snapshot of a tree that it is found in.

Facts without rules: `process/workload/decision.py` decides.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.workload.programs import COMM_BYTES, Program, base, is_copy, is_unclear
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

DEEPEST = 64  # levels that are looked at: a tree deeper than that is no chain of wrappers


class ResolutionKind(StrEnum):
    """How the workload was found; the contract's `workload_resolution`."""

    DIRECT = "direct"  # the root itself
    RESOLVED = "resolved"  # below the root
    UNRESOLVED = "unresolved"


class Resolution(Record):
    """Which process the user means, and why that is believed."""

    kind: ResolutionKind
    workload: Program | None
    wrappers: tuple[Program, ...]  # from the root down, also when nothing was found below them
    why: str
    candidates: tuple[Program, ...] = ()  # between which nothing decides
    pending: bool = False  # it may still appear: a wrapper or a fork is about to start it
    outlives_root: bool = False  # the run lasts as long as this workload, not only as its root

    @property
    def has_subject(self) -> bool:
        """Whether there is something that figures may be attributed to."""
        return self.workload is not None or bool(self.candidates)

    def says_the_same(self, other: Resolution) -> bool:
        """Whether both name the same processes, whatever these did meanwhile."""
        return self._named() == other._named()

    def _named(self) -> tuple[object, ...]:
        workload = self.workload.identity if self.workload else None
        wrappers = [program.identity for program in self.wrappers]
        candidates = [program.identity for program in self.candidates]
        return self.kind, workload, wrappers, candidates

    def to_json(self) -> dict[str, Any]:
        """The fields of a `workload_resolved` event."""
        return {
            "resolution": self.kind.value,
            "workload": self.workload.to_json() if self.workload else None,
            "wrappers": [wrapper.to_json() for wrapper in self.wrappers],
            "why": self.why,
            "outlives_root": self.outlives_root,
        }


def unread(root: ProcessIdentity, command: tuple[str, ...]) -> Program:
    """A root that was gone before it was read: the command that it was to become."""
    comm = base(command[0])[:COMM_BYTES] if command else "?"
    return Program(root, 0, comm, ProcessState.DEAD, None, command)


class Sought(Record):
    """What is known beforehand about the workload: names, and how it starts."""

    names: tuple[str, ...] = ()
    fits: Callable[[str], object] | None = None  # called with the whole command line
    relaunches: bool = False  # the first of that name starts itself again: the second is meant


class Scene:
    """One snapshot, with what is known about the root even when it is gone from it."""

    def __init__(
        self,
        root: ProcessIdentity,
        programs: Iterable[Program],
        *,
        last_root: Program | None = None,
        command: tuple[str, ...] = (),
        own_workers: frozenset[ProcessIdentity] = frozenset(),
        orphans_count: bool = True,
    ) -> None:
        self.by_pid = {program.identity.pid: program for program in programs}
        self._below: dict[int, list[Program]] = {}
        for program in self.by_pid.values():
            self._below.setdefault(program.ppid, []).append(program)
        found = self.by_pid.get(root.pid)
        self.root_lives = found is not None and found.identity == root
        known = found if self.root_lives else last_root
        self.root = known or unread(root, command)
        self.own_workers = own_workers
        self.orphans_count = orphans_count

    def children(self, parent: Program) -> list[Program]:
        """Its children with programs of their own; forks of the parent stand for theirs.

        One whose program is not known yet is not there yet.
        """
        found: list[Program] = []
        todo, seen = [parent], {parent.identity.pid}
        while todo:
            above = todo.pop()
            for program in self._below.get(above.identity.pid, ()):
                if program.identity.pid not in seen:
                    seen.add(program.identity.pid)
                    if is_copy(program, parent):
                        todo.append(program)
                    elif not is_unclear(program):
                        found.append(program)
        return found

    def above(self, program: Program) -> tuple[Program, ...]:
        """Its ancestors in the tree, the topmost first."""
        chain: list[Program] = []
        parent = self.by_pid.get(program.ppid)
        while parent is not None and parent not in chain and len(chain) < DEEPEST:
            chain.insert(0, parent)
            parent = self.by_pid.get(parent.ppid)
        return tuple(chain)

    def is_below_root(self, program: Program) -> bool:
        chain = self.above(program)
        return program == self.root or (bool(chain) and chain[0] == self.root)
