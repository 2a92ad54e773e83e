"""The life of one supervised run, from its first attempt to its recorded ending.

Everything happens in callbacks of the one loop. Facts go through the journal before they are
acted on; the order at death is in `ending.py`.
"""

from __future__ import annotations

from holdfast.errors import is_shortage
from holdfast.lean import signal
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.oom import OomWatch
from holdfast.process.tree import Tree
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.inner_runs import InnerRuns
from holdfast.run.outcomes import Loss, StopCause
from holdfast.shim import child
from holdfast.shim.attempt import Attempt
from holdfast.shim.beginning import BegunAttempt, begin_attempt, log_size
from holdfast.shim.loop import READ, Loop
from holdfast.shim.reaper import Reaper
from holdfast.shim.restarts import Restarting
from holdfast.shim.senses import Senses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from holdfast.process.tree_stop import Cleanup
    from holdfast.run.directory import RunDirectory
    from holdfast.run.exits import RootUsage
    from holdfast.run.spec import RunSpec
    from holdfast.run.usage.budget import OverBudget
    from holdfast.shim.journal import Journal
    from holdfast.shim.pausing import Pausing
    from holdfast.shim.pty.terminal import Ends
    from holdfast.shim.stopping import Stopping
    from holdfast.shim.waiting.waiting import Waiting
    from holdfast.shim.watching.hooks import AgentHooks

