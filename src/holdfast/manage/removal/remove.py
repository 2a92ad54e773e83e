"""Removes runs of which nothing can be alive: under the run's lock, out of `runs/` in one step.

Proven alive is never removed. What is unknown needs the user's word: `liveness.py` judges. A
remover that dies on the way leaves either the whole run or none.
"""

from __future__ import annotations

import os

from holdfast.errors import LockBusy, UnsafeFile
from holdfast.manage.removal.deletion import delete, size_of, take_out
from holdfast.manage.removal.keeping import keep_usage
from holdfast.manage.removal.liveness import (
    ReadableRun,
    prove_over,
    read_readable,
    read_spec,
    stamped,
    supervised,
)
from holdfast.manage.vanished import find_remains, refuse_to_forget
from holdfast.record import Record
from holdfast.run.claims import claim_key, claim_name, find_name
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.usage.reading import UsageKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.manage.removal.abandoned import Abandoned
    from holdfast.manage.suspects import Suspects
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_SHIM_SECONDS = 5.0  # a shim that has recorded the ending is about to release the lock, and to end
_CLAIM_SECONDS = 2.0


class Removed(Record):
    """A run that is gone from the home."""

    id: str
    name: str | None
    freed_bytes: int
    evidence: str  # why it was sure that nothing is alive, or on whose word it was removed
    abandoned: tuple[Abandoned, ...] = ()  # what lives on, though a stop signalled it
    given_up: tuple[str, ...] = ()  # with its worktree
    older: tuple[str, ...] = ()  # runs of that name, one of which the name means from now on


class Names:
    """Which runs have which name, read once for any number of removals."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._by_name: dict[str, list[str]] | None = None

    def others(self, name: str, run_id: str) -> list[str]:
        """The other runs of that name, newest first."""
        if self._by_name is None:
            self._by_name = self._read()
        return [other for other in self._by_name.get(name.lower(), ()) if other != run_id]

    def _read(self) -> dict[str, list[str]]:
        from holdfast.manage.listing import are_few, ask_index, select_runs

        home = self._home
        ids = home.entries()
        rows: list[tuple[str, str]] = []
        if are_few(home, ids):
            others = list(select_runs(home, closely=False))
        else:
            rows, others = ask_index(home, ids, lambda index: index.names())
        pairs = [*rows, *((info.id, (info.name or "").lower()) for info in others)]
        by_name: dict[str, list[str]] = {}
        for run_id, name in sorted(pairs, reverse=True):
            by_name.setdefault(name, []).append(run_id)
        return by_name


def remove_run(
    directory: RunDirectory,
    *,
    force: bool = False,
    abandon: bool = False,
    suspects: Suspects | None = None,
    names: Names | None = None,
    keeper: UsageKeeper | None = None,
    before: Callable[[RunDirectory], None] | None = None,
    discard_worktree: bool = False,
) -> Removed:
    """Remove an ended run. StillAlive, IdentityUnproven, LaterVersion or LockBusy when refused.

    `force` accepts what is unknown, never what is proven alive; `abandon`, after a stop, also
    what that could not end: it is named, and kept in `abandoned.jsonl`. `suspects` are the
    processes that carry a run's stamp, by run; `keeper` keeps what it used. `before` is called
    when nothing stands against it.
    A worktree of the run goes with it; Refused when work in it would be lost, whatever `force`,
    unless `discard_worktree` gives it up.
    """
    set_role("remover")
    refuse_link(directory)
    word = refuse_to_forget(directory, force=force)
    if word is not None:
        name = find_name(directory.home, directory.id)
        older = _forget(directory, name, None, names or Names(directory.home))
        return Removed(directory.id, name, 0, word, older=older)
    spec = read_spec(directory, force=force)
    left = _give_up(directory, spec) if abandon else ()
    with lock_ended(directory, spec, left) or _Unlocked():
        crash_point("remover.locked")
        # Under the lock nothing is added to it any more: this look decides.
        run = read_readable(directory, spec)
        evidence = prove_over(run, force, stamped(run, suspects), left)
        if not discard_worktree:
            _check_worktree(directory, spec)
        if before is not None:
            before(directory)
            crash_point("remover.archived")
        freed = size_of(directory.path)
        keep_usage(run, keeper or UsageKeeper(directory.home))
        crash_point("remover.usage-kept")
        given_up = _remove_worktree(directory, spec, discard_worktree)
        removed = take_out(directory.home, directory.path)
        _refuse_if_awaited(directory, removed)
        crash_point("remover.renamed")
    name = run.name
    older = _forget(directory, name, run.key, names or Names(directory.home))
    delete(directory.home, removed)
    return Removed(directory.id, name, freed, evidence, left, given_up, older)


def _refuse_if_awaited(directory: RunDirectory, removed: str) -> None:
    """Put it back if a queued run waits for it: a submitter makes a marker, then looks for us."""
    there = f"{directory.home.removed_path}/{removed}"
    if not os.path.isdir(f"{there}/awaited"):
        return
    from holdfast.manage.queueing.awaiting import awaited_error

    error = awaited_error(directory, there)
    if error is not None:
        os.rename(there, directory.path)
        raise error


def lock_ended(
    directory: RunDirectory, spec: RunSpec | None, left: Sequence[Abandoned] = ()
) -> HeldLock | None:
    """The run's lock; None: its holder will never run again. StillAlive otherwise."""
    lock = directory.wait_for_lock(0)
    if lock is not None:
        return lock
    run = read_readable(directory, spec)
    if left or run.has_ended:
        lock = directory.wait_for_lock(_SHIM_SECONDS)
    if lock is None and not _is_doomed(run, left):
        raise supervised(run)
    return lock


