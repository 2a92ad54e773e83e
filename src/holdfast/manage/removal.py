"""Removes runs of which nothing can be alive: under the run's lock, out of `runs/` in one step.

Proven alive is never removed. What can't be told needs the user's word. A run of a later version
is never changed. Whoever dies on the way leaves either the whole run or none.
"""

from __future__ import annotations

import os

from holdfast.errors import (
    DamagedRecord,
    HoldfastError,
    IdentityUnproven,
    LockBusy,
    StillAlive,
    UnsafeFile,
)
from holdfast.manage.deletion import delete, size_of
from holdfast.manage.standing import read_facts
from holdfast.manage.survivors import refusal, survivors_of
from holdfast.manage.suspects import may_have_missed_a_fork, recorded_tokens, stamped_of
from holdfast.manage.vanished import find_remains, refuse_to_forget
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.claims import claim_key, claim_name, find_name
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.doubts import doubt_length, doubt_origin, has_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.manage.abandoned import Abandoned
    from holdfast.process.verdict import Look
    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_SHIM_SECONDS = 5.0  # a shim that has recorded the ending is about to let go, and to end
_CLAIM_SECONDS = 2.0
_TOKEN = rb"h[fp]1\.[0-9a-f.]+"


class Removed(Record):
    """A run that is gone from the home."""

    id: str
    name: str | None
    freed_bytes: int
    evidence: str  # why it was sure that nothing is alive, or on whose word it was removed
    abandoned: tuple[Abandoned, ...] = ()  # who lives on, though a stop struck them


class Names:
    """Which runs have which name, read once for any number of removals."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._by_name: dict[str, list[str]] | None = None

    def others(self, name: str, run_id: str) -> list[str]:
        """The other runs of that name, newest first."""
        if self._by_name is None:
            from holdfast.manage.listing import read_runs

            self._by_name = {}
            for info in read_runs(self._home, self._home.run_ids()[::-1], closely=False):
                self._by_name.setdefault((info.name or "").lower(), []).append(info.id)
        return [other for other in self._by_name.get(name.lower(), ()) if other != run_id]


def remove_run(
    directory: RunDirectory,
    *,
    force: bool = False,
    abandon: bool = False,
    suspects: Mapping[str, Sequence[Json]] | None = None,
    names: Names | None = None,
    before: Callable[[RunDirectory], None] | None = None,
) -> Removed:
    """Remove an ended run. StillAlive, IdentityUnproven, LaterVersion or LockBusy when refused.

    `force` accepts what can't be told, never what is proven alive; `abandon`, after a stop, also
    whom that could not end: they are named, and kept in `abandoned.jsonl`. `suspects` are the
    processes that carry a run's stamp, by run. `before` is called when nothing stands against it.
    A worktree of the run goes with it; Refused when work in it would be lost, whatever `force`.
    """
    set_role("remover")
    refuse_link(directory)
    word = refuse_to_forget(directory, force=force)
    if word is not None:
        name = find_name(directory.home, directory.id)
        _forget(directory, name, None, names or Names(directory.home))
        return Removed(directory.id, name, 0, word)
    spec = _spec(directory, force)
    left = _give_up(directory, spec) if abandon else ()
    lock = directory.wait_for_lock(_SHIM_SECONDS if left or _has_ended(directory) else 0)
    if lock is None and not _is_doomed(directory, left):
        raise _supervised(directory, spec)
    with lock or _Unlocked():
        crash_point("remover.locked")
        evidence = _check(directory, spec, force, _stamped(directory, suspects), left)
        _check_worktree(directory, spec)
        if before is not None:
            before(directory)
            crash_point("remover.archived")
        _remove_worktree(directory, spec)
        freed = size_of(directory.path)
        removed = _take_out(directory)
        crash_point("remover.renamed")
    name = find_name(directory.home, directory.id) if spec is None else spec.name
    _forget(directory, name, None if spec is None else spec.key, names or Names(directory.home))
    delete(directory.home, removed)
    return Removed(directory.id, name, freed, evidence, left)


def _supervised(directory: RunDirectory, spec: RunSpec | None) -> StillAlive:
    """The refusal while the lock is held: whom a stop could not end, if one was tried."""
    left = survivors_of(directory)
    if left:
        return refusal(directory.id, left)
    hint = f"holdfast stop {directory.id}; or rm --stop"
    return StillAlive(
        f"run {directory.id} is supervised: its lock is held",
        hint=hint if spec is not None else say_how_to_reach(living_named(directory)),
        run=directory.id,
    )


def _alive(directory: RunDirectory, identity: ProcessIdentity, look: Look) -> StillAlive:
    """The refusal for a process that is proven to live: a stop may have failed to end it."""
    left = survivors_of(directory)
    if identity in [one.identity for one in left]:
        return refusal(directory.id, left)
    return StillAlive(
        f"run {directory.id} is not over: {identity.pid} is alive ({look.evidence})",
        hint=f"holdfast stop {directory.id}; or rm --stop",
        run=directory.id,
        identity=identity,
    )


def remove_unmade(directory: RunDirectory) -> bool:
    """Remove a directory that has no spec, so that it is no run; False: it became one."""
    if directory.exists():
        return False
    try:
        removed = _take_out(directory)
    except FileNotFoundError:
        return False
    there = f"{directory.home.removed_path}/{removed}"
    if os.path.lexists(f"{there}/spec.json"):  # it was written at the last moment
        os.rename(there, directory.path)
        return False
    delete(directory.home, removed)
    return True


def sweep(home: Home) -> None:
    """Finish removals whose remover died, and forget markers that lead nowhere."""
    try:
        left = os.listdir(home.removed_path)
    except FileNotFoundError:
        left = []
    for name in left:
        delete(home, name)
    for run_id in home.run_ids(active=True):
        directory = RunDirectory(home, run_id)
        if not os.path.lexists(directory.path) and find_remains(directory) is None:
            directory.drop_marker()
    for run_id in home.recent_ids(0):
        if not os.path.lexists(RunDirectory(home, run_id).path):
            home.forget_ending(run_id)


def refuse_link(directory: RunDirectory) -> None:
    """UnsafeFile for a run's directory that lies elsewhere."""
    if os.path.islink(directory.path):
        raise UnsafeFile(
            f"{directory.path} is a symbolic link to {os.readlink(directory.path)}: what it leads"
            " to is not ours to remove, and nothing was",
            hint=f"see who made it; `unlink {directory.path}` takes it out of the home",
            path=directory.path,
        )


