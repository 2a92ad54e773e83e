"""Takes over a run whose shim died, or hangs: looks, and records only what it can prove.

A workload that is proven alive is supervised on: its pidfd gives the true exit status to a
non-parent too. What ended unseen is `lost`. What can't be told is left untouched.
"""

from __future__ import annotations

import enum

from holdfast.errors import HoldfastError
from holdfast.process import libc
from holdfast.process.clock import boottime
from holdfast.process.identity import HeldProcess, Look, ProcessIdentity, Verdict
from holdfast.process.remains import hold_remains
from holdfast.record import Record
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.outcomes import StopCause
from holdfast.shim import exits
from holdfast.shim.ending import clear_up
from holdfast.shim.journal import Journal
from holdfast.shim.loop import Loop
from holdfast.shim.main import Readiness, become_shim, supervise
from holdfast.shim.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.shim.takeover import Takeover

_LOCK_SECONDS = 5.0


class Finding(enum.StrEnum):
    """What a look at the recorded processes of a run without a shim showed."""

    ALIVE = "alive"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Found(Record):
    """One recorded process: alive or a zombie (held), gone, or not to be told."""

    finding: Finding
    held: HeldProcess | None
    look: Look


def find(identity: ProcessIdentity) -> Found:
    """Look at one recorded process."""
    look, fd = identity.examine()
    if fd is not None:
        return Found(Finding.ALIVE, HeldProcess(identity, fd, look), look)
    if look.verdict is Verdict.UNKNOWN:
        return Found(Finding.UNKNOWN, None, look)
    return Found(Finding.ENDED, hold_remains(identity), look)


def adopt(path: str, ready_fd: int, request: dict[str, Any] | None) -> None:
    """Take over; `request` asks for a stop as well, and says whether the shim hangs."""
    set_role("adopter")
    ready = Readiness(become_shim(ready_fd))
    directory = RunDirectory.at(path)
    libc.set_child_subreaper()
    crash_point("adopter.started")
    takeover = None
    if request is not None and request.get("hung"):
        from holdfast.shim.takeover import end_hung_shim

        takeover = end_hung_shim(directory, request.get("stop") or {})
    lock = directory.wait_for_lock(_LOCK_SECONDS if takeover else 0)
    if lock is None:
        return  # another adopter, or the shim is alive after all
    crash_point("adopter.locked")
    journal = Journal(directory, lock)
    if journal.facts.has_ended:
        clear_up(directory, directory.read_spec(), journal.facts)
    else:
        Adoption(directory, journal, ready, takeover).begin(request)
    lock.release()


