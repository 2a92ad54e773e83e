"""How a run stands, and ended, where only a look at its processes can tell. For readers.

They take no lock and write nothing. What is derived and not yet recorded says so, and is what an
adopter would record now: it looks where an adopter looks, and concludes by the same rules.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, IdentityUnproven
from holdfast.manage.state import Standing, unknown
from holdfast.process import this_host
from holdfast.process.held import has_execed, hold_remains
from holdfast.process.identity import ProcessIdentity
from holdfast.process.oom import verdict_afterwards
from holdfast.process.verdict import Verdict
from holdfast.run import conclusion, exits
from holdfast.run.facts import NOT_SEEN, AttemptEnd, State
from holdfast.run.last_words.crash_note import read_reason
from holdfast.run.signal_log import was_sent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import HeldProcess
    from holdfast.process.verdict import Look
    from holdfast.run.conclusion import Conclusion
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

_DYING_SECONDS = 0.2  # a dying process loses its locks just before its end can be seen


def with_shim(facts: RunFacts) -> Standing:
    """The lock is held: look at its holder, and at what it supervises."""
    state = State(facts.phase.value)
    if facts.shim is None:
        return Standing(state, None, "a shim holds the lock and is starting", {})
    looks = _look_at(facts.shim, facts.attempt.workload_identity or facts.attempt.root)
    shim, *rest = conclusion.explain_looks(facts, looks)
    if looks[facts.shim.token].is_gone:
        said = ["the run is being taken over: its lock is held", shim, *rest]
        return Standing(state, None, "; ".join(said), looks)
    return Standing(state, None, "; ".join([f"{shim} holds the lock", *rest]), looks)


def without_shim(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> Standing:
    """The lock is free and no ending is recorded."""
    if facts.waits_to_begin:
        return _waiting_without_shim(spec, facts)
    if conclusion.is_restart_due(facts, this_host.place().boot_id):
        return _restart_due(facts)
    if facts.attempt.root is None:
        return _never_started(directory, spec, facts)
    return _unsupervised(directory, spec, facts)


def _waiting_without_shim(spec: RunSpec, facts: RunFacts) -> Standing:
    """An adopter sets it waiting again, unless it was cancelled."""
    looks = _look_at(facts.shim)
    said = [conclusion.NOT_LOCKED, *conclusion.explain_looks(facts, looks)]
    if facts.stop_cause is not None:
        ended = conclusion.conclude(spec, facts, AttemptEnd(), stop_cause=facts.stop_cause)
        return _unrecorded(ended, said, looks)
    due = "its shim is gone while it waits: `holdfast recover` sets it waiting again"
    return Standing(State.QUEUED, None, "; ".join([*said, due]), looks)


def _restart_due(facts: RunFacts) -> Standing:
    looks = _look_at(facts.shim)
    said = [conclusion.NOT_LOCKED, *conclusion.explain_looks(facts, looks)]
    due = "a restart was due: `holdfast recover` does it"
    if facts.limit_wait is not None:
        due = "it waits for a usage limit: `holdfast recover` sets it waiting again"
    return Standing(State.STARTING, None, "; ".join([*said, due]), looks)


def _never_started(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> Standing:
    launcher, reason = ProcessIdentity.from_json(spec.launcher), read_reason(directory.path)
    look = launcher.look()
    # A launcher that lives waits for a shim, unless that has failed already.
    if look.verdict is Verdict.SAME and facts.shim is None and reason is None:
        return Standing(State.STARTING, None, f"launcher {launcher.pid} SAME is starting it", {})
    if look.verdict is Verdict.UNKNOWN:
        return unknown(f"{conclusion.NOT_LOCKED}; {look.evidence}")
    ended = conclusion.conclude(spec, facts, conclusion.end_without_command())
    said = [f"{conclusion.NOT_LOCKED} and no command was started"]
    return _unrecorded(ended, [*said, conclusion.explain_failure(reason)], {})


def _unsupervised(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> Standing:
    """The lock is free and no ending is recorded: look at the processes that the record names."""
    root, workload = conclusion.root_without_exit(facts), conclusion.workload_without_exit(facts)
    looks = _look_at(facts.shim, root, workload)
    said = [conclusion.NOT_LOCKED, *conclusion.explain_looks(facts, looks)]
    if facts.shim is not None and looks[facts.shim.token].verdict is Verdict.SAME:
        if not _is_ending(facts.shim):
            return _copy(directory, facts.shim, "; ".join(said), looks)
        return _unsupervised(directory, spec, facts)
    seen = [looks[one.token] for one in (root, workload) if one is not None]
    verdicts = [look.verdict for look in seen]
    if Verdict.SAME in verdicts:
        return Standing(State.ORPHANED, None, "; ".join(said), looks)
    if Verdict.UNKNOWN in verdicts:
        return unknown("; ".join(said), looks)
    ended = _derive_ending(directory, spec, facts, seen[-1] if seen else None)
    return _unrecorded(ended, said, looks)


def _unrecorded(ended: Conclusion, said: list[str], looks: dict[str, Look]) -> Standing:
    """It is over as far as can be seen; the adopter that takes the run over records that."""
    evidence = conclusion.join((*said, ended.evidence)) + " (not yet recorded)"
    return Standing(
        State.ENDED, ended.outcome, evidence, looks, ending=ended.as_dict(), is_recorded=False
    )


def _copy(
    directory: RunDirectory, shim: ProcessIdentity, said: str, looks: dict[str, Look]
) -> Standing:
    """The run's shim lives, and the lock that it holds is not this directory's."""
    home = _home_of(shim, f"/runs/{directory.id}/lock")
    said += ": its shim lives and holds another lock: a copy"
    if home is None:
        hint = "act on it in the home that this one was copied from"
        return unknown(f"{said}?", looks, hint)
    return unknown(
        f"{said} of the run in {home}",
        looks,
        f"HOLDFAST_HOME={home} holdfast status {directory.id}",
    )


def _home_of(shim: ProcessIdentity, lock: str) -> str | None:
    """The home of the run that a shim has open; None: it can't be seen."""
    from holdfast.process import procfs
    from holdfast.process.held import hold_here

    try:
        with hold_here(shim) as held:
            paths = procfs.open_paths(held.identity.pid)
            found = [] if held.has_exited() else [one for one in paths if one.endswith(lock)]
    except (HoldfastError, OSError):
        return None
    return found[0].removesuffix(lock) if found else None