def _spec(directory: RunDirectory, force: bool) -> RunSpec | None:
    """What was asked; None for one that can't be read and that the user gives up."""
    try:
        return directory.read_spec()
    except DamagedRecord as error:
        if not force:
            raise IdentityUnproven(
                f"{error.message}: nobody can tell what is alive", hint=_force_hint(directory)
            ) from None
        return None


def _has_ended(directory: RunDirectory) -> bool:
    try:
        return read_facts(directory).has_ended
    except (HoldfastError, OSError):
        return False


def _give_up(directory: RunDirectory, spec: RunSpec | None) -> tuple[Abandoned, ...]:
    from holdfast.manage.giving_up import give_up

    name = find_name(directory.home, directory.id) if spec is None else spec.name
    return give_up(directory, name, _tokens(directory, spec))


def _is_doomed(directory: RunDirectory, left: Sequence[Abandoned]) -> bool:
    """Whether its shim, frozen with SIGKILL pending, is all that still holds the lock."""
    shim = read_facts(directory).shim if left else None
    return shim is not None and any(one.identity.token == shim["token"] for one in left)


class _Unlocked:
    """In place of a lock whose holder never comes to do anything again."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _force_hint(directory: RunDirectory) -> str:
    return f"look at it: holdfast status {directory.id}; rm --force removes it on your word"


def _check(
    directory: RunDirectory,
    spec: RunSpec | None,
    force: bool,
    suspects: Sequence[Json],
    left: Sequence[Abandoned],
) -> str:
    """Why nothing can be alive; raises where something is or may be."""
    unclear = _doubts(directory, spec)
    named = {one.identity.token for one in left}
    for token in sorted(_tokens(directory, spec) - named):
        identity = ProcessIdentity.parse(token)
        look = identity.look()
        if look.verdict is Verdict.SAME and not identity.wait(_SHIM_SECONDS / 10):
            raise _alive(directory, identity, look)
        if look.verdict is Verdict.UNKNOWN:
            unclear.append(look.evidence)
    unclear += [
        f"{one['pid']} {one['comm']} carries its stamp and may be its own" for one in suspects
    ]
    unclear += [f"{one} can't be ended, and lives on" for one in left]
    if not unclear:
        return "every process that it ever recorded is gone"
    if not force:
        raise IdentityUnproven(
            f"run {directory.id} may be alive: {'; '.join(unclear)}",
            hint=_force_hint(directory),
            run=directory.id,
            evidence="; ".join(unclear),
        )
    return f"removed on your word, though {'; '.join(unclear)}"


def _stamped(
    directory: RunDirectory, suspects: Mapping[str, Sequence[Json]] | None
) -> Sequence[Json]:
    """Who carries its stamp: looked for again, under the lock, where its record may lack some."""
    try:
        if may_have_missed_a_fork(read_facts(directory)):
            return stamped_of(directory.home, directory.id)
    except (HoldfastError, OSError):
        pass
    return (suspects or {}).get(directory.id, ())


def _check_worktree(directory: RunDirectory, spec: RunSpec | None) -> None:
    if spec is not None and spec.worktree is not None:
        from holdfast.manage.worktrees import refuse_to_lose_work

        refuse_to_lose_work(directory.home, spec.worktree)


def _remove_worktree(directory: RunDirectory, spec: RunSpec | None) -> None:
    if spec is not None and spec.worktree is not None:
        from holdfast.manage.worktrees import remove_worktree

        remove_worktree(directory.home, spec.worktree)


def _doubts(directory: RunDirectory, spec: RunSpec | None) -> list[str]:
    """Why its record is not believed; LaterVersion when that is not ours to judge."""
    doubt = None if spec is None else doubt_origin(directory, spec)
    told = [] if doubt is None else [doubt.why]
    if spec is None:
        told = ["its spec can't be read"]
    try:
        facts = read_facts(directory)
    except (DamagedRecord, OSError) as error:
        return [*told, str(error)]
    if told:
        return told
    cut = doubt_length(directory, facts, has_summary(directory))
    return [] if cut is None or facts.has_ended else [cut]


def _tokens(directory: RunDirectory, spec: RunSpec | None) -> set[str]:
    """Every process that the run's files name, also where they can't be read as a whole."""
    try:
        facts: RunFacts | None = read_facts(directory)
    except (HoldfastError, OSError):
        facts = None
    if facts is None or spec is None:
        return named_tokens(directory)
    tokens = recorded_tokens(facts)
    if facts.root is None and not facts.has_ended:
        tokens.add(str(spec.launcher.get("token")))  # it may be about to start the command
    return tokens


def named_tokens(directory: RunDirectory) -> set[str]:
    """Every process that is named anywhere in a record that can't be read as a whole."""
    return _named_in(directory.events_path) | _named_in(directory.signals_path)