_SHORTAGE_SECONDS = 0.5
READ_SECONDS = 0.05  # between looks whether all that an attempt said was read


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
        oom: OomWatch | None = None,
    ) -> None:
        self.directory = directory
        self.spec = spec.adjusted(journal.facts.adjusted)
        self.journal = journal
        self.loop = loop
        self.on_ready = on_ready
        self.senses = Senses(journal)
        self.inner = InnerRuns(directory, spec)
        self.reaper = Reaper(loop, self._keeps)
        us = ProcessIdentity.current() if is_reaper else None
        self.tree = Tree(reaper=us, spare=self.inner.owns)
        self.attempt = Attempt(self, journal.facts.attempt.number)
        self.stop_cause: StopCause | None = None
        self.evidence: list[str] = []
        self.loss = Loss.UNSEEN  # should its end not be seen
        self.vouched = False  # that it is over rests on the user's word
        self.last_seen_at: str | None = None  # before its last shim died, when we took it over
        self.cleanup: Cleanup | None = None
        self.oom = oom or OomWatch()
        self.root_usage: RootUsage | None = None  # of all roots that were reaped
        self.on_usage: list[Callable[[dict[str, Any], Callable[[], None]], None]] = []  # budgets
        self.on_restart: list[Callable[[float], None]] = []  # with how long the attempt lived
        self.on_rest: list[Callable[[], None]] = []  # no attempt runs until the next one
        self.has_unread: Callable[[], bool] = lambda: False  # output of the attempt
        self.resume_words: Callable[[str], list[str]] | None = None  # by session; of an agent
        self.on_waiting: list[Callable[[], None]] = []  # a queued run's shim waits from here on
        self.waiting: Waiting | None = None
        self.on_running: list[Callable[[], None]] = []
        self.on_exit: list[Callable[[], None]] = []  # before the reap: /proc still shows it
        self.on_succession: list[Callable[[], None]] = []  # another process is the root now
        self.before_ending: list[Callable[[], bool | None]] = []  # True: there is more to read
        self.out_of_time: list[Callable[[], None]] = []  # for readers that still have more to read
        self.after_ending: list[Callable[[], None]] = []
        self.after_release: list[Callable[[], None]] = []  # nothing waits for the shim any more
        self.log_size: Callable[[], int] = lambda: log_size(directory)
        self.usage: Callable[[], dict[str, Any] | None] = lambda: None
        self.adjust_watchers: Callable[[Iterable[str]], None] = lambda _fields: None
        self.memory_bytes: Callable[[int], int | None] = lambda _limit: None
        self.tell: Callable[..., None] = lambda _event, **_more: None  # --notify
        self.hooks: AgentHooks | None = None  # of an agent that reports
        self.is_equipped = False  # all that watches the run is in place
        self.terminal: Ends | None = None  # of a --pty run
        self.use_terminal: Callable[[Ends], None] | None = None
        self._stopping: Stopping | None = None
        self._pausing: Pausing | None = None
        self.restarting = Restarting(self)
        self._finished = False
        self._listens = False
        self._is_watched = False
        self._undone: list[Callable[[], None]] = []

    # --- a queued run ------------------------------------------------------------------

    def wait_to_begin(self) -> None:
        """Start the command once all that was asked for has come about."""
        from holdfast.shim.waiting.waiting import Waiting

        self.waiting = Waiting(self)
        self.after_ending.append(self.waiting.close)
        self.loop.at("waiting", boottime(), self.waiting.begin)

    # --- an attempt begins -------------------------------------------------------------

    def start_attempt(self, command: Sequence[str] | None = None) -> None:
        """Another attempt of a run that this shim supervises; `command`: not with the run's own."""
        if self.tree.reaper is None:  # an adopter starts a new attempt: that one is below us
            self.tree.close()
            self.tree = Tree(reaper=ProcessIdentity.current(), spare=self.inner.owns)
        spec = self.spec.with_cost_left(self.journal.facts.usage.get("cost_usd"))
        more: dict[str, Any] = {}
        if command is not None:
            spec = spec.resumed(command)
            more["command"] = spec.public_command
        begun = begin_attempt(spec, self.directory, self.journal, self.attempt.number + 1, **more)
        self.take_attempt(begun)
        self.restarting.release_when_recorded(begun)

    def take_attempt(self, begun: BegunAttempt) -> None:
        """Supervise what was begun; of a run's first attempt, before there was a supervisor."""
        self.attempt = Attempt(self, begun.number, root=begun.root, root_is_child=True)
        self.terminal = begun.terminal
        if self.terminal is not None and self.use_terminal is not None:
            self.use_terminal(self.terminal)
        if begun.awaits_setup:
            self.listen()  # it may take long: a stop must find us meanwhile
        report_fd = begun.waiting.report_fd
        self.loop.watch(report_fd, READ, "exec", lambda _events: self._exec_reported(begun))

    def _exec_reported(self, begun: BegunAttempt) -> None:
        waiting = begun.waiting
        report = begun.read_report()
        if report is None:
            return
        self.loop.unwatch(waiting.report_fd)
        waiting.close()
        if report:
            self._exec_failed(child.read_report(report))
            return
        self.journal.record(Kind.RUNNING, attempt=begun.number, log_bytes=begun.log_bytes)
        crash_point("shim.running")
        self.listen()
        self.on_ready()
        crash_point("shim.ready")
        self.attempt.watch()
        self.begin_watching()

    def listen(self) -> None:
        """Open the control socket, once: before `running` is reported."""
        if not self._listens:
            self._listens = True
            from holdfast.shim.wiring import serve

            self.guarded("control", serve, self)

    def begin_watching(self) -> None:
        """The attempt runs: the watchers that are loaded begin."""
        self._is_watched = True
        for begin in self.on_running:
            self.until_done(begin)

    def add_watchers(self, begins: Sequence[Callable[[], None]]) -> None:
        """Each is called when an attempt begins to run; at once, if one is watched already."""
        self.on_running.extend(begins)
        for begin in begins if self._is_watched else ():
            self.until_done(begin)

    def begin_again(self, begin: Callable[[], None]) -> None:
        """A watcher of the attempt was replaced; at once, if one is watched."""
        if self._is_watched:
            self.until_done(begin)

    def until_done(self, call: Callable[[], None]) -> None:
        """Call, and again where the kernel has no room for it: the watch was promised.

        It may be called twice, so it must come to the same.
        """
        self._undone.append(call)
        self._do_undone()

    def _do_undone(self) -> None:
        todo, self._undone = self._undone, []
        for call in todo:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - recorded; the run must go on
                if is_shortage(error):
                    self.senses.lose("watchers", error)
                    self._undone.append(call)
                else:
                    self.journal.record_fault("watchers", error)
        if self._undone:
            self.loop.after("watchers", _SHORTAGE_SECONDS, self._do_undone)
        else:
            self.senses.regain("watchers")

    def _exec_failed(self, failure: dict[str, Any]) -> None:
        attempt = self.attempt
        attempt.end = attempt.end.replace(failure_code=int(failure["exit_code"]))
        self.evidence.append(str(failure["error"]))
        self.journal.record(Kind.EXEC_FAILED, attempt=attempt.number, **failure)
        assert attempt.root is not None
        # It says so just before it exits.
        self.loop.watch_exit(attempt.root.fd, "root exit", self._never_was)

    def _never_was(self, _events: int) -> None:
        assert self.attempt.root is not None
        self.loop.unwatch(self.attempt.root.fd)
        self.attempt.reap_root()
        if self.spec.worktree is None:
            self.finish()
            return
        self.attempt.close()
        self.proceed()  # its setup may have left something running

    # --- an attempt ends ---------------------------------------------------------------

    def _keeps(self, pid: int) -> bool:
        return self.attempt.keeps(pid)

    def proceed(self) -> None:
        """Something has ended. Does the attempt go on? Is its tree being stopped?"""
        if not self.attempt.is_over:
            return
        if self._stopping is None:
            self._attempt_over()
        elif self.attempt.is_cleared:
            self._stopping.after()
        elif not self._stopping.is_under_way:
            self._attempt_over()

    def _attempt_over(self) -> None:
        """Root and workload have ended by themselves: clear what they left, go on or finish."""
        limit = self.restarting.limit
        if limit is not None and limit.has_more_to_say():
            self.loop.after("proceed", READ_SECONDS, self.proceed)
            return
        self.loop.cancel("proceed")
        after = self.restarting.what_next()
        if self.spec.wanted.leftovers == "keep" or self.tree.is_empty():
            after()
            return
        self.stopping().stop_tree((), self.spec.wanted.grace_seconds, signal.SIGTERM, after)

    # --- stopping ----------------------------------------------------------------------

    def begin_stop(self, cause: StopCause, detail: str, **how: Any) -> None:
        """Stop the tree. The first cause decides the outcome; later ones may only hurry it."""
        self.loop.insist("stop", lambda: self._begin_stop(cause, detail, **how))

    def _begin_stop(self, cause: StopCause, detail: str, **how: Any) -> None:
        self.loop.hear_exits()  # a process that had ended was not ended by us
        if not self._finished:
            cause = StopCause.LEFTOVERS if self.stopping().is_late() else cause
            self.stopping().begin(cause, detail, **how)

    def resume_stop(self) -> None:
        """Go on with a stop that an earlier shim began and recorded."""
        self.stopping().resume()

    def stopping(self) -> Stopping:
        """Loaded when it is first needed: a launch does not wait for it."""
        if self._stopping is None:
            from holdfast.shim.stopping import Stopping

            self._stopping = Stopping(self)
        return self._stopping

    def signalled(self) -> None:
        """SIGTERM to the shim itself."""
        self.begin_stop(StopCause.SHIM_SIGNALLED, "the shim was sent SIGTERM")

    def over_budget(self) -> OverBudget | None:
        """A limit of tokens or cost that it has passed, as far as is known."""
        wanted = self.spec.wanted
        if wanted.max_tokens is None and wanted.max_cost_usd is None:
            return None
        from holdfast.run.usage.budget import find_over

        return find_over(wanted, self.journal.facts.usage)

    def ends_at_budget(self) -> bool:
        """Whether there is nothing left for another attempt: then the run ends here."""
        over = self.over_budget()
        if over is not None:
            cause = StopCause.COST if over.limit == "max_cost_usd" else StopCause.TOKENS
            said = f"not started again: over its budget, {over} used"
            self.begin_stop(cause, said, figure=over.used)
        elif self.journal.facts.gave_up_at_budget:
            self.evidence.append("not started again: the agent gave up at its budget")
            self.finish()
        return over is not None or self.journal.facts.gave_up_at_budget

    def pausing(self) -> Pausing:
        """Loaded when it is first needed."""
        if self._pausing is None:
            from holdfast.shim.pausing import Pausing

            self._pausing = Pausing(self)
        return self._pausing

    def child_ended(self) -> None:
        """SIGCHLD: a process below us ended."""
        self.reaper.reap()
        if self._stopping is not None:
            self._stopping.step()

    # --- the end -----------------------------------------------------------------------

    def finish(self) -> None:
        """Record the ending: once. A fault of ours must not keep a run that is over.

        The next command adopts it, and finds the recorded exit.
        """
        from holdfast.shim.ending import end_run

        if self._finished:
            return
        self._finished = True
        try:
            end_run(self)
        except Exception as error:  # noqa: BLE001 - recorded; the lock is released
            self.journal.record_fault("ending", error)
            self.loop.stop()

    def signal_workload(self, sig: int, by: Any) -> str:
        """One signal through the gate, on request."""
        held = self.attempt.subject
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