def _is_ending(shim: ProcessIdentity) -> bool:
    """Whether a shim that no longer holds its lock is gone within a moment."""
    try:
        return shim.wait(_DYING_SECONDS)
    except IdentityUnproven:  # the next look says so
        return True


def _look_at(*recorded: ProcessIdentity | None) -> dict[str, Look]:
    """One look at each recorded process, by token."""
    return {one.token: one.look() for one in dict.fromkeys(recorded) if one is not None}


def _derive_ending(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, look: Look | None
) -> Conclusion:
    """How the run ended.

    `look`: at the workload, or at the root where that is the one that ended unseen.
    """
    before = _end_before_exec(facts)
    end = before or _end_by_remains(facts)
    own = end.own_exit or NOT_SEEN
    return conclusion.conclude(
        spec,
        facts,
        end,
        stop_cause=None if before else facts.stop_cause,
        oom_killed=verdict_afterwards(own.signal, own.exit_code),
        signalled_by_us=_is_signalled_by_us(directory, facts, end),
        loss=conclusion.loss_of(look),
    )


def _end_before_exec(facts: RunFacts) -> AttemptEnd | None:
    remains = (
        None if facts.attempt.is_exec_confirmed else _hold(conclusion.root_without_exit(facts))
    )
    if remains is None:
        return None
    with remains:
        if has_execed(remains) is not False:
            return None
        return conclusion.end_before_exec(facts, exits.exit_of_stranger(remains))


def _end_by_remains(facts: RunFacts) -> AttemptEnd:
    root = conclusion.root_without_exit(facts)
    root_remains, workload = _hold(root), _hold(conclusion.workload_without_exit(facts))
    end = conclusion.end_unwatched(
        facts,
        root_is_unseen=root is not None and root_remains is None,
        workload_is_found=workload is not None,
    )
    if root_remains is not None:
        with root_remains:
            end = end.replace(root_exit=exits.exit_of_stranger(root_remains))
    if workload is not None:
        with workload:
            end = end.replace(workload_exit=exits.exit_of_stranger(workload) or NOT_SEEN)
    return end


def _hold(identity: ProcessIdentity | None) -> HeldProcess | None:
    return None if identity is None else hold_remains(identity)


def _is_signalled_by_us(directory: RunDirectory, facts: RunFacts, end: AttemptEnd) -> bool:
    signal = None if end.own_exit is None else end.own_exit.signal
    latest = facts.attempt
    recorded = latest.workload_identity if end.workload_outlived_root else latest.root
    if signal is None or recorded is None:
        return False
    return was_sent(directory.read_signals(), recorded.token, signal)
