"""Takes over a run whose shim died, or hangs: looks, and records only what it can prove.

A workload that is proven alive is supervised on: its pidfd gives the true exit status to a
non-parent too. What ended unseen is `lost`. What can't be told is left untouched.
"""

from __future__ import annotations

from holdfast.errors import IdentityUnproven
from holdfast.process import here, libc
from holdfast.process.clock import boottime
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.tree import Cleanup
from holdfast.run.crashnote import read_reason
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.doubts import doubt_length, doubt_origin, has_summary
from holdfast.run.events import Kind
from holdfast.run.outcomes import Loss, StopCause
from holdfast.shim import exits, stdio
from holdfast.shim.ending import clear_up
from holdfast.shim.found import Finding, Found, became_command, find, loss_of
from holdfast.shim.journal import Journal
from holdfast.shim.loop import Loop
from holdfast.shim.main import Readiness, supervise
from holdfast.shim.restarts import RestartPolicy
from holdfast.shim.supervisor import Supervisor
from holdfast.shim.traces import last_seen_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.shim.takeover import Takeover

    Request = dict[str, Any]

_LOCK_SECONDS = 5.0
_DYING_SECONDS = 5.0  # a dying shim lets go of its lock before it is seen to have ended


def adopt(path: str, ready: Readiness, request: Request | None) -> None:
    """Take over; `request` may ask for a stop as well, and says whether the shim hangs.

    The lock of one that fails is let go of by its death: after it has left its note.
    """
    set_role("adopter")
    request = request or {}
    directory = RunDirectory.at(path)
    libc.set_child_subreaper()
    crash_point("adopter.started")
    takeover = None
    if request.get("hung"):
        from holdfast.shim.takeover import end_hung_shim

        takeover = end_hung_shim(directory, request.get("stop") or {})
    lock = directory.wait_for_lock(_LOCK_SECONDS if takeover else 0)
    if lock is None:
        return  # another adopter, or the shim is alive after all
    crash_point("adopter.locked")
    _take_over(directory, Journal(directory, lock), ready, takeover, request)
    lock.release()


def _take_over(
    directory: RunDirectory,
    journal: Journal,
    ready: Readiness,
    takeover: Takeover | None,
    request: Request,
) -> None:
    facts, spec = journal.facts, directory.read_spec()
    doubt = doubt_origin(directory, spec)
    if doubt is not None or doubt_length(directory, facts, has_summary(directory)) is not None:
        return  # not ours, or not whole: kept as it is
    if facts.has_ended:
        if request.get("stop") is not None:
            from holdfast.shim.survivors import strike_survivors

            strike_survivors(directory, journal, request["stop"])
        clear_up(directory, spec, journal.facts)
    elif _is_gone(facts.shim):
        Adoption(directory, journal, ready, takeover, request).begin()


def _is_gone(shim: dict[str, Any] | None) -> bool:
    """A shim that lives and does not hold this lock holds another: this directory is a copy."""
    if shim is None:
        return True
    try:
        return ProcessIdentity.from_json(shim).wait(_DYING_SECONDS)
    except IdentityUnproven:  # of another PID namespace: the lock, which is free, says it all
        return True


