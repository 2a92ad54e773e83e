"""Which ended runs are too many, too old or too large, and removing those.

It decides by number, age and size alone; whether a run may go is `remove.py`'s to say, one by
one. Runs tagged `keep` stay.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError, IdentityUnproven, InvalidOption, StillAlive, argument
from holdfast.lean import StrEnum
from holdfast.manage.removal.deletion import size_of
from holdfast.manage.removal.remove import Names, refuse_link, remove_run, sweep
from holdfast.manage.starting.config import Retention
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.units import parse_duration, parse_size
from holdfast.run.usage.reading import UsageKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.selection import Selection
    from holdfast.run.home import Home

KEEP_TAG = "keep"


class RetentionFate(StrEnum):
    """What became of a run that retention does not want to keep."""

    REMOVED = "removed"
    KEPT = "kept"  # tagged
    REFUSED = "refused"  # proven alive
    UNVERIFIABLE = "unverifiable"  # not known


class Cleaned(Record):
    """One run that is over a limit."""

    id: str
    name: str | None
    fate: RetentionFate
    over: str  # which limit
    evidence: str
    freed_bytes: int = 0


class Surplus(Record):
    """A run that is over a limit, and which. A whole history of them fits into memory."""

    id: str
    name: str | None
    ended_seconds: float  # since the epoch
    worktree: Any
    kept_because: RetentionFate | None  # whatever the limits say
    evidence: str  # for that
    over: str = ""


def limits(
    keep: int | None = None,
    older_than: float | str | None = None,
    max_bytes: int | str | None = None,
) -> Retention:
    """What was asked for; nothing: what config.toml asks for."""
    if keep is None and older_than is None and max_bytes is None:
        from holdfast.manage.starting.config import load_config

        return load_config().retention
    if keep is not None and (type(keep) is not int or keep < 0):
        raise _unusable("keep", keep, "a number from 0 up")
    if isinstance(older_than, str):
        older_than = parse_duration(older_than, argument("older_than"))
    elif older_than is not None and not _is_number(older_than):
        raise _unusable("older_than", older_than, "a duration")
    if isinstance(max_bytes, str):
        max_bytes = parse_size(max_bytes, argument("max_bytes"))
    elif max_bytes is not None and not _is_number(max_bytes):
        raise _unusable("max_bytes", max_bytes, "a size")
    return Retention(keep=keep, older_than_seconds=older_than, max_bytes=max_bytes)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < float("inf")  # type: ignore[operator]


def _unusable(name: str, value: object, expected: str) -> InvalidOption:
    message = f"{argument(name)}: {value!r} is not {expected}"
    return InvalidOption(message, option=name, value=value, expected=expected)


def clean(
    home: Home, rules: Retention, *, dry_run: bool = False, among: Selection | None = None
) -> list[Cleaned]:
    """Apply the limits; every run that is over one is reported, newest first.

    `among`: only these runs are counted, and removed.
    """
    if not home.check():
        return []
    from holdfast.manage.suspects import Suspects

    suspects, names, keeper = Suspects(home), Names(home), UsageKeeper(home)

    def remove(directory: RunDirectory) -> Removed:
        return remove_run(directory, suspects=suspects, names=names, keeper=keeper)

    cleaned = [
        _clean_one(home, surplus, dry_run, remove) for surplus in find_surplus(home, rules, among)
    ]
    if not dry_run:
        sweep(home)
    return cleaned


def find_surplus(home: Home, rules: Retention, among: Selection | None = None) -> Iterator[Surplus]:
    """Ended runs over a limit, newest first; and unknown ones, which are only reported."""
    from holdfast.manage.listing import select_runs

    found = [
        _candidate(info)
        for info in select_runs(home, among, closely=False)
        if not info.state.holds_name
    ]
    found.sort(key=lambda one: one.ended_seconds, reverse=True)
    kept_bytes = 0
    oldest = None if rules.older_than_seconds is None else time.time() - rules.older_than_seconds
    for place, one in enumerate(found):
        if rules.max_bytes is not None:
            kept_bytes += size_of(RunDirectory(home, one.id).path)
        if rules.keep is not None and place >= rules.keep:
            yield one.replace(over=f"beyond the newest {rules.keep}")
        elif oldest is not None and one.ended_seconds < oldest:
            yield one.replace(over=f"older than {rules.older_than_seconds:g} s")
        elif rules.max_bytes is not None and kept_bytes > rules.max_bytes:
            yield one.replace(over=f"beyond {rules.max_bytes} bytes in all")


def _candidate(info: RunInfo) -> Surplus:
    at = info.ended_at or info.last_output_at or info.created_at
    seconds = 0.0 if at is None else seconds_of(at)
    because, evidence = None, ""
    if KEEP_TAG in info.tags:
        because, evidence = RetentionFate.KEPT, f"tagged {KEEP_TAG}"
    elif info.state is State.UNKNOWN:
        because, evidence = RetentionFate.UNVERIFIABLE, info.evidence
    return Surplus(info.id, info.name, seconds, info.worktree, because, evidence)


def _clean_one(
    home: Home, surplus: Surplus, dry_run: bool, remove: Callable[[RunDirectory], Removed]
) -> Cleaned:

    def told(fate: RetentionFate, evidence: str, freed_bytes: int = 0) -> Cleaned:
        return Cleaned(surplus.id, surplus.name, fate, surplus.over, evidence, freed_bytes)

    if surplus.kept_because is not None:
        return told(surplus.kept_because, surplus.evidence)
    directory = RunDirectory(home, surplus.id)
    try:
        if dry_run:
            refuse_link(directory)
            if surplus.worktree is not None:
                from holdfast.manage.worktrees.checkout import refuse_to_lose_work

                refuse_to_lose_work(home, surplus.worktree)
            return told(RetentionFate.REMOVED, "would be removed", size_of(directory.path))
        removed = remove(directory)
    except StillAlive as error:
        return told(RetentionFate.REFUSED, error.message)
    except IdentityUnproven as error:
        return told(RetentionFate.UNVERIFIABLE, error.message)
    except (HoldfastError, OSError) as error:
        return told(RetentionFate.REFUSED, str(error))
    return told(RetentionFate.REMOVED, removed.evidence, removed.freed_bytes)


def main(home_path: str) -> None:
    """What the configuration asks to keep; in a process of its own."""
    from holdfast.manage.starting.config import load_config
    from holdfast.run.home import Home

    os.chdir("/")
    os.nice(10)
    clean(Home(home_path), load_config().retention)
