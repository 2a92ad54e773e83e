"""Looks at every run whose shim is gone: has it adopted or recorded, or says unknown.

Nothing is recorded here: an adopter takes the run's lock, looks and records, so of two recoveries
at once only one acts. Processes that merely carry a run's stamp are told, never signalled.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion, LockBusy, RunNotFound
from holdfast.lean import StrEnum
from holdfast.manage.launch import start_shim
from holdfast.manage.standing import Standing, is_restart_due, stand
from holdfast.manage.steps import together
from holdfast.manage.stopping import stop_run
from holdfast.manage.suspects import suspects_by_run
from holdfast.manage.vanished import find_remains
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.claims import claim_name
from holdfast.run.directory import RunDirectory
from holdfast.run.doubts import doubt_origin, has_summary
from holdfast.run.facts import RunFacts, State
from holdfast.run.names import id_seconds
from holdfast.run.outcomes import Outcome
from holdfast.shim.found import is_elsewhere

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.steps import Steps
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_AT_ONCE = 8
_EMPTY_SECONDS = 60.0  # a directory that is still without a spec after that will never have one


class Action(StrEnum):
    """What became of a run that nobody supervised."""

    ADOPTED = "adopted"
    RESTARTED = "restarted"  # a restart was due
    STOPPED = "stopped"  # an orphan, on request
    RECORDED = "recorded"  # an ending that is proven
    LOST = "lost"
    NEVER_STARTED = "never started"
    CLEARED = "cleared"  # the ending was recorded; what its shim did not do after it is done
    REMOVED = "removed"  # a directory that never became a run
    STARTING = "starting"  # its launcher is at work
    UNKNOWN = "unknown"
    UNTOUCHED = "not taken over"  # somebody else did, or the adopter died: look again
    ENDED = "ended"  # before; only told because of its suspects
    ABANDONED = "abandoned"  # removed by force, while some of it could not be killed
    FORGOTTEN = "forgotten"  # the same, and they have gone since


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
    suspects: tuple[Json, ...] = ()

    def to_json(self) -> Json:
        """For `recover --json`."""
        return {**self.as_dict(), "suspects": list(self.suspects)}


class Word(Record):
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
) -> Steps[list[Recovered]]:
    """Every run that needed looking at, oldest first, and what became of it."""
    if not home.check():
        return []
    word = Word(dry_run, stop_orphans, other_namespaces_gone)
    operations = [_guarded(RunDirectory(home, run_id), word) for run_id in _unfinished(home)]
    found = yield from together(operations, _AT_ONCE)
    recovered: list[Recovered] = [one for one in found if isinstance(one, Recovered)]
    if not dry_run:
        from holdfast.manage.removal import sweep

        sweep(home)
    told = [*_with_suspects(home, recovered), *_leftover_worktrees(home, dry_run)]
    return [*told, *_abandoned(home, dry_run)]


def _unfinished(home: Home) -> list[str]:
    """Marked as active, or without the summary that follows an ending."""
    marked = set(home.run_ids(active=True))
    every = sorted({*home.run_ids(), *marked})
    return [i for i in every if i in marked or not has_summary(RunDirectory(home, i))]


def _guarded(directory: RunDirectory, word: Word) -> Steps[Recovered | None]:
    try:
        return (yield from _recover(directory, word))
    except RunNotFound:
        remains = find_remains(directory)
        if remains is not None:
            evidence = remains.evidence
            return Recovered(directory.id, _name_of(directory), Action.UNKNOWN, evidence)
        return None if word.dry_run else _remove_empty(directory)
    except (HoldfastError, OSError) as error:
        evidence = f"{error}: kept, untouched"
        return Recovered(directory.id, _name_of(directory), Action.UNKNOWN, evidence)


def _name_of(directory: RunDirectory) -> str | None:
    from holdfast.manage.info import read_run

    try:
        return read_run(directory).name
    except HoldfastError:
        return None


def _recover(directory: RunDirectory, word: Word) -> Steps[Recovered | None]:
    spec = directory.read_spec()
    facts, standing = stand(directory, spec)
    if facts.has_ended and standing.state is State.ENDED:
        return (yield from _clear(directory, spec, facts, word))
    if directory.lock_is_held():
        return None  # supervised
    request = _request(directory, spec, facts, standing, word)
    if request is None:
        return _told(directory, spec, facts, standing, Action.UNKNOWN)
    if word.dry_run:
        return _told(directory, spec, facts, standing, _expected(facts, standing, word))
    sent_before = len(directory.read_signals())
    if standing.state is State.ORPHANED and word.stop_orphans:
        yield from stop_run(directory)
    elif standing.state is State.STARTING and not is_restart_due(facts):
        if not (yield from _adopt_unless_starting(directory, spec.name)):
            return _told(directory, spec, facts, standing, Action.STARTING)
    else:
        yield from start_shim("adopt", directory.path, request)
    return _became(directory, spec, facts, sent_before)


def _clear(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, word: Word
) -> Steps[Recovered | None]:
    """The ending is recorded; its shim died before the summary, or before the marker was moved."""
    is_clear = has_summary(directory) and not directory.is_marked_active()
    alien = doubt_origin(directory, spec) is not None
    if is_clear or alien or directory.lock_is_held():
        return None
    if not word.dry_run:
        yield from start_shim("adopt", directory.path)
    return Recovered(
        spec.id, spec.name, Action.CLEARED, "its ending was recorded", outcome=facts.outcome
    )


def _adopt_unless_starting(directory: RunDirectory, name: str) -> Steps[bool]:
    """Its launcher lives. While it starts the run it holds the name; else it has given up."""
    try:
        claim = claim_name(directory.home, name, 0)
    except LockBusy:
        return False
    with claim:
        if not directory.lock_is_held():
            yield from start_shim("adopt", directory.path)
    return True


def _request(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, standing: Standing, word: Word
) -> Json | None:
    """What the adopter is told; None: it must not try."""
    if standing.state is not State.UNKNOWN:
        return {}
    if not word.other_namespaces_gone or doubt_origin(directory, spec) is not None:
        return None
    launcher = None if facts.root is not None else spec.launcher
    named = [one for one in (facts.root, facts.workload, launcher) if one is not None]
    for identity in map(ProcessIdentity.from_json, named):
        if identity.verdict() is Verdict.UNKNOWN and not is_elsewhere(identity):
            return None
    return {"other_namespaces_gone": True}


def _expected(facts: RunFacts, standing: Standing, word: Word) -> Action:
    """What would be done."""
    if standing.state is State.UNKNOWN:
        return Action.LOST if facts.root is not None else Action.NEVER_STARTED
    if standing.state is State.STARTING:
        return Action.RESTARTED if is_restart_due(facts) else Action.STARTING
    if standing.state is State.ORPHANED:
        return Action.STOPPED if word.stop_orphans else Action.ADOPTED
    return _BY_OUTCOME.get(standing.outcome or Outcome.LOST, Action.RECORDED)


def _became(
    directory: RunDirectory, spec: RunSpec, before: RunFacts, sent_before: int
) -> Recovered:
    facts, standing = stand(directory, spec)
    sent = directory.read_signals()[sent_before:]
    told = _told(directory, spec, facts, standing, _action(directory, facts, standing, before))
    delivered = sum(1 for row in sent if row.get("fate") == "delivered")
    return told.replace(signals=delivered)


_BY_OUTCOME = {
    Outcome.LOST: Action.LOST,
    Outcome.NEVER_STARTED: Action.NEVER_STARTED,
    Outcome.STOPPED: Action.STOPPED,
}


def _action(
    directory: RunDirectory, facts: RunFacts, standing: Standing, before: RunFacts
) -> Action:
    if facts.has_ended:
        return _BY_OUTCOME.get(facts.outcome or Outcome.LOST, Action.RECORDED)
    if standing.state is State.UNKNOWN:
        return Action.UNKNOWN
    if not directory.lock_is_held() or facts.shim == before.shim:
        return Action.UNTOUCHED
    return Action.RESTARTED if facts.attempt > before.attempt else Action.ADOPTED


def _told(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, standing: Standing, action: Action
) -> Recovered:
    ending = facts.ending or {}
    supervised = action in (Action.ADOPTED, Action.RESTARTED) and directory.lock_is_held()
    return Recovered(
        id=spec.id,
        name=spec.name,
        action=action,
        evidence=standing.evidence,
        outcome=standing.outcome,
        exit_code=ending.get("exit_code"),
        shim=facts.shim if supervised else None,
        workload=facts.workload or facts.root,
    )


def _remove_empty(directory: RunDirectory) -> Recovered | None:
    """A launcher died between making the directory and writing what was asked."""
    try:
        changed = os.stat(directory.path).st_mtime
    except OSError:
        return None
    if time.time() - max(changed, id_seconds(directory.id)) < _EMPTY_SECONDS:
        return None
    from holdfast.manage.removal import remove_unmade
    from holdfast.manage.worktree_notes import is_being_made

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
    from holdfast.manage.worktrees import find_leftovers, remove_leftover

    told = []
    for leftover in find_leftovers(home):
        evidence = f"a worktree of {leftover.worktree.branch} whose launcher died"
        action = Action.REMOVED if leftover.why_kept is None else Action.UNKNOWN
        try:
            if leftover.why_kept is not None:
                evidence += f"; kept: {leftover.why_kept}"
            elif not dry_run:
                remove_leftover(home, leftover)
        except HoldfastError as error:
            action, evidence = Action.UNKNOWN, f"{evidence}; kept: {error}"
        told.append(Recovered(leftover.run_id, None, action, evidence))
    return told


def _abandoned(home: Home, dry_run: bool) -> list[Recovered]:
    """Processes of runs that were removed by force; whoever is proven gone is forgotten."""
    from holdfast.manage.abandoned import forget_gone, look_at_abandoned

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
    """Who carries the stamp of a run that has ended is told, and left alone."""
    by_run = suspects_by_run(home)
    known = {one.id for one in recovered}
    told = [
        one.replace(suspects=tuple(by_run.get(one.id, ()))) if one.action in _OVER else one
        for one in recovered
    ]
    for run_id, suspects in by_run.items():
        if run_id in known:
            continue
        try:
            directory = RunDirectory(home, run_id)
            spec = directory.read_spec()
            facts, standing = stand(directory, spec)
        except (LaterVersion, DamagedRecord, RunNotFound, OSError):
            continue
        if standing.state is State.ENDED:
            one = _told(directory, spec, facts, standing, Action.ENDED)
            told.append(one.replace(suspects=tuple(suspects)))
    return sorted(told, key=lambda one: one.id)