def remove_unmade(directory: RunDirectory) -> bool:
    """Remove a directory that has no spec, so that it is no run; False: it became one."""
    if directory.exists():
        return False
    try:
        removed = take_out(directory.home, directory.path)
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


def _give_up(directory: RunDirectory, spec: RunSpec | None) -> tuple[Abandoned, ...]:
    from holdfast.manage.removal.giving_up import give_up

    return give_up(read_readable(directory, spec))


def _is_doomed(run: ReadableRun, left: Sequence[Abandoned]) -> bool:
    """Whether its shim, frozen with SIGKILL pending, is all that still holds the lock."""
    shim = None if run.facts is None else run.facts.shim
    return shim is not None and any(one.identity.token == shim.token for one in left)


class _Unlocked:
    """In place of a lock whose holder will never run again."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _check_worktree(directory: RunDirectory, spec: RunSpec | None) -> None:
    if spec is not None and spec.worktree is not None:
        from holdfast.manage.worktrees.checkout import refuse_to_lose_work

        refuse_to_lose_work(directory.home, spec.worktree)


def _remove_worktree(
    directory: RunDirectory, spec: RunSpec | None, discard: bool
) -> tuple[str, ...]:
    if spec is None or spec.worktree is None:
        return ()
    from holdfast.manage.worktrees.checkout import remove_worktree

    return remove_worktree(directory.home, spec.worktree, discard=discard)


def _forget(
    directory: RunDirectory, name: str | None, key: str | None, names: Names
) -> tuple[str, ...]:
    """Nothing leads to it any more. A claim that is busy may dangle: its readers check.

    If the name meant this run, the others of that name: it means one of them now.
    """
    directory.drop_marker()
    directory.home.forget_ending(directory.id)
    crash_point("remover.unmarked")
    older: tuple[str, ...] = ()
    if name is not None:
        try:
            older = _release_name(directory, name, names)
            _release_key(directory, key)
        except (LockBusy, OSError):  # the claim dangles, as said above
            pass
    crash_point("remover.unnamed")
    return older


def _release_name(directory: RunDirectory, name: str, names: Names) -> tuple[str, ...]:
    with claim_name(directory.home, name, _CLAIM_SECONDS) as claim:
        if claim.read() not in (directory.id, None):
            return ()
        others = names.others(name, directory.id)
        living = [other for other in others if directory.sibling(other).exists()]
        if living:
            claim.write(living[0])
        else:
            claim.remove()
        return tuple(living)


def _release_key(directory: RunDirectory, key: str | None) -> None:
    if key is not None:
        with claim_key(directory.home, key, _CLAIM_SECONDS) as claim:
            if claim.read() in (directory.id, None):
                claim.remove()
