"""Pausing a run: its tree is stopped through the gate until two walks are calm, and continued.

Each process is recorded before it is stopped, so an adopter can continue just those; those stopped
by others stay stopped. Runs inside are asked through their own shims; a queued run is held.
Idle time does not count meanwhile, `--timeout` does.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.lean import signal
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.signals import send_signal, signal_held
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.tree import Member
    from holdfast.shim.supervisor import Supervisor

_PAUSE_SECONDS = 0.02
_LONGEST_SECONDS = 3.0  # then a process that is still not stopped has the SIGSTOP pending
_STOPPED = (ProcessState.STOPPED, ProcessState.TRACED)


class BudgetUsedUp(ValueError):
    """It can go on only when the limit is raised."""

    def __init__(self, said: str, limit: str) -> None:
        super().__init__(said)
        self.limit = limit


class Pausing:
    """All pauses of one run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._ours: list[str] = []  # tokens of those that we stopped
        self._by: Any = None
        self._calm_walks = 0
        self._deadline = 0.0
        self._when_calm: Callable[[], None] = lambda: None

    def pause(self, by: Any, when_calm: Callable[[], None]) -> None:
        """Stop the tree. ValueError when it is being stopped for good."""
        supervisor = self._supervisor
        if supervisor.stop_cause is not None:
            raise ValueError("it is being stopped")
        if supervisor.journal.facts.paused is not None:
            when_calm()
            return
        self._ours, self._by = [], by
        self._record()
        crash_point("shim.pause-begun")
        supervisor.inner.tell("pause")
        self._hold_still(when_calm)

    def resume(self) -> None:
        """An adopter found it paused: go on with that."""
        self._ours = list((self._supervisor.journal.facts.paused or {}).get("stopped") or ())
        self._hold_still(lambda: None)

    def unpause(self, by: Any) -> None:
        """Continue those that we stopped. ValueError when it is not paused."""
        supervisor = self._supervisor
        if supervisor.journal.facts.paused is None:
            raise ValueError("it is not paused")
        over = supervisor.over_budget()
        if over is not None:
            raise BudgetUsedUp(f"its budget is used up: {over}", over.limit)
        self.let_go()
        supervisor.inner.tell("unpause")
        crash_point("shim.continued")
        supervisor.journal.record(Kind.UNPAUSED, by=by)
        if supervisor.waiting is not None:
            supervisor.waiting.look()

    def let_go(self) -> None:
        """Continue those that we stopped, and let idle time count again."""
        supervisor = self._supervisor
        supervisor.loop.cancel("pause")
        for token in (supervisor.journal.facts.paused or {}).get("stopped") or ():
            try:
                delivery = send_signal(ProcessIdentity.parse(token), signal.SIGCONT)
            except HoldfastError:  # its identity can't be proven now: not signalled
                continue
            supervisor.journal.record_delivery(delivery, "unpause", self._by)
        supervisor.loop.go_on()

    def _hold_still(self, when_calm: Callable[[], None]) -> None:
        supervisor = self._supervisor
        self._when_calm, self._calm_walks = when_calm, 0
        self._deadline = boottime() + _LONGEST_SECONDS
        supervisor.loop.stand_still()
        if supervisor.journal.facts.waits_to_begin:
            if supervisor.waiting is not None:
                supervisor.waiting.hold()
            when_calm()
            return
        self._step()

    def _step(self) -> None:
        self._supervisor.loop.insist("pause", self._freeze)

    def _freeze(self) -> None:
        supervisor = self._supervisor
        if supervisor.journal.facts.paused is None:
            return
        tree = supervisor.tree
        tree.let_go_of_spared()  # an inner run's shim is asked, and goes on running
        members = tree.walk()
        self._stop(member for member in members if self._is_fresh(member))
        ours = set(self._ours)
        moving = [one for one in members if one.identity.token in ours and not _is_still(one)]
        fresh = [one for one in members if one.identity.token not in ours and self._is_fresh(one)]
        is_calm = tree.saw_all and not moving and not fresh
        self._calm_walks = self._calm_walks + 1 if is_calm else 0
        if self._calm_walks >= 2 or boottime() > self._deadline:
            self._when_calm()
        else:
            supervisor.loop.after("pause", _PAUSE_SECONDS, self._step)

    def _is_fresh(self, member: Member) -> bool:
        return member.identity.token not in self._ours and member.state not in _STOPPED

    def _stop(self, members: Any) -> None:
        fresh = list(members)
        if not fresh:
            return
        self._ours += [member.identity.token for member in fresh]
        self._record()
        for member in fresh:
            held = self._supervisor.tree.held_as(member.identity)
            if held is not None:
                delivery = signal_held(held, signal.SIGSTOP)
                self._supervisor.journal.record_delivery(delivery, "pause", self._by)

    def _record(self) -> None:
        self._supervisor.journal.record(Kind.PAUSED, stopped=list(self._ours), by=self._by)


def _is_still(member: Member) -> bool:
    return member.state in (*_STOPPED, ProcessState.DISK_SLEEP, ProcessState.ZOMBIE)
