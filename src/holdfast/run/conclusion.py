"""How a run ended: facts in, conclusion out. Pure: no OS, clock or I/O.

The shim that saw the end, the adopter that takes over later and a reader that records nothing
all conclude here, so they agree (tests/system/test_D2_derived_endings.py). The sentences of
`evidence` are made here from facts, and are for people alone.
"""

from __future__ import annotations

from holdfast.process.signals import signal_name
from holdfast.process.verdict import Proof, Verdict
from holdfast.record import Record
from holdfast.run.facts import NOT_SEEN, AttemptEnd
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause, decide_outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.verdict import Look
    from holdfast.run.facts import ExitFacts, RunFacts
    from holdfast.run.outcomes import Ending
    from holdfast.run.spec import RunSpec

OWN_EXIT_CODE = 125  # of a run whose command Holdfast did not start
NEVER_LET_GO = "the shim died before it could start the command: it never ran"
NOT_STARTED = "the shim or its launcher died before the command was started"
NOT_LOCKED = "the lock is free"


class Conclusion(Record):
    """What an `ended` event says about how the run ended, in the event's order."""

    outcome: Outcome
    exit_code: int | None
    signal: int | None
    workload_exit_code: int | None
    core_dumped: bool | None
    oom_killed: bool | None
    ended_by: EndedBy
    loss: Loss | None
    vouched: bool
    stop_reason: StopCause | None
    evidence: str


# --- what is recorded ------------------------------------------------------------------


def root_without_exit(facts: RunFacts) -> ProcessIdentity | None:
    """The root, if no end of it is recorded: it may be alive."""
    latest = facts.attempt
    return latest.root if latest.root_exit is None and latest.exec_failure is None else None


def workload_without_exit(facts: RunFacts) -> ProcessIdentity | None:
    """The workload, if it is not the root and no end of it is recorded."""
    latest = facts.attempt
    if latest.workload_exit is not None or latest.workload_is_root:
        return None
    return latest.workload_identity


def is_restart_due(facts: RunFacts, boot_id: str | None) -> bool:
    """Whether a restart was scheduled in this boot, which only an adopter can do now.

    After a reboot it is not: what was scheduled before is over, as everything else is.
    """
    if facts.attempt.restart is None or facts.stop_cause is not None or facts.shim is None:
        return False
    return facts.shim.boot_id == boot_id


def end_unwatched(facts: RunFacts, *, root_is_unseen: bool, workload_is_found: bool) -> AttemptEnd:
    """The latest attempt of a run that was for a time without a shim.

    `root_is_unseen`: the root ended, and nothing is left that shows how. `workload_is_found`: it
    is alive or a zombie, and not the root.
    """
    latest = facts.attempt
    outlives, outlived = latest.workload_outlives_root, latest.workload_outlived_root
    if workload_is_found:
        # A root whose end was not seen can't tell the code: then the workload's is the run's.
        outlives = outlives or root_is_unseen
        outlived = outlives and (root_is_unseen or latest.root_exit is not None)
    return AttemptEnd(
        root_exit=NOT_SEEN if root_is_unseen else latest.root_exit,
        workload_exit=latest.workload_exit,
        failure_code=None if latest.exec_failure is None else latest.exit_code or OWN_EXIT_CODE,
        workload_outlives_root=outlives,
        workload_outlived_root=outlived,
    )


def end_before_exec(facts: RunFacts, child_exit: ExitFacts | None) -> AttemptEnd:
    """The shim died before it let the latest child become the command.

    A run of which an earlier attempt did run ended as that one.
    """
    if facts.earlier_attempts:
        evidence = f"attempt {facts.attempt.number}: {NEVER_LET_GO}"
        return AttemptEnd(facts.earlier_attempts[-1].exit, evidence=evidence)
    code = (child_exit or NOT_SEEN).exit_code or OWN_EXIT_CODE
    return AttemptEnd(failure_code=code, evidence=NEVER_LET_GO)


def end_without_command() -> AttemptEnd:
    """No child was ever made for the command."""
    return AttemptEnd(failure_code=OWN_EXIT_CODE)


# --- what follows ----------------------------------------------------------------------


