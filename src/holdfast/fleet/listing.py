"""The runs of a fleet, as one list: each node is asked once, all at the same time.

What a node that does not answer said last is shown as `unknown`; what has ended is not asked for.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError, NoAnswer, OtherNode
from holdfast.fleet.ledger import LastLook
from holdfast.fleet.placement import Placement
from holdfast.fleet.reaching import ask, note_end, seen_at, settle_dropped
from holdfast.fleet.remote_info import fit_info, unreadable_info
from holdfast.fleet.verdict import NodeLook, Sight, judge
from holdfast.lean import read_json
from holdfast.manage.listing import place_of, select_runs
from holdfast.manage.operations import run_steps
from holdfast.manage.selection import Selection
from holdfast.manage.together import together
from holdfast.manage.words.views import failed_at_once, hints, is_odd, summary
from holdfast.process.clock import wall_clock
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.fleet.library import Fleet
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps

    Json = dict[str, Any]

_AT_ONCE = 16
_HERE = ""


class FleetLook(Record):
    """How one placed run stands, and what came of asking its node."""

    placement: Placement
    info: RunInfo
    look: NodeLook


class FleetOverview:
    """One look at the runs here and elsewhere; what is going on comes first.

    `on` leaves only those of one target, or of one kind of engine.
    """

    def __init__(
        self,
        fleet: Fleet,
        selection: Selection,
        *,
        since: float | None,
        limit: int | None = None,
        on: str | None = None,
        is_plain: bool = False,
    ) -> None:
        """`is_plain`: less the starts that failed at once, which whoever started them was told."""
        self._is_plain = is_plain
        self._fleet = fleet
        self._selection = selection.replace(since=since)
        self._limit = limit
        self._on = on
        self._shown: list[RunInfo] = []
        self._nodes: dict[str, str] = {}

    def __iter__(self) -> Iterator[RunInfo]:
        found = {info.id: info for info in self._elsewhere()}
        if self._on is None:
            here = select_runs(self._fleet.runs.home, self._selection, closely=True)
            found.update((info.id, info) for info in here)
        ordered = sorted(found.values(), key=place_of, reverse=True)
        self._shown = ordered[: self._limit]
        return iter(self._shown)

    def _elsewhere(self) -> Iterator[RunInfo]:
        every = list(self._fleet.ledger.every())
        for one in every:
            if not isinstance(one, Placement) and self._on is None:
                self._nodes[one.id] = "?"
                yield unreadable_info(one.id, one.fault)
        meant = [one for one in every if isinstance(one, Placement) and self._is_meant(one)]
        for placement, info in run_steps(look_at_all(self._fleet, meant)):
            self._nodes[info.id] = placement.where
            if self._selection.fits(info) and not (self._is_plain and failed_at_once(info)):
                yield info

    def _is_meant(self, placement: Placement) -> bool:
        if self._on is not None and self._on not in (placement.target, placement.engine):
            return False
        at, since = placement.ended_at, self._selection.since
        return at is None or since is None or _seconds(at) >= since

    def node_of(self, info: RunInfo) -> str:
        """Where it runs; empty: here."""
        return self._nodes.get(info.id, _HERE)

    def command_of(self, info: RunInfo) -> str:
        """What a run runs, without secrets; empty: not known."""
        from holdfast.shell_words import command_line

        return command_line(info.command or [])

    def summary(self) -> str:
        """What was given, in one line."""
        return summary(info.state for info in self._shown)

    def hints(self) -> list[str]:
        """What should be done about that."""
        return hints(one for one in self._shown if is_odd(one) and not self.node_of(one))


def _seconds(at: str) -> float:
    from holdfast.process.clock import seconds_of

    return seconds_of(at)


def look_at_all(
    fleet: Fleet, placements: list[Placement]
) -> Steps[list[tuple[Placement, RunInfo]]]:
    """How each of them stands: one question to each node that may have active ones."""
    asked: dict[tuple[str, str], list[Placement]] = {}
    for one in placements:
        key = node_key(one)
        if key is not None:
            asked.setdefault(key, []).append(one)
    groups = list(asked.values())
    steps = [look_at_group(fleet, group) for group in groups]
    found: dict[str, FleetLook] = {}
    for group, answer in zip(groups, (yield from together(steps, _AT_ONCE)), strict=True):
        is_silent = isinstance(answer, HoldfastError)  # this node: the others are shown as they are
        looked = look_at_silent(fleet, group, answer.message) if is_silent else answer
        found.update((one.placement.id, one) for one in looked)
    looks = (found.get(one.id) or look_from_here(fleet, one) for one in placements)
    return [(one.placement, one.info) for one in looks]


def look_at_group(fleet: Fleet, group: list[Placement]) -> Steps[list[FleetLook]]:
    """How the runs of one node stand: one question for all of them."""
    sights = yield from _ask_node(fleet, group)
    return [_judged(fleet, sight) for sight in sights]


def look_at_silent(fleet: Fleet, group: list[Placement], why: str) -> list[FleetLook]:
    """The runs of one node that could not be asked."""
    return [look_from_here(fleet, one, NodeLook.SILENT, why) for one in group]


def look_from_here(
    fleet: Fleet, placement: Placement, look: NodeLook = NodeLook.NOT_ASKED, why: str = ""
) -> FleetLook:
    """How one stands by what is kept here; nobody is asked."""
    silent_since = None if look is NodeLook.NOT_ASKED else seen_at(fleet, placement)
    last = fleet.ledger.recall(placement.id)
    return _judged(fleet, Sight(placement, look, why, last=last, silent_since=silent_since))


def node_key(placement: Placement) -> tuple[str, str] | None:
    """The node to ask about it; None: there is none to ask."""
    if placement.ended_at is None and placement.dropped is None and placement.reservation:
        # Where no node is known yet, only its own reservation leads to it.
        return placement.target, placement.node or placement.id
    return None


def _judged(fleet: Fleet, sight: Sight) -> FleetLook:
    note_end(fleet, sight.placement, sight)
    last = None if sight.last is None else sight.last.run
    info = fit_info(sight.placement, judge(sight), last)
    return FleetLook(sight.placement, info, sight.look)


def _ask_node(fleet: Fleet, group: list[Placement]) -> Steps[list[Sight]]:
    """What one node says about its runs; of those that it has not, what the engine says."""
    look, why, documents = NodeLook.ABSENT, "", {}
    try:
        documents = yield from _documents(fleet, group)
    except OtherNode as error:
        look, why = NodeLook.OTHER, error.message
    except NoAnswer as error:
        look, why = NodeLook.SILENT, error.message
    sights = []
    for one in group:
        document = documents.get(one.id)
        if document is not None:
            fleet.ledger.remember(one.id, document)
            last = LastLook(wall_clock(), document)
            sights.append(Sight(one, NodeLook.ANSWERED, last=last))
            continue
        last_known, engine = fleet.ledger.recall(one.id), None
        try:
            if one.bound is not None:
                engine = yield from fleet.placer_of(one.target).look(one.bound)
        except HoldfastError as error:
            why = why or error.message
        settled = settle_dropped(fleet, one, engine)
        sights.append(Sight(settled, look, why, engine, last_known, seen_at(fleet, one)))
    return sights


def _documents(fleet: Fleet, group: list[Placement]) -> Steps[dict[str, Json]]:
    words = ["--json", "ls", *(one.id for one in group)]
    reply = yield from ask(fleet, group[0], words)
    try:
        document = read_json(reply.output.decode())
    except (ValueError, RecursionError):
        return {}
    runs = document.get("runs") if isinstance(document, dict) else None
    return {str(run.get("id")): run for run in runs or () if isinstance(run, dict)}


def since_of(window: float | None) -> float | None:
    """Ended before that is left out; in seconds since the epoch."""
    return None if window is None else time.time() - window
