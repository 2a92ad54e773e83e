"""Takes over a run whose shim died, or hangs: looks, and records only what it can prove.

A workload that is proven alive is supervised on: its pidfd gives the true exit status to a
non-parent too. What ended unseen is `lost`. What can't be told is left untouched.
"""

from __future__ import annotations

import os

from holdfast.errors import IdentityUnproven
from holdfast.process import libc, this_host
from holdfast.process.clock import boottime
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.tree_stop import Cleanup
from holdfast.run import conclusion, exits
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.facts import AttemptEnd
from holdfast.run.last_words.crash_note import read_reason
from holdfast.run.outcomes import StopCause
from holdfast.run.recorded_process import (
    EXEC_SECONDS,
    FoundProcess,
    RecordedFate,
    became_command,
    find,
)
from holdfast.run.trust import doubt_length, doubt_origin, has_summary
from holdfast.shim.attempt import Attempt
from holdfast.shim.beginning import log_size
from holdfast.shim.ending import clear_up, leave_queue
from holdfast.shim.journal import Journal
from holdfast.shim.last_seen import last_seen_at
from holdfast.shim.loop import Loop
from holdfast.shim.main import Readiness, supervise
from holdfast.shim.restarts import RestartPolicy
from holdfast.shim.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.shim.takeover import Takeover

    Request = dict[str, Any]

_LOCK_SECONDS = 5.0
_SETUP_ENDS_SECONDS = 10.0
_DYING_SECONDS = 5.0  # a dying shim loses its lock before its end can be seen


