"""The runs that a command is about: named one by one or by globs, or found by selectors."""

from __future__ import annotations

from itertools import islice

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.lean import StrEnum
from holdfast.manage.info import claimed_name
from holdfast.manage.listing import select_runs
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.selection import Selection
from holdfast.record import Record
from holdfast.run.directory import RunDirectory
from holdfast.run.names import check_glob, is_glob
from holdfast.run.references import find_by_name, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.manage.info import RunInfo
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec


class GlobMeans(StrEnum):
    """Which of the runs whose names match."""

    EVERY = "every"
    ACTIVE = "active"
    LATEST = "latest"  # of each name the run that the name means


class Chosen(Record):
    """One of them; without a run: why it can't be had."""

    name: str  # its own, or the reference that was given
    run: Run | None
    error: HoldfastError | None = None


class Choice(Record):
    """How the runs of a glob are narrowed down."""

    selection: Selection
    globs: GlobMeans
    but: str | None = None  # runs with this tag are not meant


def choose_named(runs: Runs, references: Iterable[str], choice: Choice) -> list[Chosen]:
    """The runs that are named, each once, in that order; those of a glob oldest first."""
    chosen: dict[str, Chosen] = {}
    for reference in references:
        try:
            if is_glob(reference):
                found = list(_matching(runs, reference, choice))
            else:
                found = [Chosen(reference, runs.get(reference))]
        except HoldfastError as error:
            found = [Chosen(reference, None, error)]
        for one in found:
            chosen.setdefault(one.name if one.run is None else one.run.id, one)
    return list(chosen.values())


def choose_selected(
    runs: Runs, selection: Selection, *, but: str | None = None
) -> Iterator[Chosen]:
    """The runs that fit, oldest first, less those with the tag `but`, or removed since."""
    find = _find_active if selection.is_of_active else _find
    return _chosen(runs, find(runs.home, selection), but)


def _find(home: Home, selection: Selection) -> Iterator[FoundRun]:
    """Those that fit, newest first."""
    return map(_found, select_runs(home, selection, closely=False))


def _find_active(home: Home, selection: Selection) -> Iterator[FoundRun]:
    """The same among active runs; of a supervised one only its spec is read."""
    if not home.check():
        return iter(())
    found, unsure = [], set()
    for run_id in home.run_ids(active=True):
        spec = _spec_of_supervised(RunDirectory(home, run_id))
        if spec is None:
            unsure.add(run_id)
        elif selection.fits_spec(spec.name, spec.agent, spec.tags):
            tags = frozenset(spec.tags)
            found.append(FoundRun(run_id, spec.name, True, spec.created_at, tags))
    if unsure:
        found += [one for one in _find(home, selection) if one.id in unsure]
    return iter(sorted(found, key=lambda one: one.id, reverse=True))


def _spec_of_supervised(directory: RunDirectory) -> RunSpec | None:
    """None: its lock is free, or it can't be read: it has to be looked at closely."""
    try:
        return directory.read_spec() if directory.lock_is_held() else None
    except (HoldfastError, OSError):
        return None


class Listed(Record):
    """What a list is limited to: runs of these names, and these runs."""

    names: frozenset[str] = frozenset()  # globs, in lower case
    ids: tuple[str, ...] = ()
    errors: tuple[HoldfastError, ...] = ()  # of references that mean no run


def choose_listed(home: Home, references: Iterable[str]) -> Listed:
    """A list has every run of a name, not only the one that the name means. The error of the first
    reference, if none means a run."""
    listed = Listed()
    home.check()
    for reference in references:
        try:
            if is_glob(reference):
                find_matching(home, reference, Selection(), limit=1)
                listed = listed.replace(names=listed.names | {reference.lower()})
                continue
            run_id = resolve(home, reference)
        except HoldfastError as error:
            listed = listed.replace(errors=(*listed.errors, error))
            continue
        name = claimed_name(RunDirectory(home, run_id))
        if name is not None and name.lower() == reference.lower():
            listed = listed.replace(names=listed.names | {name.lower()})
        else:
            listed = listed.replace(ids=(*listed.ids, run_id))
    if not listed.names and not listed.ids:
        raise listed.errors[0]
    return listed


def with_older(
    runs: Runs, chosen: Iterable[Chosen], *, also_active: bool, but: str
) -> list[Chosen]:
    """Each of them, and every older run of its name less those with the tag `but`; of an active one
    these alone, unless asked."""
    found: dict[str, Chosen] = {}
    for one in chosen:
        if one.run is None:
            found.setdefault(one.name, one)
            continue
        info = one.run.info()
        if also_active or not info.is_active:
            found.setdefault(info.id, one)
        same = Selection.of(name=info.name or info.id, active=None if also_active else False)
        found_now = select_runs(runs.home, same, closely=False)
        others = [_found(other) for other in found_now if other.id != info.id]
        if one.name.lower() != (info.name or "").lower():  # named by its id: maybe not the newest
            others = [other for other in others if other.created_at <= (info.created_at or "")]
        for other in _chosen(runs, others, but):
            assert other.run is not None
            found.setdefault(other.run.id, other)
    return list(found.values())


class FoundRun(Record):
    """What is kept of a run that a glob matches: a history of them fits into memory."""

    id: str
    name: str
    is_active: bool
    created_at: str
    tags: frozenset[str]


def _found(info: RunInfo) -> FoundRun:
    name, created_at = info.name or info.id, info.created_at or ""
    return FoundRun(info.id, name, info.is_active, created_at, frozenset(info.tags))


def _matching(runs: Runs, glob: str, choice: Choice) -> Iterator[Chosen]:
    found = find_matching(runs.home, glob, choice.selection)
    if choice.globs is GlobMeans.ACTIVE:
        found = [one for one in found if one.is_active]
    elif choice.globs is GlobMeans.LATEST:
        found = _latest(runs.home, found)
    return _chosen(runs, found, choice.but)


def find_matching(
    home: Home, glob: str, selection: Selection, limit: int | None = None
) -> list[FoundRun]:
    """The runs whose names match and that fit, newest first. RunNotFound when there are none."""
    names = frozenset({check_glob(glob).lower()})
    found = select_runs(home, selection.replace(names=names), closely=False)
    matching = [_found(info) for info in islice(found, limit)]
    if not matching:
        also = " and fits the selectors" if selection.is_narrow or selection.since else ""
        raise RunNotFound(
            f"no run's name matches {glob}{also}",
            hint="`holdfast ls --all` shows every run",
            run=glob,
        )
    return matching


def _latest(home: Home, found: list[FoundRun]) -> list[FoundRun]:
    """Of each name the run that it means; else, with selectors, the newest that fits."""
    by_name: dict[str, list[FoundRun]] = {}
    for one in found:
        by_name.setdefault(one.name.lower(), []).append(one)
    for name, same in by_name.items():
        # Of two runs in one second only the claim tells the newer.
        meant = find_by_name(home, name) if len(same) > 1 else None
        by_name[name] = [one for one in same if one.id == meant] or same
    return [same[0] for same in by_name.values()]


def _chosen(runs: Runs, found: Iterable[FoundRun], but: str | None) -> Iterator[Chosen]:
    """Oldest first, less those with that tag, or removed since."""
    for one in reversed([one for one in found if but not in one.tags]):
        directory = RunDirectory(runs.home, one.id)
        if directory.is_known():
            yield Chosen(one.name, runs._run_of(directory))