def living_named(directory: RunDirectory) -> list[ProcessIdentity]:
    """Those of them that are proven to be alive."""
    named = map(ProcessIdentity.parse, sorted(named_tokens(directory)))
    return [identity for identity in named if identity.verdict() is Verdict.SAME]


def say_how_to_reach(living: Sequence[ProcessIdentity]) -> str:
    """A hint for whoever wants processes to end of which only their tokens are believed."""
    tokens = " ".join(identity.token for identity in living)
    return f"`holdfast signal TERM TOKEN` reaches each of these: {tokens or 'none is known'}"


def _named_in(path: str) -> set[str]:
    import re

    try:
        with open(path, "rb") as file:
            matches = re.findall(_TOKEN, file.read())
    except OSError:
        return set()
    found = {match.rstrip(b".").decode("ascii") for match in matches}
    return {token for token in found if _is_token(token)}


def _is_token(text: str) -> bool:
    try:
        ProcessIdentity.parse(text)
    except HoldfastError:
        return False
    return True


def _take_out(directory: RunDirectory) -> str:
    """One rename: from here on there is no such run. The name that it has in `removed`."""
    home = directory.home
    try:
        os.mkdir(home.removed_path, 0o700)
    except FileExistsError:
        pass
    removed = f"{directory.id}.{os.urandom(4).hex()}"
    os.rename(directory.path, f"{home.removed_path}/{removed}")
    return removed


def _forget(directory: RunDirectory, name: str | None, key: str | None, names: Names) -> None:
    """Nothing leads to it any more. A claim that is busy may dangle: whoever reads it looks."""
    directory.drop_marker()
    directory.home.forget_ending(directory.id)
    crash_point("remover.unmarked")
    if name is not None:
        try:
            _release_claims(directory, name, key, names)
        except (LockBusy, OSError):
            pass
    crash_point("remover.unnamed")


def _release_claims(directory: RunDirectory, name: str, key: str | None, names: Names) -> None:
    with claim_name(directory.home, name, _CLAIM_SECONDS) as claim:
        if claim.read() in (directory.id, None):
            others = names.others(name, directory.id)
            living = [other for other in others if directory.sibling(other).exists()]
            if living:
                claim.write(living[0])
            else:
                claim.remove()
    if key is not None:
        with claim_key(directory.home, key, _CLAIM_SECONDS) as claim:
            if claim.read() in (directory.id, None):
                claim.remove()
