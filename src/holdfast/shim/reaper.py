"""Reaps what comes back to the shim, and reads how a process ended, its child or not.

A subreaper gets every orphan of its tree. A root whose exit is not recorded yet is left alone:
as a zombie it pins its PID, and /proc still shows what it used.
"""

from __future__ import annotations

import os

from holdfast.process.clock import boottime
from holdfast.run import exits
from holdfast.run.facts import NOT_SEEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.process.identity import HeldProcess
    from holdfast.run.facts import ExitFacts
    from holdfast.shim.loop import Loop

STATUS_SECONDS = 5.0  # how long the status of a process that is not our child may take to appear
_LOOK_AGAIN_SECONDS = 0.02


class Reaper:
    """`keeps` says whether a PID must not be reaped yet."""

    def __init__(self, loop: Loop, keeps: Callable[[int], bool]) -> None:
        self._loop = loop
        self._keeps = keeps
        self._awaited: set[int] = set()
        self._reaped: dict[int, ExitFacts] = {}

    def await_exit_of(self, held: HeldProcess) -> None:
        """Remember how this one ended, should it come back to us and be reaped here."""
        self._awaited = {held.identity.pid}

    def forget(self, held: HeldProcess) -> None:
        """Its exit status is not needed any more."""
        self._awaited.discard(held.identity.pid)
        self._reaped.pop(held.identity.pid, None)
        self._loop.cancel(f"status {held.identity.pid}")

    def reap(self) -> None:
        """Reap every ended child that may be."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or self._keeps(found.si_pid):
                return
            if found.si_pid in self._awaited:
                # Not reaped yet, so the number is still that process's.
                self._reaped[found.si_pid] = exits.from_waitid(found)
            os.waitpid(found.si_pid, os.WNOHANG)

    def when_known(
        self,
        held: HeldProcess,
        known: Callable[[ExitFacts], None],
        until: float | None = None,
    ) -> None:
        """Call back with the exit of a process that is not our child.

        Its status appears after its reap, which is up to its parent. What we can do is look
        again for a while; then it was not seen, and that is said.
        """
        until = boottime() + STATUS_SECONDS if until is None else until
        self.reap()
        facts = self._reaped.pop(held.identity.pid, None) or exits.exit_of_stranger(held)
        if facts is None and boottime() < until:
            again = lambda: self.when_known(held, known, until)  # noqa: E731
            self._loop.after(f"status {held.identity.pid}", _LOOK_AGAIN_SECONDS, again)
            return
        known(facts or NOT_SEEN)
