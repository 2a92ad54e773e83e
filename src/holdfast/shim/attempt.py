"""One start of the command, in its shim: the processes that it holds, and how they ended.

It watches for their ends, records these, and then lets the supervisor proceed. An adopter makes
one from what was recorded and found (`end`); a new attempt begins with nothing.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.run import exits
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.facts import NOT_SEEN, AttemptEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import HeldProcess, ProcessIdentity
    from holdfast.run.facts import ExitFacts
    from holdfast.shim.succession import Succession
    from holdfast.shim.supervisor import Supervisor


class Attempt:
    """The processes of one attempt. Number 0: none was started."""

    def __init__(
        self,
        supervisor: Supervisor,
        number: int,
        end: AttemptEnd | None = None,
        *,
        root: HeldProcess | None = None,
        workload: HeldProcess | None = None,
        root_is_child: bool = False,
    ) -> None:
        self.number = number
        self.end = end or AttemptEnd()
        self.root = root
        self.workload = workload  # only when it is not the root
        self.root_is_child = root_is_child  # of this shim
        self.began = boottime()
        self.shells: tuple[ProcessIdentity, ...] = ()  # those of the chain that are `sh -c`
        self.is_cleared = False  # what was left of its tree has been stopped
        self._supervisor = supervisor
        self._succession: Succession | None = None
        for held in (root, workload):
            if held is not None:
                supervisor.tree.add(held.identity)
        if workload is not None:
            supervisor.reaper.await_exit_of(workload)

    @property
    def is_over(self) -> bool:
        """Whether the root, and a workload that outlives it, have ended with known exits."""
        root_is_over = self.root is None or self.end.root_exit is not None
        lasts = self.workload is not None and self.end.workload_outlives_root
        return root_is_over and (not lasts or self.end.workload_exit is not None)

    @property
    def has_run_out(self) -> bool:
        """Whether the root, and a workload that outlives it, have ended, exits known or not."""
        lasting = [self.root, self.workload if self.end.workload_outlives_root else None]
        return all(held is None or held.has_exited() for held in lasting)

    @property
    def is_dead(self) -> bool:
        """Whether neither the root nor the workload is alive."""
        return all(held is None or held.has_exited() for held in (self.root, self.workload))

    @property
    def subject(self) -> HeldProcess | None:
        """What is signalled when the run is meant: the workload, else the root."""
        is_there = self.workload is not None and self.end.workload_exit is None
        return self.workload if is_there else self.root

    def keeps(self, pid: int) -> bool:
        """Whether the exit of that child is still to be read."""
        if self._succession is not None and self._succession.keeps(pid):
            return True
        is_root = self.root_is_child and self.root is not None and pid == self.root.identity.pid
        return is_root and self.end.root_exit is None

    def watch(self) -> None:
        """Wake when the root, or the workload, ends."""
        loop = self._supervisor.loop
        if self.root is not None and self.end.root_exit is None:
            loop.watch_exit(self.root.fd, "root exit", self._root_ended)
        if self.workload is not None and self.end.workload_exit is None:
            loop.watch_exit(self.workload.fd, "workload exit", self._workload_ended)

    def take_workload(self, held: HeldProcess, *, outlives_root: bool) -> None:
        """Watch a workload that is not the root; where it outlives the root, the run lasts."""
        self.let_go_of_workload()
        self.end = self.end.replace(workload_outlives_root=outlives_root)
        self.workload = held
        self._supervisor.reaper.await_exit_of(held)
        self._supervisor.tree.add(held.identity)
        self.watch()

    def let_go_of_workload(self) -> None:
        """Stop watching the former workload; its exit is not recorded."""
        self._close_workload()
        self.end = self.end.replace(workload_exit=None, workload_outlives_root=False)

    def record_end_of_former(self) -> None:
        """Another workload was found before the loop reported that the former has ended."""
        if self._has_unread_workload():
            assert self.workload is not None
            self._supervisor.loop.unwatch(self.workload.fd)
            self._record_workload_exit(exits.exit_of_stranger(self.workload) or NOT_SEEN)

    def replace_root(self, heir: HeldProcess) -> None:
        """The root left its place to this one, which is watched from now on."""
        # Swapped first: the reaper must never reap the current root.
        former, self.root = self.root, heir
        if former is not None:
            exits.reap_child(former)
            former.close()
        self._supervisor.tree.add(heir.identity)
        for note in self._supervisor.on_succession:
            self._supervisor.guarded("succession", note)
        self.watch()

    def reap_root(self) -> None:
        """After its exit is recorded, or where none is to be."""
        if self.root_is_child and self.root is not None:
            used, before = exits.reap_child(self.root), self._supervisor.root_usage
            self._supervisor.root_usage = before if used is None else used.and_before(before)
            crash_point("shim.reaped")
            self._supervisor.reaper.reap()

    def close(self) -> None:
        """Close its descriptors: another attempt follows. How it ended stays known."""
        self._close_workload()
        if self.root is not None:
            self._supervisor.loop.unwatch(self.root.fd)
            self.root.close()
            self.root = None

    def _close_workload(self) -> None:
        if self.workload is not None:
            self._supervisor.loop.unwatch(self.workload.fd)
            self._supervisor.reaper.forget(self.workload)
            self.workload.close()
            self.workload = None

    def _root_ended(self, _events: int) -> None:
        assert self.root is not None
        loop = self._supervisor.loop
        loop.unwatch(self.root.fd)
        seen = exits.exit_of_child(self.root) if self.root_is_child else None
        if seen is not None:
            loop.insist("root exit", lambda: self._root_exit_known(seen))
        else:
            self._supervisor.reaper.when_known(self.root, self._root_exit_known)

    def _workload_ended(self, _events: int) -> None:
        assert self.workload is not None
        self._supervisor.loop.unwatch(self.workload.fd)
        self._supervisor.reaper.when_known(self.workload, self._workload_exit_known)

    def _root_exit_known(self, seen: ExitFacts) -> None:
        supervisor = self._supervisor
        crash_point("shim.root-exited")
        if self._has_unread_workload():
            self._workload_ended(0)  # before the root, which waited for it
        own = self._heirs().settle(seen)
        if own is None:
            return  # such as `setsid CMD`: CMD is the root from now on
        self.end = self.end.replace(root_exit=own)
        self._note_exit()
        outlived = (
            self.end.workload_outlives_root
            and self.workload is not None
            and not self.workload.has_exited()
        )
        self.end = self.end.replace(workload_outlived_root=outlived)
        more = {"workload_outlived": True} if outlived else {}
        supervisor.journal.record(Kind.ROOT_EXITED, attempt=self.number, **own.to_json(), **more)
        crash_point("shim.exit-recorded")
        supervisor.guarded("reap", self.reap_root)
        supervisor.loop.insist("proceed", supervisor.proceed)

    def _workload_exit_known(self, seen: ExitFacts) -> None:
        # Recorded first: the look may find that another is the workload by now.
        self._record_workload_exit(seen)
        self._note_exit()
        self._supervisor.loop.insist("proceed", self._supervisor.proceed)

    def _record_workload_exit(self, seen: ExitFacts) -> None:
        self.end = self.end.replace(workload_exit=seen)
        self._supervisor.journal.record(Kind.WORKLOAD_EXITED, **seen.to_json())

    def _note_exit(self) -> None:
        for note in self._supervisor.on_exit:
            self._supervisor.guarded("exit", note)

    def _has_unread_workload(self) -> bool:
        """Whether the workload has ended, and its exit is not known yet."""
        if self.workload is None or self.end.workload_exit is not None:
            return False
        return self.workload.has_exited()

    def _heirs(self) -> Succession:
        """Loaded when it is first needed, as what stops a run is."""
        if self._succession is None:
            from holdfast.shim.succession import Succession

            self._succession = Succession(self._supervisor, self)
        return self._succession