def conclude(
    spec: RunSpec,
    facts: RunFacts,
    end: AttemptEnd,
    *,
    stop_cause: StopCause | None = None,
    oom_killed: bool | None = None,
    signalled_by_us: bool = False,
    loss: Loss = Loss.UNSEEN,
    vouched: bool = False,
    evidence: Iterable[str] = (),
) -> Conclusion:
    """How a run ended whose root and workload are proven gone.

    `loss` counts only where the outcome is lost; `evidence`: what is known beside the exits.
    """
    own, failure, latest = end.own_exit or NOT_SEEN, end.failure_code, facts.attempt
    ending = decide_outcome(
        stop_cause=stop_cause,
        exit_code=own.exit_code if failure is None else failure,
        signal=own.signal,
        exec_failed=failure is not None and latest.number <= 1,  # else it did start once
        is_error=bool((latest.completion or {}).get("is_error")),
        oom_killed=bool(oom_killed),
        signalled_by_us=signalled_by_us,
        over_budget=facts.gave_up_at_budget,
    )
    missed = ""
    if stop_cause is None and failure is None and _missed_workload(spec, facts, ending):
        stop_cause, ending = StopCause.REQUIRE_WORKLOAD, ending.replace(outcome=Outcome.FAILED)
        missed = _explain_missed(spec, facts)
    workload_exit = end.root_exit if latest.workload_is_root else end.workload_exit
    began = latest.number > 0 and ending.outcome is not Outcome.NEVER_STARTED
    exited = explain_exit(own, end.subject) if began else ""
    return Conclusion(
        outcome=ending.outcome,
        exit_code=ending.exit_code,
        signal=ending.signal,
        workload_exit_code=None if workload_exit is None else workload_exit.exit_code,
        core_dumped=own.core_dumped,
        oom_killed=oom_killed,
        ended_by=ending.ended_by,
        loss=loss if ending.outcome is Outcome.LOST else None,
        vouched=vouched,
        stop_reason=stop_cause,
        evidence=join((*evidence, end.evidence, missed, exited)),
    )


def loss_of(look: Look | None) -> Loss:
    """Why it is not known how a process ended that a look shows to be gone."""
    if look is not None and look.proof is Proof.BOOT:
        return Loss.REBOOT
    if look is not None and look.verdict is Verdict.RECYCLED:
        return Loss.RECYCLED
    return Loss.UNSEEN


def _missed_workload(spec: RunSpec, facts: RunFacts, ending: Ending) -> bool:
    """Whether it exited by itself before the workload that was required was ever seen."""
    missed = spec.wanted.require_workload and facts.attempt.workload is None
    return missed and ending.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)


# --- the sentences ---------------------------------------------------------------------


def join(sentences: Iterable[str]) -> str:
    """One line of evidence."""
    return "; ".join(text for text in sentences if text)


def explain_exit(own: ExitFacts, subject: str) -> str:
    """How it ended, and how that is known."""
    if own.exit_code is not None:
        return f"{subject} exited {own.exit_code} (seen by {own.how})"
    if own.signal is not None:
        return f"{subject} ended by {signal_name(own.signal)} (seen by {own.how})"
    return f"how the {subject} ended was not seen"


def explain_looks(facts: RunFacts, looks: Mapping[str, Look]) -> list[str]:
    """What looking at shim, workload and root showed, by token."""
    latest = facts.attempt
    root = None if latest.workload_is_root else latest.root
    named = (("shim", facts.shim), ("workload", latest.workload_identity), ("root", root))
    return [
        f"{word} {_explain_look(identity.pid, looks[identity.token])}"
        for word, identity in named
        if identity is not None and identity.token in looks
    ]


def _explain_look(pid: int, look: Look) -> str:
    proof = f" ({look.proof.value})" if look.proof and look.verdict is Verdict.SAME else ""
    is_plain = look.verdict in (Verdict.SAME, Verdict.GONE) and look.proof is not Proof.BOOT
    return f"{pid} {look.verdict.value}{proof}" + ("" if is_plain else f": {look.evidence}")


def explain_takeover(
    shim: str | None,
    failure: str,
    looks: Iterable[Look],
    *,
    loss: Loss,
    last_seen_at: str | None,
    is_over: bool,
) -> str:
    """Why an adopter took over, and what it found of root and workload (`looks`)."""
    last_seen = f"last seen alive at {last_seen_at}"
    if loss is Loss.REBOOT:
        return f"lost to a reboot: {last_seen}"
    found = [look.evidence for look in looks]
    before = () if shim is None else (shim, failure)
    return join((*before, *found, last_seen if found and is_over else ""))


def explain_failure(reason: str | None) -> str:
    """Why the last shim failed, if it left a note."""
    return "" if reason is None else f"a shim failed: {reason}"


def _explain_missed(spec: RunSpec, facts: RunFacts) -> str:
    name = spec.wanted.workload or spec.agent or "that was required"
    pid = None if facts.attempt.root is None else facts.attempt.root.pid
    return f"no workload {name} was ever seen below root {pid}, which ended by itself"
