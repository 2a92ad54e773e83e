"""Looks for the workload again and again while a run goes on, and remembers what it found.

A found workload stays found while it lives, by identity, whatever it execs. Each look costs one
process once that is settled, and the whole tree only while it is not. It reads; the rules are
`process/workload/decision.py`.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import this_host
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.proc_files import ProcessFiles
from holdfast.process.procfs import TICKS_PER_SECOND, ProcessState, ProcStat
from holdfast.process.workload.decision import LAUNCHED_WITHIN_SECONDS, resolve
from holdfast.process.workload.programs import (
    Program,
    base,
    interpreter,
    is_copy,
    is_shell,
    is_unclear,
    wrapper_of,
)
from holdfast.process.workload.resolution import Resolution, ResolutionKind, Sought, unread
from holdfast.record import Record
from holdfast.wrappers import JAVASCRIPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.process.tree import Member

STAGES = 4  # this many programs one after another: that `sh -c` is a script, and the work itself
_FRESH_SECONDS = 3.0  # younger members are read again: they may be about to exec
_READS = 3
_LINGER_SECONDS = 2.0  # how long a launcher may outlive what it launched and still be one


class Execed(Record):
    """The workload became another program: the same identity under another name."""

    identity: ProcessIdentity
    comm: str
    exe: str | None
    was: str  # its comm before


class WorkloadFinder:
    """One attempt's search. `look` never raises for a process that is gone or unreadable."""

    def __init__(
        self,
        root: ProcessIdentity,
        *,
        command: tuple[str, ...] = (),
        expected: str | None = None,
        sought: Sought | None = None,
        read: Callable[[Member], Program | None] | None = None,
    ) -> None:
        self.root = root
        self.resolution = Resolution(
            ResolutionKind.UNRESOLVED, None, (), "not looked for yet", pending=True
        )
        self._command = command
        self._expected = expected
        self._sought = sought
        self._read = read or read_program
        self._last_root: Program | None = None
        self._former_roots: tuple[Program, ...] = ()
        self._known: dict[ProcessIdentity, Program] = {}
        self._own_workers: frozenset[ProcessIdentity] = frozenset()
        self._stages: dict[ProcessIdentity, int] = {}
        self._ended_at: float | None = None  # when the workload was first missed
        self._execs: list[Execed] = []
        self._ourselves = _read_ourselves() if read is None else None

    def look(self, members: Iterable[Member], now: float | None = None) -> Resolution:
        """What the workload is now, given the members of the tree."""
        now = boottime() if now is None else now
        by_identity = {member.identity: member for member in members}
        workload = self.resolution.workload
        lives = workload is not None and workload.identity in by_identity
        if workload is not None and lives and self._still_holds(by_identity[workload.identity]):
            return self.resolution
        if workload and not lives and not self._has_moved_on(workload, by_identity, now):
            return self.resolution
        programs = self._describe(by_identity)
        if self.root in by_identity and self.root not in self._known:
            return self.resolution  # it lives, but has not become a program of the run yet
        found = resolve(
            self.root,
            programs,
            expected=self._expected,
            sought=self._sought,
            command=self._command,
            last_root=self._last_root,
            own_workers=self._own_workers,
            # What an ended workload left behind is not another workload.
            orphans_count=workload is None,
        )
        if self._former_roots:
            kind = found.kind if found.workload is None else ResolutionKind.RESOLVED
            found = found.replace(kind=kind, wrappers=(*self._former_roots, *found.wrappers))
        if workload is None or lives or found.has_subject:
            self.resolution = found  # else nothing came after it: it stays what is known
        if found.workload is not None:
            self._ended_at = None
        return self.resolution

    @property
    def is_settled(self) -> bool:
        """Whether the answer stays what it is until a member comes, goes, moves or execs."""
        workload, pending = self.resolution.workload, self.resolution.pending
        if workload is None or workload.image is None or pending or self._ended_at is not None:
            return False
        if is_unclear(workload):
            return False
        age = _age(workload.identity)
        return age is None or not _may_turn_out_a_launcher(workload, age)

    def take_execs(self) -> list[Execed]:
        """What the workload became since the last call."""
        taken, self._execs = self._execs, []
        return taken

    def take_root(self, identity: ProcessIdentity) -> None:
        """The root has exited and left its place to this one, its child."""
        former = self._last_root or unread(self.root, self._command)
        if self._last_root is not None or self._command:
            self._former_roots = (*self._former_roots, former)
        self.root, self._last_root, self._command = identity, None, ()
        workload = self.resolution.workload
        if workload is None or workload.identity == former.identity:
            why = f"{former} has left its place to {identity.pid}"
            self.resolution = Resolution(
                ResolutionKind.UNRESOLVED, None, self._former_roots, why, pending=True
            )

    def _still_holds(self, member: Member) -> bool:
        """The workload lives. False: it may have become, or turn out to be, a wrapper."""
        workload = self.resolution.workload
        assert workload is not None
        self._ended_at = None
        program = self._read(member) or workload
        if is_unclear(program):
            return True
        if program.identity == self.root:
            self._last_root = program
        if is_unclear(workload):
            return False  # its argv was hidden when it was taken for the workload: decide again
        if program.comm != workload.comm or _has_execed(workload, program):
            self.resolution = self.resolution.replace(workload=program)
        if _has_execed(workload, program):
            self._execs.append(Execed(program.identity, program.comm, program.exe, workload.comm))
            return wrapper_of(program) is None
        return not _may_turn_out_a_launcher(program, program.age_seconds)

    def _has_moved_on(
        self, workload: Program, members: dict[ProcessIdentity, Member], now: float
    ) -> bool:
        """The workload has ended. Whether what ran it may go on with something else."""
        if workload.identity == self.root or self.root not in members:
            return False
        first_missed = self._ended_at is None
        self._ended_at = now if self._ended_at is None else self._ended_at
        runner = self.resolution.wrappers[-1] if self.resolution.wrappers else None
        if runner is None or runner.identity not in members:
            return True
        if first_missed and is_shell(wrapper_of(runner)):
            stages = self._stages[runner.identity] = self._stages.get(runner.identity, 0) + 1
            if stages >= STAGES:
                self._own_workers |= {runner.identity}
        if wrapper_of(runner) is None and now - self._ended_at >= _LINGER_SECONDS:
            self._own_workers |= {runner.identity}  # it was no launcher: it goes on by itself
        return wrapper_of(runner) is not None or runner.identity in self._own_workers

    def _describe(self, members: dict[ProcessIdentity, Member]) -> list[Program]:
        self._known = {i: program for i, program in self._known.items() if i in members}
        chain = {wrapper.identity for wrapper in self.resolution.wrappers} | {self.root}
        for identity, member in members.items():
            known = self._known.get(identity)
            if known is not None and identity not in chain and _is_settled(known, member):
                continue
            program = self._read(member)
            # What a process ran before it hung or began to end is still what it runs.
            if program is not None and (known is None or not is_unclear(program)):
                self._known[identity] = program
        us = self._ourselves
        # A child of ours that has not execed yet is no program of the run.
        if us is not None:
            self._known = {i: p for i, p in self._known.items() if not is_copy(p, us)}
        root = self._known.get(self.root)
        if root is not None and is_unclear(root) and _may_run(root, self._command):
            # It hangs since before we first looked: it was started with these words.
            root = self._known[self.root] = root.replace(cmdline=self._command)
        self._last_root = root or self._last_root
        return list(self._known.values())


