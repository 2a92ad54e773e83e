"""The life of one supervised run, from its first attempt to its recorded ending.

Everything happens in callbacks of the one loop. Facts go through the journal before they are
acted on; the order at death is in `ending.py`.
"""

from __future__ import annotations

import os

from holdfast.lean import signal
from holdfast.process.clock import boottime
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.members import Tree
from holdfast.process.proc_oom import OomWatch
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.outcomes import Loss, StopCause
from holdfast.shim import child, exits, stdio
from holdfast.shim.inner import InnerRuns
from holdfast.shim.loop import READ, Loop
from holdfast.shim.reaper import Reaper
from holdfast.shim.restarts import Restarting, RestartPolicy
from holdfast.shim.senses import Senses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.tree import Cleanup
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec
    from holdfast.shim.journal import Journal
    from holdfast.shim.stopping import Stopping
    from holdfast.shim.succession import Succession
    from holdfast.shim.terminal import Ends


class Supervisor:
    """Supervises one run. `on_ready` is called once: it runs, or has failed to start."""

    def __init__(
        self,
        directory: RunDirectory,
        spec: RunSpec,
        journal: Journal,
        loop: Loop,
        *,
        is_reaper: bool,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory
        self.spec = spec
        self.journal = journal
        self.loop = loop
        self.on_ready = on_ready
        self.senses = Senses(journal)
        self.inner = InnerRuns(directory, spec)
        self.reaper = Reaper(loop, self._keeps)
        us = ProcessIdentity.current() if is_reaper else None
        self.tree = Tree(reaper=us, spare=self.inner.owns)
        self.attempt = journal.facts.attempt or 0
        self.root: HeldProcess | None = None
        self.workload: HeldProcess | None = None  # only when it is not the root
        self.root_exit: exits.ExitFacts | None = None
        self.workload_exit: exits.ExitFacts | None = None
        self.exec_failure: dict[str, Any] | None = None
        self.stop_cause: StopCause | None = None
        self.evidence: list[str] = []
        self.loss = Loss.UNSEEN  # should nobody see how it ends
        self.vouched = False  # that it is over rests on the user's word
        self.last_seen_at: str | None = None  # before nobody watched, when we took it over
        self.cleanup: Cleanup | None = None
        self.attempt_began = boottime()
        self.workload_outlived_root = False
        self.oom = OomWatch()
        self.root_usage: exits.RootUsage | None = None
        self.on_restart: list[Callable[[float], None]] = []  # with how long the attempt lived
        self.on_running: list[Callable[[], None]] = []
        self.on_exit: list[Callable[[], None]] = []  # before the reap: /proc still shows it
        self.on_succession: list[Callable[[], None]] = []  # another process is the root now
        self.before_ending: list[Callable[[], bool | None]] = []  # True: there is more to read
        self.out_of_time: list[Callable[[], None]] = []  # for whoever still has more to read
        self.after_ending: list[Callable[[], None]] = []
        self.after_release: list[Callable[[], None]] = []  # nothing waits for the shim any more
        self.log_size: Callable[[], int] = lambda: stdio.log_size(directory)
        self.usage: Callable[[], dict[str, Any] | None] = lambda: None
        self.tell: Callable[..., None] = lambda _event, **_more: None  # --notify
        self.terminal: Ends | None = None  # of a --pty run
        self.use_terminal: Callable[[Ends], None] | None = None
        self.shells: tuple[ProcessIdentity, ...] = ()  # those of the chain that are `sh -c`
        self._workload_may_outlive = False
        self.root_is_child = False
        self._log_bytes = 0  # where this attempt's output begins
        self._stopping: Stopping | None = None
        self._succession: Succession | None = None
        self.restarts = RestartPolicy(spec.wanted.restarts)
        self.restarting = Restarting(self)
        self._finished = False

    # --- an attempt begins -------------------------------------------------------------

    def start_attempt(self) -> None:
        """Fork the child, record who it is, and only then let it become the command.

        What fails before it is recorded changes nothing: it can be tried again.
        """
        if self.tree.reaper is None:  # an adopter starts a new attempt: that one is below us
            self.tree.close()
            self.tree = Tree(reaper=ProcessIdentity.current(), spare=self.inner.owns)
        waiting, terminal = stdio.fork_child(self.spec, self.directory)
        self.root = child.hold_waiting(waiting, terminal)
        self.attempt += 1
        self.root_exit = self.workload_exit = None
        if self._stopping is not None:
            self._stopping.is_cleared = False
        self.terminal = terminal
        if self.terminal is not None and self.use_terminal is not None:
            self.use_terminal(self.terminal)
        self.root_is_child = True
        self.tree.add(self.root.identity)
        crash_point("shim.forked")
        identity = self.root.identity.to_json()
        self._log_bytes = stdio.log_size(self.directory)
        self.journal.record(Kind.ATTEMPT_STARTED, attempt=self.attempt, root=identity)
        crash_point("shim.attempt-recorded")
        self.loop.watch(
            waiting.report_fd, READ, "exec", lambda _events: self._exec_reported(waiting)
        )
        # A process without a record is what must never be: it has not run anything yet.
        self.restarting.release_when_recorded(waiting)

    def _exec_reported(self, waiting: child.WaitingChild) -> None:
        report = os.read(waiting.report_fd, 65536)
        self.loop.unwatch(waiting.report_fd)
        waiting.close()
        if report:
            self._exec_failed(child.read_report(report))
            return
        self.journal.record(Kind.RUNNING, attempt=self.attempt, log_bytes=self._log_bytes)
        crash_point("shim.running")
        self.on_ready()
        self.watch_root()
        for begin in self.on_running:
            self.guarded("begin", begin)

    def _exec_failed(self, failure: dict[str, Any]) -> None:
        self.exec_failure = failure
        self.evidence.append(str(failure["error"]))
        self.journal.record(Kind.EXEC_FAILED, attempt=self.attempt, **failure)
        assert self.root is not None
        # It says so just before it exits.
        self.loop.watch_exit(self.root.fd, "root exit", self._never_was)

    def _never_was(self, _events: int) -> None:
        assert self.root is not None
        self.loop.unwatch(self.root.fd)
        self._reap_root()
        self.finish()

    def watch_root(self) -> None:
        """Wake when the root, or the workload that outlives it, ends."""
        if self.root is not None and self.root_exit is None:
            self.loop.watch_exit(self.root.fd, "root exit", self._root_ended)
        if self.workload is not None and self.workload_exit is None:
            self.loop.watch_exit(self.workload.fd, "workload exit", self._workload_ended)

    def take_root(self, held: HeldProcess) -> None:
        """Supervise a root that an earlier shim started."""
        self.root = held
        self.tree.add(held.identity)

    def take_workload(self, held: HeldProcess, *, outlives_root: bool) -> None:
        """Watch a workload that is not the root; where it outlives the root, the run lasts."""
        self.let_go_of_workload()
        self._workload_may_outlive = outlives_root
        self.workload = held
        self.reaper.await_exit_of(held)
        self.tree.add(held.identity)
        self.watch_root()

    def let_go_of_workload(self) -> None:
        """Another is the workload now, or the root itself: how the former ends is not asked."""
        if self.workload is not None:
            self.loop.unwatch(self.workload.fd)
            self.reaper.forget(self.workload)
            self.workload.close()
        self.workload = self.workload_exit = None
        self._workload_may_outlive = False

    def record_end_of_former(self) -> None:
        """Another workload was found before the loop told us that the former has ended."""
        if self.workload and self.workload_exit is None and self.workload.has_exited():
            self.loop.unwatch(self.workload.fd)
            self.workload_exit = exits.exit_of_stranger(self.workload) or exits.NOT_SEEN
            self.journal.record(Kind.WORKLOAD_EXITED, **self.workload_exit.to_json())

    # --- something ends ----------------------------------------------------------------

    def _root_ended(self, _events: int) -> None:
        assert self.root is not None
        self.loop.unwatch(self.root.fd)
        facts = exits.exit_of_child(self.root) if self.root_is_child else None
        if facts is not None:
            self.loop.insist("root exit", lambda: self._root_exit_known(facts))
        else:
            self.reaper.when_known(self.root, self._root_exit_known)

    def _workload_ended(self, _events: int) -> None:
        assert self.workload is not None
        self.loop.unwatch(self.workload.fd)
        self.reaper.when_known(self.workload, self._workload_exit_known)

    def _root_exit_known(self, seen: exits.ExitFacts) -> None:
        crash_point("shim.root-exited")
        if self.workload and self.workload_exit is None and self.workload.has_exited():
            self._workload_ended(0)  # before the root, which waited for it
        facts = self._heirs().settle(seen)
        if facts is None:
            return  # such as `setsid CMD`: CMD is the root from now on
        self.root_exit = facts
        for note in self.on_exit:
            self.guarded("exit", note)
        self.workload_outlived_root = (
            self._workload_may_outlive
            and self.workload is not None
            and not self.workload.has_exited()
        )
        more = {"workload_outlived": True} if self.workload_outlived_root else {}
        self.journal.record(Kind.ROOT_EXITED, attempt=self.attempt, **facts.to_json(), **more)
        crash_point("shim.exit-recorded")
        self.guarded("reap", self._reap_root)
        self.loop.insist("proceed", self.proceed)

    def _heirs(self) -> Succession:
        """Loaded when it is first needed, as what stops a run is."""
        if self._succession is None:
            from holdfast.shim.succession import Succession

            self._succession = Succession(self)
        return self._succession

    def _workload_exit_known(self, facts: exits.ExitFacts) -> None:
        self.workload_exit = facts
        # Recorded first: the look may find that another is the workload by now.
        self.journal.record(Kind.WORKLOAD_EXITED, **facts.to_json())
        for note in self.on_exit:
            self.guarded("exit", note)
        self.loop.insist("proceed", self.proceed)

    def _reap_root(self) -> None:
        if self.root_is_child and self.root is not None:
            self.root_usage = exits.reap_child(self.root)
            crash_point("shim.reaped")
            self.reaper.reap()

    def _keeps(self, pid: int) -> bool:
        if self._succession is not None and self._succession.keeps(pid):
            return True
        is_root = self.root_is_child and self.root is not None and pid == self.root.identity.pid
        return is_root and self.root_exit is None

    def proceed(self) -> None:
        """The root has ended. Does a workload live on? Is the tree being stopped?"""
        root_over = self.root is None or self.root_exit is not None
        workload_over = self.workload is None or self.workload_exit is not None
        workload_over = workload_over or not self._workload_may_outlive
        if not root_over or not workload_over:
            return
        if self._stopping is None:
            self._attempt_over()
        elif self._stopping.is_cleared:
            self._stopping.after()
        elif not self._stopping.is_under_way:
            self._attempt_over()

    def _attempt_over(self) -> None:
        """Root and workload have ended by themselves: clear what they left, go on or finish."""
        after = self._what_next()
        if self.spec.wanted.leftovers == "keep" or self.tree.is_empty():
            after()
            return
        self.stopping().stop_tree((), self.spec.wanted.grace_seconds, signal.SIGTERM, after)

    def own_exit(self) -> exits.ExitFacts | None:
        """How the attempt ended: as its root did, or as the workload that outlived the root."""
        return self.workload_exit if self.workload_outlived_root else self.root_exit

    def _what_next(self) -> Callable[[], None]:
        if self.exec_failure is not None:
            return self.finish
        lived = boottime() - self.attempt_began
        decision = self.restarts.decide(self.own_exit(), self.attempt, lived)
        if decision.delay_seconds is None:
            if decision.why:
                self.evidence.append(decision.why)
            return self.finish
        delay = decision.delay_seconds
        return lambda: self._restart(delay)

    def _restart(self, delay_seconds: float) -> None:
        self.journal.record(
            Kind.RESTART_SCHEDULED,
            attempt=self.attempt + 1,
            delay_seconds=delay_seconds,
            reason=str(self.own_exit() or exits.NOT_SEEN),
        )
        crash_point("shim.restart-scheduled")
        lived = boottime() - self.attempt_began
        for note in self.on_restart:
            self.guarded("restart", note, lived)
        self._let_go()
        self.restarting.begin(delay_seconds)

    def _let_go(self) -> None:
        for held in (self.root, self.workload):
            if held is not None:
                self.loop.unwatch(held.fd)
                held.close()
        self.root = self.workload = None

    # --- stopping ----------------------------------------------------------------------

    def begin_stop(self, cause: StopCause, detail: str, **how: Any) -> None:
        """Stop the tree. The first cause decides the outcome; later ones may only hurry it."""
        self.loop.insist("stop", lambda: self._begin_stop(cause, detail, **how))

    def _begin_stop(self, cause: StopCause, detail: str, **how: Any) -> None:
        self.loop.hear_exits()  # who has ended was not ended by us
        if not self._finished:
            cause = StopCause.LEFTOVERS if self.stopping().is_late() else cause
            self.stopping().begin(cause, detail, **how)

    def has_run_out(self) -> bool:
        """Whether all that the run lasts by has ended, though how may not be known yet."""
        lasting = [self.root, self.workload if self._workload_may_outlive else None]
        return all(held is None or held.has_exited() for held in lasting)

    def resume_stop(self) -> None:
        """Go on with a stop that an earlier shim began and recorded."""
        self.stopping().resume()

    def stopping(self) -> Stopping:
        """Loaded when it is first needed: a launch does not wait for it."""
        if self._stopping is None:
            from holdfast.shim.stopping import Stopping

            self._stopping = Stopping(self)
        return self._stopping

    def subject(self) -> HeldProcess | None:
        """Who is signalled when the run is meant: the workload, else the root."""
        return self.workload if self.workload and self.workload_exit is None else self.root

    def child_ended(self) -> None:
        """SIGCHLD: somebody below us ended."""
        self.reaper.reap()
        if self._stopping is not None:
            self._stopping.step()

    # --- the end -----------------------------------------------------------------------

    def finish(self) -> None:
        """Record the ending: once. A fault of ours must not keep a run that is over.

        Whoever meets it next adopts it, and finds the recorded exit.
        """
        from holdfast.shim.ending import end_run

        if self._finished:
            return
        self._finished = True
        try:
            end_run(self)
        except Exception as error:  # noqa: BLE001 - recorded; the lock is let go of
            self.journal.record_fault("ending", error)
            self.loop.stop()

    def signal_workload(self, sig: int, by: Any) -> str:
        """One signal through the gate, on somebody's request."""
        held = self.subject()
        if held is None:
            return "gone"
        from holdfast.process.signals import send_signal

        delivery = send_signal(held.identity, sig)
        self.journal.record_delivery(delivery, "asked", by)
        return delivery.fate.value

    def guarded(self, where: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """What fails here is recorded and gone past."""
        try:
            return call(*arguments)
        except Exception as error:  # noqa: BLE001 - recorded; the ending must not depend on it
            self.journal.record_fault(where, error)
            return None