def adopt(path: str, ready: Readiness, request: Request | None) -> None:
    """Take over; `request` may ask for a stop as well, and says whether the shim hangs.

    An adopter that fails keeps the lock until it dies: after it has written crash.txt.
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
        leave_queue(directory, spec)
    elif _is_gone(facts.shim):
        Adoption(directory, journal, ready, takeover, request).begin()


def _is_gone(shim: ProcessIdentity | None) -> bool:
    """A shim that lives and does not hold this lock holds another: this directory is a copy."""
    if shim is None:
        return True
    try:
        return shim.wait(_DYING_SECONDS)
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
        self._was_over = False  # before a stop was requested: then no stop ended it
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
        asked_to_stop = self._request.get("stop") is not None
        if facts.waits_to_begin:
            self._wait_on(asked_to_stop)
            return
        is_due = conclusion.is_restart_due(facts, this_host.place().boot_id)
        if is_due and (facts.limit_wait is not None or not asked_to_stop):
            self._do_restart(asked_to_stop)
            return
        if facts.attempt.root is None:
            self.supervisor.vouched = bool(self._request.get("other_namespaces_gone"))
            self._record(conclusion.join((conclusion.NOT_STARTED, self._last_words())))
            self._end_as(conclusion.end_without_command())
            return
        root = self._find(conclusion.root_without_exit(facts))
        workload = self._find(conclusion.workload_without_exit(facts))
        found = [one for one in (root, workload) if one is not None]
        if any(one.finding is RecordedFate.UNKNOWN for one in found):
            return  # nothing is recorded on a guess
        self._note_loss(found)
        self._record(self._evidence(facts, found))
        if self._struck:
            rows = [{"token": token, "comm": None} for token in self._struck]
            self._journal.record(Kind.MEMBERS_SEEN, members=rows)
        crash_point("adopter.recorded")
        if root is not None and root.held is not None and not facts.attempt.is_exec_confirmed:
            began = became_command(root.held, self._exec_seconds())
            if began is False:
                child_exit = exits.exit_of_stranger(root.held)
                self._end_as(conclusion.end_before_exec(facts, child_exit))
                return
            if began:
                self._confirm(facts.attempt.number)
        if not any(one.finding is RecordedFate.ALIVE for one in found):
            # Ended before adoption: only a scheduled restart is honoured.
            self._was_over = not self._struck
            self.supervisor.restarting.policy = RestartPolicy(0)
            self.supervisor.restarting.limit = None
            self.supervisor.oom.began_late = True
        self._restore(facts, root, workload)
        self._supervise(self._go_on)

    def _exec_seconds(self) -> float:
        """How long an exec may take: a child whose shim died in its setup stops that first."""
        has_setup = bool((self.supervisor.spec.worktree or {}).get("setup"))
        return _SETUP_ENDS_SECONDS if has_setup else EXEC_SECONDS

    def _wait_on(self, asked_to_stop: bool) -> None:
        """A queued run waits again, at its place; one that was cancelled ends."""
        facts, supervisor = self._journal.facts, self.supervisor
        self._record(conclusion.join(("its shim died while it waited", self._last_words())))
        crash_point("adopter.recorded")
        if facts.stop_cause is not None:
            supervisor.stop_cause = facts.stop_cause
            self._supervise(supervisor.finish)
        elif asked_to_stop:
            self._supervise(lambda: self._stop(self._request["stop"]))
        else:
            supervisor.wait_to_begin()
            supervise(supervisor)

    def _do_restart(self, asked_to_stop: bool) -> None:
        """Start the due restart now; a usage-limit wait keeps its time.

        A stop request cancels both.
        """
        facts, restarting = self._journal.facts, self.supervisor.restarting
        is_limit = facts.limit_wait is not None
        died = "its shim died while it waited for a usage limit"
        self._record(died if is_limit else "the shim died before a restart that was due")
        crash_point("adopter.recorded")
        self._set_attempt(AttemptEnd(root_exit=facts.attempt.exit))
        if asked_to_stop:
            self._supervise(lambda: self._stop(self._request["stop"]))
        else:
            self._supervise(restarting.wait_on if is_limit else lambda: restarting.begin(0))

    def _note_loss(self, found: list[FoundProcess]) -> None:
        """Why its ending is lost, by the last of them: the workload where there is one."""
        if found and not any(one.finding is RecordedFate.ALIVE for one in found):
            self.supervisor.loss = conclusion.loss_of(found[-1].look)
            self.supervisor.vouched = any(one.vouched for one in found)

    def _confirm(self, attempt: int) -> None:
        # Where a later attempt's output began is not known: what is there now is not new.
        log_bytes = log_size(self.supervisor.directory) if attempt > 1 else 0
        self._journal.record(Kind.RUNNING, attempt=attempt, log_bytes=log_bytes)

    def _set_attempt(
        self,
        end: AttemptEnd,
        root: HeldProcess | None = None,
        workload: HeldProcess | None = None,
    ) -> None:
        supervisor, number = self.supervisor, self._journal.facts.attempt.number
        supervisor.attempt = Attempt(supervisor, number, end, root=root, workload=workload)

    def _end_as(self, end: AttemptEnd) -> None:
        """The command of the latest attempt never ran."""
        self._set_attempt(end)
        self._supervise(self.supervisor.finish)

    def _find(self, identity: ProcessIdentity | None) -> FoundProcess | None:
        if identity is None:
            return None
        gone = bool(self._request.get("other_namespaces_gone"))
        found = find(identity, other_namespaces_gone=gone)
        kept = self._kept.get(identity.token)
        if found.finding is RecordedFate.ENDED and found.held is None and kept is not None:
            return found.replace(held=kept)  # held since before its end: the status can be read
        return found

    def _record(self, evidence: str) -> None:
        facts = self._journal.facts
        evidence = conclusion.join((evidence, self._missing_secrets()))
        self._journal.record(
            Kind.SUPERVISED,
            shim=ProcessIdentity.current().to_json(),
            how="adopted",
            previous_shim=None if facts.shim is None else facts.shim.to_json(),
            evidence=evidence,
        )
        self.supervisor.evidence.append(evidence)

    def _missing_secrets(self) -> str:
        """Why a restart would fail: the secret file can't be read.

        A live process has its secrets.
        """
        path = self.supervisor.spec.wanted.secret_env_file
        if path is None or os.access(path, os.R_OK):
            return ""
        return f"its --secret-env-file {path} can't be read: it can't be restarted without it"

    def _restore(
        self, facts: RunFacts, root: FoundProcess | None, workload: FoundProcess | None
    ) -> None:
        held_root = None if root is None else root.held
        held_workload = None if workload is None else workload.held
        end = conclusion.end_unwatched(
            facts,
            root_is_unseen=root is not None and held_root is None,
            workload_is_found=held_workload is not None,
        )
        self._set_attempt(end, held_root, held_workload)
        self.supervisor.stop_cause = facts.stop_cause
        for process in facts.named_processes():
            self.supervisor.tree.add(process)

    def _go_on(self) -> None:
        supervisor = self.supervisor
        supervisor.attempt.watch()
        supervisor.begin_watching()
        supervisor.guarded("notice", lambda: supervisor.tell("orphan"))
        if not supervisor.attempt.is_dead:
            self._ready()  # else it is over: the client waits for the recorded ending
        if supervisor.journal.facts.paused is not None and not supervisor.attempt.has_run_out:
            supervisor.pausing().resume()
        if self._request.get("stop") is not None and not self._was_over:
            self._stop(self._request["stop"])
        elif supervisor.stop_cause is not None:
            # A stop was under way when the shim died: go on with it.
            supervisor.resume_stop()
        else:
            supervisor.proceed()

    def _stop(self, stop: dict[str, Any]) -> None:
        # It may have been signalled before we had the lock: then no exit was recorded first.
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

    def _evidence(self, facts: RunFacts, found: list[FoundProcess]) -> str:
        shim = facts.shim
        return conclusion.explain_takeover(
            None if shim is None else f"shim {shim.pid} {shim.verdict().value}",
            self._last_words(),
            [one.look for one in found],
            loss=self.supervisor.loss,
            last_seen_at=self.supervisor.last_seen_at,
            is_over=not any(one.held for one in found),
        )

    def _last_words(self) -> str:
        return conclusion.explain_failure(read_reason(self.supervisor.directory.path))