def _is_settled(known: Program, member: Member) -> bool:
    return (
        known.comm == member.comm
        and known.ppid == member.ppid
        and known.age_seconds is not None
        and known.age_seconds > _FRESH_SECONDS
    )


def _may_run(root: Program, command: tuple[str, ...]) -> bool:
    """Whether the root still looks like the command that it was started as."""
    if root.state is not ProcessState.DISK_SLEEP or not command:
        return False
    told = Program(root.identity, 0, root.comm, root.state, None, command)
    return base(root.exe) == base(command[0]) or interpreter(root) == interpreter(told) is not None


def _has_execed(before: Program, after: Program) -> bool:
    if before.image is not None and after.image is not None:
        return before.image != after.image or before.exe != after.exe
    known = bool(before.cmdline and after.cmdline)  # not while it is in disk sleep
    return before.exe != after.exe or (known and before.cmdline != after.cmdline)


def _may_turn_out_a_launcher(program: Program, age: float | None) -> bool:
    young = age is not None and age <= LAUNCHED_WITHIN_SECONDS + 1
    return young and interpreter(program) in JAVASCRIPT


def read_program(member: Member) -> Program | None:
    """What a member runs; None when it is gone or can't be read."""
    program = _read(member.identity, member.files)
    if member.has_ended():
        return None
    # It had not ended after the read: the number meant this process throughout. A sample that
    # follows must not show what it was before an exec.
    member.read_stat()
    return program


def read_process(identity: ProcessIdentity) -> Program | None:
    """What the process with that identity runs; None when it is gone or can't be read."""
    try:
        with identity.hold() as held:
            program = _read(identity, ProcessFiles(identity.pid))
            return None if held.has_exited() else program
    except HoldfastError:
        return None


def _read_ourselves() -> Program | None:
    return _read(ProcessIdentity(os.getpid()), ProcessFiles(os.getpid()))


def _read(identity: ProcessIdentity, files: ProcessFiles) -> Program | None:
    """One look; taken again where an exec came in between, which would mix two programs."""
    stat = files.stat()
    for _ in range(_READS):
        before, executable = stat, files.executable()
        if before is None:
            return None
        # A process that hangs in the kernel may hold its memory lock, and its argv is behind
        # that. The parent of a vfork, in the same state, does not.
        hangs = before.state is ProcessState.DISK_SLEEP and not files.waits_for_vfork()
        line = () if hangs else files.command_line()
        stat = files.stat()
        if stat is None or (not line and executable is None):
            return None  # it has given up its memory: it is about to be a zombie
        if _is_same_image(before, stat) and executable == files.executable():
            return _program(identity, stat, executable, line, files.stdout())
    return None  # it execs faster than we read


def _program(
    identity: ProcessIdentity,
    stat: ProcStat,
    executable: str | None,
    line: tuple[str, ...],
    stdout: tuple[int, int] | None,
) -> Program:
    return Program(
        identity,
        stat.ppid,
        stat.comm,
        stat.state,
        executable,
        line,
        stat.cpu_ticks / TICKS_PER_SECOND,
        _age(identity),
        stdout,
        stat.stack_start,
    )


def _is_same_image(before: ProcStat, after: ProcStat) -> bool:
    return before.stack_start == after.stack_start and before.comm == after.comm


def _age(identity: ProcessIdentity) -> float | None:
    if identity.start_ticks is None or this_host.place().ticks_offset is None:
        return None
    return max(0.0, boottime() - identity.start_ticks / TICKS_PER_SECOND)
