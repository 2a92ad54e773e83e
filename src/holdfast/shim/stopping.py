"""Stopping a run's tree, and the runs inside it, from the shim's loop.

The tree's own order is `process/tree_stop.py`: here it is stepped, recorded, and waited for.
Nothing of this is needed before the first stop, so it is loaded then.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.process.signals import parse_signal
from holdfast.process.tree_stop import Cleanup, TreeStop
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.outcomes import StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.signals import Delivery
    from holdfast.shim.supervisor import Supervisor

_ADOPTER_SECONDS = 0.05  # no SIGCHLD tells us of processes that are not below us
_INNER_SECONDS = 20.0  # how long an inner run may take to stop, beyond its grace


class Stopping:
    """All stops of one run; at most one is under way."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.after: Callable[[], None] = supervisor.finish
        self._supervisor = supervisor
        self._stop: TreeStop | None = None
        self._inner_deadline = 0.0
        self._struck: dict[str, None] = {}

    @property
    def is_under_way(self) -> bool:
        return self._stop is not None

    def begin(
        self,
        cause: StopCause,
        detail: str,
        *,
        by: Any = None,
        sig: str | None = None,
        grace_seconds: float | None = None,
        figure: float | None = None,
    ) -> None:
        """Record the cause and stop the tree; a later cause may only hurry it.

        `figure`: the value that passed the limit.
        """
        supervisor, wanted = self._supervisor, self._supervisor.spec.wanted
        grace = wanted.grace_seconds if grace_seconds is None else grace_seconds
        after = supervisor.restarting.after_stop(cause)
        latest = supervisor.journal.facts.attempt
        is_done = latest.completion is not None and latest.restart is None
        if cause.yields_to_completion and is_done:
            cause = StopCause.COMPLETION
        if supervisor.stop_cause is None and cause is not StopCause.LEFTOVERS:
            supervisor.stop_cause = cause
            supervisor.evidence.append(detail)
        if supervisor.journal.facts.paused is not None:
            supervisor.pausing().let_go()
        name = sig or wanted.stop_signal
        more: dict[str, Any] = {} if figure is None else {"figure": round(figure, 1)}
        supervisor.journal.record(
            Kind.STOP_BEGUN,
            cause=cause,
            detail=detail,
            by=by,
            signal=name,
            grace_seconds=grace,
            **more,
        )
        crash_point("shim.stop-begun")
        supervisor.loop.cancel("restart")
        self._insist(lambda: self._carry_out(cause, grace, name, by, after))

    def _insist(self, call: Callable[[], None]) -> None:
        """A stop is not lost where there are no descriptors: tried again, or left to an adopter."""
        self._supervisor.loop.insist("stop", call)

    def _carry_out(
        self, cause: StopCause, grace: float, name: str, by: Any, after: Callable[[], None]
    ) -> None:
        supervisor = self._supervisor
        if cause is not StopCause.COMPLETION:  # else inner runs go on
            request = {"grace_seconds": grace, "signal": name, "cause": "outer", "by": by}
            supervisor.inner.stop(request)
            self._inner_deadline = boottime() + grace + _INNER_SECONDS
        if self._stop is not None:
            self.after = supervisor.finish  # leftovers were being stopped before a restart
            self._stop.shorten(grace)
            self.step()
            return
        self.stop_tree(self._targets(), grace, parse_signal(name), after, by)

    def is_late(self) -> bool:
        """Whether the run has ended by itself, and only what it left behind is stopped."""
        supervisor = self._supervisor
        if supervisor.stop_cause is not None or not supervisor.attempt.has_run_out:
            return False
        if self._stop is not None:
            return self.after == supervisor.finish  # else another attempt was to follow
        return supervisor.attempt.root is not None and supervisor.spec.wanted.restarts == 0

    def resume(self) -> None:
        """Go on with a stop that an earlier shim began and recorded."""
        supervisor, wanted = self._supervisor, self._supervisor.spec.wanted
        begun = supervisor.journal.facts.stop or {}
        polite = parse_signal(begun.get("signal") or wanted.stop_signal)
        grace = begun.get("grace_seconds")
        grace = wanted.grace_seconds if grace is None else float(grace)
        by, after = begun.get("by"), supervisor.finish
        self._insist(lambda: self.stop_tree(self._targets(), grace, polite, after, by))

    def _targets(self) -> tuple[ProcessIdentity, ...]:
        """Which get the polite signal: the workload, and shells above it, which would go on.

        A `sh -c` that is the workload may trap the signal, and then waits for its own program.
        """
        held, shells = self._supervisor.attempt.subject, self._supervisor.attempt.shells
        if held is None:
            return ()
        if held.identity not in shells:
            return (*shells, held.identity)
        members = self._supervisor.tree.walk()
        below = (one.identity for one in members if one.ppid == held.identity.pid)
        return (*shells, held.identity, *below)

    def stop_tree(
        self,
        targets: tuple[ProcessIdentity, ...],
        grace_seconds: float,
        polite: int,
        after: Callable[[], None],
        by: Any = None,
    ) -> None:
        """Empty the tree, then go on with `after`."""
        journal = self._supervisor.journal

        def record(delivery: Delivery, why: str) -> None:
            journal.record_delivery(delivery, why, by)
            self._struck[delivery.identity.token] = None

        self.after = after
        self._stop = TreeStop(
            self._supervisor.tree,
            targets,
            polite=polite,
            grace_seconds=grace_seconds,
            record=record,
            clock=self._supervisor.loop.awake,
        )
        self.step()

    def step(self) -> None:
        """Do what is due of the stop that is under way."""
        self._insist(self._step)

    def _step(self) -> None:
        supervisor = self._supervisor
        if self._stop is None:
            return
        pause = self._stop.step()
        self._name_struck()
        if self._stop.result is None:
            if supervisor.tree.reaper is None:
                pause = min(pause, _ADOPTER_SECONDS)
            supervisor.loop.after("stop", pause, self.step)
            return
        if supervisor.inner.still_stopping() and boottime() < self._inner_deadline:
            supervisor.loop.after("stop", 0.1, self.step)
            return
        self._record(self._stop.result)
        self._stop, supervisor.attempt.is_cleared = None, True
        supervisor.guarded("reap", supervisor.reaper.reap)
        # A root that survives is named, and the run goes on stopping.
        supervisor.loop.insist("proceed", supervisor.proceed)

    def _name_struck(self) -> None:
        """Each signalled process is recorded as ours, also one that no walk had seen before."""
        struck, self._struck = self._struck, {}
        journal = self._supervisor.journal
        fresh = [token for token in struck if token not in journal.facts.members]
        if fresh:
            rows = [{"token": token, "comm": None} for token in fresh]
            journal.record(Kind.MEMBERS_SEEN, members=rows)

    def _record(self, result: Cleanup) -> None:
        cleanup = self._supervisor.cleanup = result.added_to(self._supervisor.cleanup)
        self._supervisor.journal.record(Kind.CLEANED, **cleanup.to_json())
        crash_point("shim.cleaned")
