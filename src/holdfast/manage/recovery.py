"""Looks at every run whose shim is gone: has it adopted or recorded, or reports it as unknown.

Nothing is recorded here: an adopter takes the run's lock, looks and records, so of two recoveries
at once only one acts. Processes that merely carry a run's stamp are reported, never signalled.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion, RunNotFound
from holdfast.lean import StrEnum
from holdfast.manage.adopting import Adopting, is_being_launched
from holdfast.manage.info import claimed_name
from holdfast.manage.starting.launch import start_shim
from holdfast.manage.state import RunView, view_run
from holdfast.manage.stopping import stop_run
from holdfast.manage.suspects import Suspects
from holdfast.manage.together import together
from holdfast.manage.vanished import find_remains
from holdfast.process import this_host
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import RunFacts, State
from holdfast.run.names import id_seconds
from holdfast.run.outcomes import Loss, Outcome
from holdfast.run.trust import doubt_origin, has_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.run.home import Home

    Json = dict[str, Any]

_AT_ONCE = 8
_EMPTY_SECONDS = 60.0  # a directory that is still without a spec after that will never have one


class Action(StrEnum):
    """What became of a run without a shim."""

    ADOPTED = "adopted"
    RESTARTED = "restarted"  # a restart was due
    WAITING = "waiting again"  # its shim was gone; it is queued, or waits for a usage limit
    STOPPED = "stopped"  # an orphan, on request
    RECORDED = "recorded"  # an ending that is proven
    LOST = "lost"
    NEVER_STARTED = "never started"
    CLEARED = "cleared"  # the ending was recorded; what its shim did not do after it is done
    REMOVED = "removed"  # a directory that never became a run
    STARTING = "starting"  # its launcher is at work
    UNKNOWN = "unknown"
    UNTOUCHED = "not taken over"  # another recovery did, or the adopter died: look again
    ENDED = "ended"  # before; listed because of its suspects
    ABANDONED = "abandoned"  # removed by force, while some of it could not be killed
    FORGOTTEN = "forgotten"  # the same, and they have gone since
    RESUMED = "resumed"  # an agent that a reboot ended goes on, on request
    NOT_RESUMED = "not resumed"


_SUPERVISED = (Action.ADOPTED, Action.RESTARTED, Action.WAITING)
_OVER = (Action.STOPPED, Action.RECORDED, Action.LOST, Action.NEVER_STARTED, Action.CLEARED)


class Recovered(Record):
    """One run that was looked at, what was done, and why."""

    id: str
    name: str | None
    action: Action
    evidence: str
    outcome: Outcome | None = None
    exit_code: int | None = None
    shim: Json | None = None  # IDENTITY of the one that supervises it now
    workload: Json | None = None
    signals: int = 0  # that were sent
    loss: Loss | None = None
    resumed_as: str | None = None  # the id of the run that goes on with its session
    suspects: tuple[Json, ...] = ()

    def to_json(self) -> Json:
        """For `recover --json`."""
        return {**self.as_dict(), "suspects": list(self.suspects)}


class RecoverRequest(Record):
    """What the user asked for, or vouches for."""

    dry_run: bool = False
    stop_orphans: bool = False
    other_namespaces_gone: bool = False


def recover_all(
    home: Home,
    *,
    dry_run: bool = False,
    stop_orphans: bool = False,
    other_namespaces_gone: bool = False,
    tell: Callable[[int, int], None] | None = None,
) -> Steps[list[Recovered]]:
    """Every run that needed looking at, oldest first, and what became of it. `tell` hears how many
    of how many were looked at."""
    if not home.check():
        return []
    word = RecoverRequest(dry_run, stop_orphans, other_namespaces_gone)
    directories = [RunDirectory(home, run_id) for run_id in _unfinished(home)]
    operations = [_guarded(directory, word) for directory in directories]
    if tell is not None:
        operations = _counted(operations, tell)
    found = yield from together(operations, _AT_ONCE)
    recovered: list[Recovered] = [
        _kept(directory, one) if isinstance(one, HoldfastError) else one
        for directory, one in zip(directories, found, strict=True)
        if one is not None
    ]
    if not dry_run:
        from holdfast.manage.removal.remove import sweep

        sweep(home)
    found_now = [*_with_suspects(home, recovered), *_leftover_worktrees(home, dry_run)]
    return [*found_now, *_abandoned(home, dry_run)]


def _counted(
    operations: list[Steps[Recovered | None]], tell: Callable[[int, int], None]
) -> list[Steps[Recovered | None]]:
    done = iter(range(1, len(operations) + 1))

    def one(steps: Steps[Recovered | None]) -> Steps[Recovered | None]:
        try:
            return (yield from steps)
        finally:
            tell(next(done), len(operations))

    return [one(steps) for steps in operations]


def recover_run(directory: RunDirectory) -> Steps[Recovered | None]:
    """One run; None: it is supervised, or its ending is recorded."""
    return _guarded(directory, RecoverRequest())


def _unfinished(home: Home) -> list[str]:
    """Marked as active, or without the summary that follows an ending."""
    marked = set(home.run_ids(active=True))
    every = sorted({*home.run_ids(), *marked})
    return [i for i in every if i in marked or not has_summary(RunDirectory(home, i))]


def _guarded(directory: RunDirectory, word: RecoverRequest) -> Steps[Recovered | None]:
    try:
        try:
            return (yield from _recover(directory, word))
        except RunNotFound:
            return _look_without_spec(directory, word)
    except (HoldfastError, OSError) as error:
        return _kept(directory, error)


def _kept(directory: RunDirectory, error: Exception) -> Recovered:
    evidence = f"{error}: kept, untouched"
    return Recovered(directory.id, claimed_name(directory), Action.UNKNOWN, evidence)


def _recover(directory: RunDirectory, word: RecoverRequest) -> Steps[Recovered | None]:
    view = view_run(directory, members=False, closely=False)
    if view.is_final:
        return (yield from _clear(view, word))
    if directory.lock_is_held():
        return None  # supervised
    request = _request(view, word)
    if request is None:
        return _reported(view, Action.UNKNOWN)
    if word.dry_run:
        return _reported(view, _expected(view, word))
    sent_before, is_ours = len(directory.read_signals()), True
    if view.standing.state is State.ORPHANED and word.stop_orphans:
        yield from stop_run(directory)
    elif is_being_launched(view):
        if not (yield from Adopting(directory).adopt_unless_starting(view.spec.name)):
            return _reported(view, Action.STARTING)
    else:
        is_ours = (yield from start_shim("adopt", directory.path, request)) == ""
    return _became(view, sent_before, is_ours)


def _clear(view: RunView, word: RecoverRequest) -> Steps[Recovered | None]:
    """The ending is recorded; its shim died before the summary, or before the marker was moved."""
    directory, spec = view.directory, view.spec
    is_clear = has_summary(directory) and not directory.is_marked_active()
    alien = doubt_origin(directory, spec) is not None
    if is_clear or alien or directory.lock_is_held():
        return None
    if not word.dry_run:
        yield from start_shim("adopt", directory.path)
    did, why = Action.CLEARED, "its ending was recorded"
    if not word.dry_run and directory.is_marked_active() and not directory.lock_is_held():
        did = Action.UNTOUCHED
        why = f"{why}, and its marker in active/ can't be removed"
    return Recovered(directory.id, spec.name, did, why, outcome=view.facts.outcome)


def _request(view: RunView, word: RecoverRequest) -> Json | None:
    """The adopter's request; None: it must not try."""
    facts, spec = view.facts, view.spec
    if view.standing.state is not State.UNKNOWN:
        return {}
    if not word.other_namespaces_gone or doubt_origin(view.directory, spec) is not None:
        return None
    root = facts.attempt.root or ProcessIdentity.from_json(spec.launcher)
    for identity in (root, facts.attempt.workload_identity):
        if identity is None:
            continue
        if identity.verdict() is Verdict.UNKNOWN and not this_host.is_elsewhere(identity):
            return None
    return {"other_namespaces_gone": True}


