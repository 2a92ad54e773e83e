"""Which process succeeds a root such as `setsid CMD`.

Most often one process can be the heir. Where several can, the run lasts until all of them have
ended, and has an exit code only if they agree: none of them is stopped, or believed, on a guess.
"""

from __future__ import annotations

from holdfast.process.workload.heirs import find_heirs
from holdfast.run import exits
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.facts import NOT_SEEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import HeldProcess
    from holdfast.run.facts import ExitFacts
    from holdfast.shim.attempt import Attempt
    from holdfast.shim.supervisor import Supervisor

IN_DOUBT = "the root left its place to one of several processes, which can't be told apart"


class Succession:
    """The heirs of one attempt's roots."""

    def __init__(self, supervisor: Supervisor, attempt: Attempt) -> None:
        self._supervisor = supervisor
        self._attempt = attempt
        self._rivals: dict[int, HeldProcess] = {}  # by PID: possible heirs
        self._exits: list[ExitFacts] = []  # of rivals that have ended
        self._is_in_doubt = supervisor.journal.facts.attempt.heir_in_doubt

    def keeps(self, pid: int) -> bool:
        """Whether the exit of that child is still to be read."""
        return pid in self._rivals

    def settle(self, facts: ExitFacts) -> ExitFacts | None:
        """The root has ended: what the run's exit is; None: another process is the root now."""
        supervisor, attempt = self._supervisor, self._attempt
        assert attempt.root is not None
        if self._is_in_doubt:
            self._exits.append(facts)
            if self._rivals:
                _, heir = self._rivals.popitem()
                supervisor.loop.unwatch(heir.fd)
                self._succeed(facts, heir)
                return None
            return self._agreed()
        if not attempt.root_is_child or facts.exit_code != 0:
            return facts
        heirs = find_heirs(attempt.root, supervisor.spec.command, supervisor.inner.owns)
        if not heirs:
            return facts
        self._is_in_doubt = len(heirs) > 1
        heir, *rivals = heirs
        for rival in rivals:
            self._rivals[rival.identity.pid] = rival
            supervisor.tree.add(rival.identity)
            supervisor.loop.watch_exit(rival.fd, "rival exit", self._look_at_rivals)
        self._succeed(facts, heir)
        return None

    def _agreed(self) -> ExitFacts:
        seen, self._exits, self._is_in_doubt = self._exits, [], False
        ways = {(one.exit_code, one.signal) for one in seen}
        if len(ways) == 1 and len(seen) > 1:  # an adopter did not see them all
            return seen[0]
        self._supervisor.evidence.append(f"{IN_DOUBT}: {', '.join(map(str, seen))}")
        return NOT_SEEN

    def _look_at_rivals(self, _events: int) -> None:
        for pid, rival in list(self._rivals.items()):
            facts = exits.exit_of_child(rival) if rival.has_exited() else None
            if facts is not None:
                self._exits.append(facts)
                self._supervisor.loop.unwatch(rival.fd)
                del self._rivals[pid]
                exits.reap_child(rival)
                rival.close()

    def _succeed(self, facts: ExitFacts, heir: HeldProcess) -> None:
        supervisor = self._supervisor
        doubt = {"in_doubt": True} if self._is_in_doubt else {}
        supervisor.journal.record(
            Kind.ROOT_EXITED,
            attempt=self._attempt.number,
            heir=heir.identity.to_json(),
            **facts.to_json(),
            **doubt,
        )
        crash_point("shim.exit-recorded")
        self._attempt.replace_root(heir)
