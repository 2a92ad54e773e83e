"""Tokens, cost and CPU time of all runs, in total or by agent, tag or day.

Ended runs are counted by the lines that are kept of them (`usage.jsonl`), also when they are gone;
active ones, and those without a line, by their directories.
"""

from __future__ import annotations

import time

from holdfast.errors import InvalidOption, argument
from holdfast.manage.index_rows import FIGURES
from holdfast.manage.listing import are_few, ask_index, ask_listed, select_runs
from holdfast.manage.selection import Selection
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.usage.reading import read_kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from holdfast.manage.index import Index
    from holdfast.manage.info import RunInfo
    from holdfast.run.home import Home
    from holdfast.run.usage.reading import KeptLines

    Line = Mapping[str, Any]
    Sums = tuple[list[tuple[str | None, list[Any]]], list[tuple[str | None, list[Any]]]]

BY = ("agent", "tag", "day")
_NO_PART = "none"
_TRIES = 3  # while runs are being removed


class Total:
    """Sums over runs; a figure that no run has is unknown."""

    def __init__(self) -> None:
        self.runs = 0
        self.sums: dict[str, float] = {}
        self.known: dict[str, int] = dict.fromkeys(FIGURES, 0)

    def add(self, usage: Mapping[str, Any]) -> None:
        """Count one run."""
        figures = [usage.get(name) for name in FIGURES]
        pairs = [(value, int(value is not None)) for value in figures]
        self.add_sums([1, *(one for pair in pairs for one in pair)])

    def add_sums(self, sums: list[Any]) -> None:
        """How many runs; then of each figure the sum, and of how many it is known."""
        self.runs += sums[0]
        for place, name in enumerate(FIGURES):
            value, known = sums[1 + 2 * place : 3 + 2 * place]
            if value is not None:
                self.sums[name] = self.sums.get(name, 0) + value
                self.known[name] += known

    def to_json(self) -> dict[str, Any]:
        """The sums, and of how many runs each is known."""
        sums = {name: self.sums.get(name) for name in FIGURES}
        return {"runs": self.runs, **sums, "known_of": dict(self.known)}


class Totals(Record):
    """Of all runs, and of each part of them."""

    total: Total
    parts: dict[str, Total]
    damaged: int = 0  # lines that could not be read


class UsageTotal(Record):
    """Sums over runs; a figure that no run has is None."""

    runs: int
    tokens_in: float | None
    tokens_out: float | None
    cost_usd: float | None
    cpu_seconds: float | None
    known_of: dict[str, int]  # of how many runs each figure is known


class Usage(Record):
    """The total, and by what was asked for: `{"agent": {"claude": UsageTotal}}`."""

    total: UsageTotal
    by: dict[str, dict[str, UsageTotal]] | None
    damaged_lines: int = 0  # of usage.jsonl: what those runs used is not in it

    def to_json(self) -> dict[str, Any]:
        """The document of `usage --json`."""
        by = {
            kind: {name: total.as_dict() for name, total in totals.items()}
            for kind, totals in (self.by or {}).items()
        }
        damaged = {"damaged_lines": self.damaged_lines}
        return {"schema": 1, "total": self.total.as_dict(), "by": by or None, **damaged}


def usage_of(
    home: Home, tags: dict[str, str], *, since: float | None = None, by: str | None = None
) -> Usage:
    """What the runs with these tags used, for every interface."""
    if by is not None and by not in BY:
        what = f"{by!r} is none of {', '.join(BY)}"
        raise InvalidOption(f"{argument('by')}: {what}", option="by", value=by)
    added = add_up(home, since=since, by=by, tags=tags)
    parts = {name: UsageTotal(**added.parts[name].to_json()) for name in sorted(added.parts)}
    total = UsageTotal(**added.total.to_json())
    return Usage(total, None if by is None else {by: parts}, added.damaged)


def add_up(
    home: Home,
    *,
    since: float | None = None,
    by: str | None = None,
    tags: dict[str, str] | None = None,
) -> Totals:
    """`since`: seconds since the epoch; runs that ended before that are left out."""
    if not home.check():
        return Totals(Total(), {})
    selection = Selection.of(since=since, tags=tags)
    return _add_listed(home, selection, by) or _add_all(home, selection, by)