class Adoption:
    """One take-over, with the lock held."""

    def __init__(
        self,
        directory: RunDirectory,
        journal: Journal,
        ready: Readiness,
        takeover: Takeover | None,
        request: Request,
    ) -> None:
        self._journal = journal
        self._ready = ready
        self._request = request
        self._kept = takeover.held if takeover is not None else {}
        self._struck = takeover.struck if takeover is not None else ()
        self._was_over = False  # before anybody asked for a stop: then no stop ended it
        loop = Loop(journal.record_fault)
        self.supervisor = Supervisor(
            directory, directory.read_spec(), journal, loop, is_reaper=False, on_ready=ready
        )
        self.supervisor.last_seen_at = last_seen_at(directory, journal.facts)
        if takeover is not None:
            self.supervisor.cleanup = takeover.cleanup
        elif journal.facts.cleanup is not None:
            self.supervisor.cleanup = Cleanup.from_json(journal.facts.cleanup)

    def begin(self) -> None:
        """Find out how the run stands, record it, and supervise what is alive."""
        facts = self._journal.facts
        if self._is_restart_due(facts):
            self._record("the shim died before a restart that was due")
            self.supervisor.root_exit = exits.exit_of_attempt(facts.attempts[-1])
            self._supervise(lambda: self.supervisor.restarting.begin(0))
            return
        if facts.root is None:
            died = "the shim or its launcher died before the command was started"
            self.supervisor.vouched = bool(self._request.get("other_namespaces_gone"))
            self._record("; ".join((died, *self._last_words())))
            self._never_began({"exit_code": 125, "error": "never started"})
            return
        root, workload = self._find_root(facts), self._find_workload(facts)
        found = [one for one in (root, workload) if one is not None]
        if any(one.finding is Finding.UNKNOWN for one in found):
            return  # nothing is recorded on a guess
        self._note_loss(found)
        self._record("; ".join(self._evidence(facts, found)))
        if self._struck:
            rows = [{"token": token, "comm": None} for token in self._struck]
            self._journal.record(Kind.MEMBERS_SEEN, members=rows)
        crash_point("adopter.recorded")
        if root is not None and root.held is not None and not facts.is_exec_confirmed:
            began = became_command(root.held)
            if began is False:
                self._ended_before_exec(facts, root.held)
                return
            if began:
                self._confirm(facts.attempt)
        if not any(one.finding is Finding.ALIVE for one in found):
            # It is over, and was told to be: only a restart that was promised is done now.
            self._was_over = not self._struck
            self.supervisor.restarts = RestartPolicy(0)
            self.supervisor.oom.began_late = True
        self._restore(facts, root, workload)
        self._supervise(self._go_on)

    def _note_loss(self, found: list[Found]) -> None:
        """Why nobody may ever know how it ended; the last is the one that people mean."""
        if found and not any(one.finding is Finding.ALIVE for one in found):
            self.supervisor.loss = loss_of(found[-1].look)
            self.supervisor.vouched = any(one.vouched for one in found)

    def _is_restart_due(self, facts: RunFacts) -> bool:
        """Not after a reboot: what was promised then is over, as everything else is."""
        if facts.restart is None or facts.stop_cause is not None or facts.shim is None:
            return False
        same_boot = facts.shim.get("boot_id") == here.place().boot_id
        return same_boot and self._request.get("stop") is None

    def _confirm(self, attempt: int) -> None:
        # Where a later attempt's output began is not known: what is there now is not new.
        log_bytes = stdio.log_size(self.supervisor.directory) if attempt > 1 else 0
        self._journal.record(Kind.RUNNING, attempt=attempt, log_bytes=log_bytes)

    def _ended_before_exec(self, facts: RunFacts, held: HeldProcess) -> None:
        if facts.attempt > 1:
            # The run did start: it ended as its last real attempt did.
            self.supervisor.root_exit = exits.exit_of_attempt(facts.attempts[-2])
            self.supervisor.evidence.append(f"attempt {facts.attempt}: {exits.NEVER_LET_GO}")
            self._supervise(self.supervisor.finish)
            return
        ended = exits.exit_of_stranger(held) or exits.NOT_SEEN
        failure = {"exit_code": ended.exit_code or 125, "error": exits.NEVER_LET_GO}
        self._never_began(failure)

    def _never_began(self, failure: dict[str, Any]) -> None:
        self.supervisor.exec_failure = failure
        self._supervise(self.supervisor.proceed)

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
        gone = bool(self._request.get("other_namespaces_gone"))
        found = find(identity, other_namespaces_gone=gone)
        kept = self._kept.get(identity.token)
        if found.finding is Finding.ENDED and found.held is None and kept is not None:
            return found.replace(held=kept)  # held since before its end: the status can be read
        return found

    def _record(self, evidence: str) -> None:
        facts = self._journal.facts
        self._journal.record(
            Kind.SUPERVISED,
            shim=ProcessIdentity.current().to_json(),
            how="adopted",
            previous_shim=facts.shim,
            evidence=evidence,
        )
        self.supervisor.evidence.append(evidence)

    def _restore(self, facts: RunFacts, root: Found | None, workload: Found | None) -> None:
        supervisor = self.supervisor
        supervisor.stop_cause = facts.stop_cause
        supervisor.exec_failure = facts.exec_failure
        supervisor.root_exit = exits.from_event(facts.root_exit)
        supervisor.workload_exit = exits.from_event(facts.workload_exit)
        supervisor.workload_outlived_root = facts.workload_outlived_root
        root_is_gone = root is not None and root.held is None
        if root is not None and root.held is not None:
            supervisor.take_root(root.held)
        elif root_is_gone:
            supervisor.root_exit = exits.NOT_SEEN
        if workload is not None and workload.held is not None:
            # A root that nobody saw end can't tell the code: then the workload's is the run's.
            outlives = facts.workload_outlives_root or root_is_gone
            supervisor.take_workload(workload.held, outlives_root=outlives)
            supervisor.workload_outlived_root = outlives and (root is None or root_is_gone)
        for token in facts.members:
            supervisor.tree.add(ProcessIdentity.parse(token))

    def _go_on(self) -> None:
        supervisor = self.supervisor
        supervisor.watch_root()
        for begin in supervisor.on_running:
            supervisor.guarded("adoption", begin)
        supervisor.guarded("notice", lambda: supervisor.tell("orphan"))
        if any(held and not held.has_exited() for held in (supervisor.root, supervisor.workload)):
            self._ready()  # else it is over: whoever asked waits for what is recorded
        if self._request.get("stop") is not None and not self._was_over:
            self._stop(self._request["stop"])
        elif supervisor.stop_cause is not None:
            # A stop was under way when the shim died: go on with it.
            supervisor.resume_stop()
        else:
            supervisor.proceed()

    def _stop(self, stop: dict[str, Any]) -> None:
        # Who has ended may have been struck before we had the lock: then no exit comes first.
        begin = self.supervisor.stopping().begin if self._struck else self.supervisor.begin_stop
        begin(
            StopCause(stop.get("cause") or StopCause.USER),
            str(stop.get("detail") or "asked"),
            by=stop.get("by"),
            sig=stop.get("signal"),
            grace_seconds=stop.get("grace_seconds"),
        )

    def _supervise(self, begin: Any) -> None:
        self.supervisor.loop.at("adoption", boottime(), begin)
        supervise(self.supervisor)

    def _evidence(self, facts: RunFacts, found: list[Found]) -> list[str]:
        if self.supervisor.loss is Loss.REBOOT:
            return [f"lost to a reboot: last seen alive at {self.supervisor.last_seen_at}"]
        said = []
        if facts.shim is not None:
            shim = ProcessIdentity.from_json(facts.shim)
            said.append(f"shim {shim.pid} {shim.verdict().value}")
            said.extend(self._last_words())
        said.extend(one.look.evidence for one in found)
        if found and not any(one.held for one in found):
            said.append(f"last seen alive at {self.supervisor.last_seen_at}")
        return said

    def _last_words(self) -> list[str]:
        reason = read_reason(self.supervisor.directory.path)
        return [] if reason is None else [f"a shim failed: {reason}"]