def _expected(view: RunView, word: RecoverRequest) -> Action:
    """What would be done."""
    state, facts = view.standing.state, view.facts
    if state is State.UNKNOWN:
        return Action.LOST if facts.attempt.root is not None else Action.NEVER_STARTED
    if state is State.QUEUED:
        return Action.WAITING
    if state is State.STARTING:
        due = Action.RESTARTED if facts.limit_wait is None else Action.WAITING
        return Action.STARTING if is_being_launched(view) else due
    if state is State.ORPHANED:
        return Action.STOPPED if word.stop_orphans else Action.ADOPTED
    return _BY_OUTCOME.get(view.standing.outcome or Outcome.LOST, Action.RECORDED)


def _became(before: RunView, sent_before: int, is_ours: bool) -> Recovered | None:
    """What the adopter made of it: it was ready, or gone, before this look. None: one that another
    recovery started at the same time supervises it."""
    view = view_run(before.directory, since=before, members=False)
    if not view.facts.has_ended and not view.directory.lock_is_held():
        view = view_run(before.directory, since=view, members=False)  # it may have ended since
    action = _action(view, before.facts)
    if action in _SUPERVISED and not is_ours:
        return None
    sent = view.directory.read_signals()[sent_before:]
    delivered = sum(1 for row in sent if row.get("fate") == "delivered")
    return _reported(view, action).replace(signals=delivered)


_BY_OUTCOME = {
    Outcome.LOST: Action.LOST,
    Outcome.NEVER_STARTED: Action.NEVER_STARTED,
    Outcome.STOPPED: Action.STOPPED,
}