class Adoption:
    """One take-over, with the lock held."""

    def __init__(
        self,
        directory: RunDirectory,
        journal: Journal,
        ready: Readiness,
        takeover: Takeover | None,
    ) -> None:
        self._journal = journal
        self._ready = ready
        self._kept = takeover.held if takeover is not None else {}
        self._us = ProcessIdentity.current()
        loop = Loop(journal.record_fault)
        spec = directory.read_spec()
        self.supervisor = Supervisor(
            directory, spec, journal, loop, is_reaper=False, on_ready=ready
        )
        if takeover is not None:
            self.supervisor.cleanup = takeover.cleanup

    def begin(self, request: dict[str, Any] | None) -> None:
        """Find out how the run stands, record it, and supervise what is alive."""
        facts = self._journal.facts
        if facts.restart is not None and facts.stop_cause is None:
            self._record("the shim died before a restart that was due")
            self._supervise(self.supervisor.start_attempt)
            return
        if facts.root is None:
            self._record("the shim or its launcher died before the command was started")
            self.supervisor.exec_failure = {"exit_code": 125, "error": "never started"}
            self._supervise(self.supervisor.proceed)
            return
        root, workload = self._find_root(facts), self._find_workload(facts)
        found = [one for one in (root, workload) if one is not None]
        if any(one.finding is Finding.UNKNOWN for one in found):
            return  # nothing is recorded on a guess
        self._record("; ".join(_evidence(facts, found)))
        crash_point("adopter.recorded")
        self._restore(facts, root, workload)
        self._supervise(lambda: self._go_on(request))

    def _find_root(self, facts: RunFacts) -> Found | None:
        if facts.root is None or facts.root_exit is not None or facts.exec_failure is not None:
            return None
        return self._find(ProcessIdentity.from_json(facts.root))

    def _find_workload(self, facts: RunFacts) -> Found | None:
        if facts.workload is None or facts.workload_exit is not None:
            return None
        identity = ProcessIdentity.from_json(facts.workload)
        if facts.root is not None and identity.token == facts.root["token"]:
            return None
        return self._find(identity)

    def _find(self, identity: ProcessIdentity) -> Found:
        found, kept = find(identity), self._kept.get(identity.token)
        if found.finding is Finding.ENDED and found.held is None and kept is not None:
            return found.replace(held=kept)  # held since before its end: the status can be read
        return found

    def _record(self, evidence: str) -> None:
        facts = self._journal.facts
        self._journal.record(
            Kind.SUPERVISED,
            shim=self._us.to_json(),
            how="adopted",
            previous_shim=facts.shim,
            evidence=evidence,
        )
        self.supervisor.evidence.append(evidence)

    def _restore(self, facts: RunFacts, root: Found | None, workload: Found | None) -> None:
        supervisor = self.supervisor
        supervisor.stop_cause = facts.stop_cause
        supervisor.exec_failure = facts.exec_failure
        if facts.root_exit is not None:
            supervisor.root_exit = _exit_facts(facts.root_exit)
        if facts.workload_exit is not None:
            supervisor.workload_exit = _exit_facts(facts.workload_exit)
        if root is not None and root.held is not None:
            supervisor.take_root(root.held)
        elif root is not None:
            supervisor.root_exit = exits.NOT_SEEN
        if workload is not None and workload.held is not None:
            supervisor.take_workload(workload.held, outlives_root=True)
        for token in facts.members:
            supervisor.tree.add(ProcessIdentity.parse(token))
        if supervisor.workload is not None and root is None:
            supervisor.workload_outlived_root = True

    def _go_on(self, request: dict[str, Any] | None) -> None:
        supervisor = self.supervisor
        supervisor.watch_root()
        for begin in supervisor.on_running:
            supervisor.guarded("adoption", begin)
        supervisor.guarded("notice", lambda: supervisor.tell("orphan"))
        self._ready()
        if request is not None and request.get("stop") is not None:
            self._stop(request["stop"])
        elif supervisor.stop_cause is not None:
            # A stop was under way when the shim died: go on with it.
            supervisor.resume_stop()
        else:
            supervisor.proceed()

    def _stop(self, stop: dict[str, Any]) -> None:
        self.supervisor.begin_stop(
            StopCause(stop.get("cause") or StopCause.USER),
            str(stop.get("detail") or "asked"),
            by=stop.get("by"),
            sig=stop.get("signal"),
            grace_seconds=stop.get("grace_seconds"),
        )

    def _supervise(self, begin: Any) -> None:
        self.supervisor.loop.at("adoption", boottime(), begin)
        supervise(self.supervisor)


def _exit_facts(event: dict[str, Any]) -> exits.ExitFacts:
    return exits.ExitFacts(
        event.get("exit_code"), event.get("signal"), event.get("core_dumped"), str(event.get("how"))
    )


def _evidence(facts: RunFacts, found: list[Found]) -> list[str]:
    said = []
    if facts.shim is not None:
        shim = ProcessIdentity.from_json(facts.shim)
        said.append(f"shim {shim.pid} {_verdict(shim)}")
    said.extend(one.look.evidence for one in found)
    return said


def _verdict(identity: ProcessIdentity) -> str:
    try:
        return identity.verdict().value
    except HoldfastError as error:
        return f"can't be looked at: {error}"