def _add_listed(home: Home, selection: Selection, by: str | None) -> Totals | None:
    """While an earlier listing of `runs/` stands it is not listed again. None: it does not."""
    if selection.tags or selection.is_recent:
        return None  # the index does not add these up

    def ask(index: Index) -> tuple[Sums, KeptLines, set[str]]:
        kept = read_kept(home)
        over = kept.by_id.keys() - home.run_ids(active=True)
        return _sums(index, selection.since, by, over), kept, over

    found = ask_listed(home, ask, selection)
    if found is None:
        return None
    (sums, kept, over), others = found
    usage = _added(sums, (info for info in others if info.id not in over), by)
    _add_lines(usage, (kept.by_id[one] for one in over), selection, by)
    return usage.replace(damaged=kept.damaged)


def _add_all(home: Home, selection: Selection, by: str | None) -> Totals:
    for _ in range(_TRIES):
        before, kept = home.entries(), read_kept(home)
        over = kept.by_id.keys() - home.run_ids(active=True)
        ids = selection.candidates(home, before)
        ids -= over
        usage = _add_runs(home, selection, by, ids)
        later = read_kept(home)
        if before - home.entries() <= kept.by_id.keys():
            break  # else one was removed that may not have been read: it has a line by now
    lines = (line for line in later.by_id.values() if line["id"] not in ids)
    _add_lines(usage, lines, selection, by)
    return usage.replace(damaged=later.damaged)


def _add_lines(usage: Totals, lines: Iterable[Line], selection: Selection, by: str | None) -> None:
    for line in lines:
        if _fits(line, selection):
            _add_one(usage, line, _parts(line, by))


def _fits(line: Mapping[str, Any], selection: Selection) -> bool:
    """As `Selection.fits` has it for a run that has ended."""
    since, at = selection.since, line["at"]
    if since is not None and at is not None and _seconds(at) < since:
        return False
    return selection.fits_spec(line["name"] or line["id"], line["agent"], line["tags"])


def _seconds(at: str) -> float:
    """Of a line that may have been edited: what is no time is taken as now."""
    try:
        return seconds_of(at)
    except ValueError:
        return time.time()


def _add_runs(home: Home, selection: Selection, by: str | None, ids: set[str]) -> Totals:
    """What the runs of these ids used that are there.

    The index adds up what has ended: no run is read for it but those without a row.
    """
    if selection.tags or selection.is_recent or are_few(home, ids):
        return _added(([], []), select_runs(home, selection, closely=False, ids=ids), by)

    def ask(index: Index) -> Sums:
        return _sums(index, selection.since, by, set(index.ids()) - ids)

    return _added(*ask_index(home, ids, ask, selection), by)


def _sums(index: Index, since: float | None, by: str | None, without: set[str]) -> Sums:
    """Of all runs that have ended, and of each part: a run has any number of tags."""
    parts = index.sums(since, by, without)
    return index.sums(since, None, without) if by == "tag" else parts, parts if by else []


def _added(sums: Sums, others: Iterable[RunInfo], by: str | None) -> Totals:
    usage = Totals(Total(), {})
    for _, figures in sums[0]:
        usage.total.add_sums(figures)
    for part, figures in sums[1]:
        if part is None and by == "day":
            continue  # not known when it was made
        usage.parts.setdefault(part or _NO_PART, Total()).add_sums(figures)
    for info in others:
        known = {"agent": info.agent, "tags": info.tags, "created_at": info.created_at}
        _add_one(usage, info.usage or {}, _parts(known, by))
    return usage


def _add_one(usage: Totals, figures: Mapping[str, Any], parts: list[str]) -> None:
    usage.total.add(figures)
    for part in parts:
        usage.parts.setdefault(part, Total()).add(figures)


def _parts(run: Mapping[str, Any], by: str | None) -> list[str]:
    if by == "agent":
        return [run["agent"] or _NO_PART]
    if by == "tag":
        return [f"{name}={value}" for name, value in run["tags"].items()] or [_NO_PART]
    if by == "day" and run["created_at"] is not None:
        return [time.strftime("%Y-%m-%d", time.localtime(_seconds(run["created_at"])))]
    return []