def _action(view: RunView, before: RunFacts) -> Action:
    facts = view.facts
    if before.waits_to_begin and facts.attempt.number > before.attempt.number:
        return Action.WAITING  # it was admitted at once; it may even have ended
    if facts.has_ended:
        return _BY_OUTCOME.get(facts.outcome or Outcome.LOST, Action.RECORDED)
    if view.standing.state is State.UNKNOWN:
        return Action.UNKNOWN
    if not view.directory.lock_is_held() or facts.shim == before.shim:
        return Action.UNTOUCHED
    if before.waits_to_begin or facts.limit_wait is not None:
        return Action.WAITING
    return Action.RESTARTED if facts.attempt.number > before.attempt.number else Action.ADOPTED


def _reported(view: RunView, action: Action) -> Recovered:
    facts, standing, shim = view.facts, view.standing, view.facts.shim
    meant = facts.attempt.workload or facts.attempt.root
    supervised = action in _SUPERVISED and view.directory.lock_is_held()
    return Recovered(
        id=view.directory.id,
        name=view.spec.name,
        action=action,
        evidence=standing.evidence,
        outcome=standing.outcome,
        exit_code=(facts.ending or {}).get("exit_code"),
        shim=shim.to_json() if supervised and shim is not None else None,
        workload=None if meant is None else meant.to_json(),
        loss=(standing.ending or {}).get("loss"),
    )


def _look_without_spec(directory: RunDirectory, word: RecoverRequest) -> Recovered | None:
    remains = find_remains(directory)
    if remains is not None:
        name = claimed_name(directory)
        return Recovered(directory.id, name, Action.UNKNOWN, remains.evidence)
    return None if word.dry_run else _remove_empty(directory)


def _remove_empty(directory: RunDirectory) -> Recovered | None:
    """A launcher died between making the directory and writing what was asked."""
    try:
        changed = os.stat(directory.path).st_mtime
    except OSError:
        return None
    if time.time() - max(changed, id_seconds(directory.id)) < _EMPTY_SECONDS:
        return None
    from holdfast.manage.removal.remove import remove_unmade
    from holdfast.manage.worktrees.notes import is_being_made

    if is_being_made(directory.home, directory.id):
        return None  # a checkout can take long
    if not remove_unmade(directory):
        return None
    evidence = "a launcher died before it wrote what was asked; nothing was started"
    return Recovered(directory.id, None, Action.REMOVED, evidence)


def _leftover_worktrees(home: Home, dry_run: bool) -> list[Recovered]:
    """Worktrees that were made for runs that never came to be."""
    if not os.path.isdir(f"{home.path}/worktrees"):
        return []
    from holdfast.manage.worktrees.checkout import find_leftovers, remove_leftover

    told = []
    for leftover in find_leftovers(home):
        evidence = f"a worktree of {leftover.worktree.branch} whose launcher died"
        action = Action.UNKNOWN if leftover.lost else Action.REMOVED
        try:
            if leftover.lost:
                evidence += f"; kept: {'; '.join(leftover.lost)}"
            elif not dry_run:
                remove_leftover(home, leftover)
        except (HoldfastError, OSError) as error:
            action, evidence = Action.UNKNOWN, f"{evidence}; kept: {error}"
        told.append(Recovered(leftover.run_id, None, action, evidence))
    return told


def _abandoned(home: Home, dry_run: bool) -> list[Recovered]:
    """Processes of runs that were removed by force; those proven gone are forgotten."""
    from holdfast.manage.removal.abandoned import forget_gone, look_at_abandoned

    told = [
        Recovered(
            one.run,
            one.name,
            Action.FORGOTTEN if look.is_gone else Action.ABANDONED,
            f"removed by force at {one.at}; {one} {look.verdict.value}: {look.evidence}",
            workload={**one.identity.to_json(), "comm": one.comm},
        )
        for one, look in look_at_abandoned(home)
    ]
    if not dry_run:
        forget_gone(home)
    return told


def _with_suspects(home: Home, recovered: list[Recovered]) -> list[Recovered]:
    """Processes with the stamp of a run that has ended are reported, and left alone."""
    suspects = Suspects(home)
    told = [
        one.replace(suspects=tuple(suspects.of(one.id))) if one.action in _OVER else one
        for one in recovered
    ]
    looked_at = {one.id for one in recovered}
    for run_id in suspects.runs():
        if run_id in looked_at:
            continue
        try:
            view = view_run(RunDirectory(home, run_id), members=False, closely=False)
        except (LaterVersion, DamagedRecord, RunNotFound, OSError):  # not known to have ended
            continue
        strange = suspects.of(run_id) if view.standing.state is State.ENDED else []
        if strange:
            told.append(_reported(view, Action.ENDED).replace(suspects=tuple(strange)))
    return sorted(told, key=lambda one: one.id)
