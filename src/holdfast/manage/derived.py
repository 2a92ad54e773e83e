"""The ending that an adopter would record now, for readers: they take no lock and write nothing.

Only for a run whose root and workload are proven gone. It looks where an adopter looks
(`shim/adopt.py`), at the recorded exits and at what a zombie shows, and concludes with the same
function (`shim/ending.py`): tests/system/test_D2_derived_endings.py compares both.
"""

from __future__ import annotations

from holdfast.process.identity import ProcessIdentity
from holdfast.process.proc_oom import verdict_afterwards
from holdfast.process.remains import has_execed, hold_remains
from holdfast.record import Record
from holdfast.run.outcomes import Outcome
from holdfast.shim import exits
from holdfast.shim.ending import conclude, explain
from holdfast.shim.found import loss_of
from holdfast.shim.journal import was_sent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.identity import HeldProcess
    from holdfast.process.verdict import Look
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.outcomes import StopCause
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_NEVER_BEGAN: dict[str, Any] = {"exit_code": 125}


class _Over(Record):
    """How root and workload ended, as far as that can be told."""

    root_exit: exits.ExitFacts | None = None
    workload_exit: exits.ExitFacts | None = None
    workload_outlived: bool = False
    failure: Json | None = None
    stop_cause: StopCause | None = None


def derive_never_started(spec: RunSpec, facts: RunFacts) -> Json:
    """No command was started, and nobody is there to start it."""
    return conclude(spec, facts, own=exits.NOT_SEEN, failure=_NEVER_BEGAN)


def derive_ending(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, look: Look | None
) -> tuple[Json, str]:
    """The `ended` facts that follow from rules, and the sentence that says why.

    `look`: at the workload, or at the root where that is the one that ended unseen.
    """
    over = _look(facts)
    own = over.workload_exit if over.workload_outlived else over.root_exit
    own = own or exits.NOT_SEEN
    subject = (facts.workload if over.workload_outlived else facts.root) or {}
    ending = conclude(
        spec,
        facts,
        own=own,
        root_exit=over.root_exit,
        workload_exit=over.workload_exit,
        failure=over.failure,
        stop_cause=over.stop_cause,
        oom_killed=verdict_afterwards(own.signal, own.exit_code),
        signalled_by_us=own.signal is not None
        and was_sent(directory.read_signals(), subject["token"], own.signal),
        loss=loss_of(look),
    )
    if ending["outcome"] is Outcome.NEVER_STARTED:
        return ending, str((over.failure or {}).get("error") or "")
    return ending, explain(own, "workload" if over.workload_outlived else "root")


def _look(facts: RunFacts) -> _Over:
    over = _Over(
        exits.from_event(facts.root_exit),
        exits.from_event(facts.workload_exit),
        facts.workload_outlived_root,
        facts.exec_failure,
        facts.stop_cause,
    )
    root_is_unseen = False
    if facts.root is not None and facts.root_exit is None and facts.exec_failure is None:
        remains = hold_remains(ProcessIdentity.from_json(facts.root))
        root_is_unseen = remains is None
        if remains is not None:
            with remains:
                if not facts.is_exec_confirmed and has_execed(remains) is False:
                    return _before_exec(facts, remains)
                over = over.replace(root_exit=exits.exit_of_stranger(remains))
    workload_exit = _remains_of_workload(facts)
    if workload_exit is None:
        return over
    # A root that nobody saw end can't tell the code: then the workload's is the run's.
    outlived = root_is_unseen or (facts.workload_outlives_root and facts.root_exit is not None)
    return over.replace(workload_exit=workload_exit, workload_outlived=outlived)


def _before_exec(facts: RunFacts, remains: HeldProcess) -> _Over:
    """The shim died before the command was let go: the run ended as its last real attempt did."""
    if facts.attempt <= 1:
        ended = exits.exit_of_stranger(remains) or exits.NOT_SEEN
        return _Over(failure={"exit_code": ended.exit_code or 125, "error": exits.NEVER_LET_GO})
    return _Over(exits.exit_of_attempt(facts.attempts[-2]))


def _remains_of_workload(facts: RunFacts) -> exits.ExitFacts | None:
    if facts.workload is None or facts.workload_exit is not None:
        return None
    if facts.root is not None and facts.workload["token"] == facts.root["token"]:
        return None
    remains = hold_remains(ProcessIdentity.from_json(facts.workload))
    if remains is None:
        return None
    with remains:
        return exits.exit_of_stranger(remains) or exits.NOT_SEEN
