"""Which ended runs are too many, too old or too large, and removing those.

It decides by number, age and size alone; whether a run may go is `removal.py`'s to say, one by
one. Runs tagged `keep` stay.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError, IdentityUnproven, StillAlive
from holdfast.lean import StrEnum
from holdfast.manage.config import Retention
from holdfast.manage.deletion import size_of
from holdfast.manage.info import RunInfo
from holdfast.manage.removal import Names, refuse_link, remove_run, sweep
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.run.home import Home

KEEP_TAG = "keep"


class Fate(StrEnum):
    """What became of a run that retention does not want to keep."""

    REMOVED = "removed"
    KEPT = "kept"  # tagged
    REFUSED = "refused"  # proven alive
    UNVERIFIABLE = "unverifiable"  # nobody can tell


class Cleaned(Record):
    """One run that is over a limit."""

    id: str
    name: str | None
    fate: Fate
    over: str  # which limit
    evidence: str
    freed_bytes: int = 0


class Surplus(Record):
    """A run that is over a limit, and which."""

    info: RunInfo
    over: str


def clean(home: Home, rules: Retention, *, dry_run: bool = False) -> list[Cleaned]:
    """Apply the limits; every run that is over one is told, newest first."""
    if not home.check():
        return []
    from holdfast.manage.suspects import suspects_by_run

    suspects, names = suspects_by_run(home), Names(home)
    cleaned = [
        _clean_one(home, surplus, dry_run, suspects, names) for surplus in find_surplus(home, rules)
    ]
    if not dry_run:
        sweep(home)
    return cleaned


def find_surplus(home: Home, rules: Retention) -> Iterator[Surplus]:
    """Ended runs (and unknown ones, which are only told) that are over a limit, newest first."""
    from holdfast.manage.listing import list_runs

    over = [info for info in list_runs(home, closely=False) if _is_candidate(info)]
    over.sort(key=_ended_seconds, reverse=True)
    kept_bytes = 0
    oldest = None if rules.older_than_seconds is None else time.time() - rules.older_than_seconds
    for place, info in enumerate(over):
        if rules.max_bytes is not None:
            kept_bytes += size_of(RunDirectory(home, info.id).path)
        if rules.keep is not None and place >= rules.keep:
            yield Surplus(info, f"beyond the newest {rules.keep}")
        elif oldest is not None and _ended_seconds(info) < oldest:
            yield Surplus(info, f"older than {rules.older_than_seconds:g} s")
        elif rules.max_bytes is not None and kept_bytes > rules.max_bytes:
            yield Surplus(info, f"beyond {rules.max_bytes} bytes in all")


def _is_candidate(info: RunInfo) -> bool:
    return info.state in (State.ENDED, State.UNKNOWN)


def _ended_seconds(info: RunInfo) -> float:
    at = info.ended_at or info.last_output_at or info.created_at
    return 0.0 if at is None else seconds_of(at)


def _clean_one(
    home: Home,
    surplus: Surplus,
    dry_run: bool,
    suspects: dict[str, list[dict[str, object]]],
    names: Names,
) -> Cleaned:
    info = surplus.info

    def told(fate: Fate, evidence: str, freed_bytes: int = 0) -> Cleaned:
        return Cleaned(info.id, info.name, fate, surplus.over, evidence, freed_bytes)

    if KEEP_TAG in info.tags:
        return told(Fate.KEPT, f"tagged {KEEP_TAG}")
    if info.state is State.UNKNOWN:
        return told(Fate.UNVERIFIABLE, info.evidence)
    directory = RunDirectory(home, info.id)
    try:
        if dry_run:
            refuse_link(directory)
            if info.worktree is not None:
                from holdfast.manage.worktrees import refuse_to_lose_work

                refuse_to_lose_work(home, info.worktree)
            return told(Fate.REMOVED, "would be removed", size_of(directory.path))
        removed = remove_run(directory, suspects=suspects, names=names)
    except StillAlive as error:
        return told(Fate.REFUSED, error.message)
    except IdentityUnproven as error:
        return told(Fate.UNVERIFIABLE, error.message)
    except (HoldfastError, OSError) as error:
        return told(Fate.REFUSED, str(error))
    return told(Fate.REMOVED, removed.evidence, removed.freed_bytes)


def main(home_path: str) -> None:
    """What the configuration asks to keep; for a process of its own that nobody waits for."""
    from holdfast.manage.config import load_config
    from holdfast.run.home import Home
    from holdfast.shim.child import leave_session

    leave_session()
    os.chdir("/")
    os.nice(10)
    clean(Home(home_path), load_config().retention)
