"""Runs on other machines, for the library and every interface: one `Fleet` for one home.

It knows the ledger and the engines; it keeps open what can be used again, until it is closed.
"""

from __future__ import annotations

import getpass
import os

from holdfast.errors import RunNotFound
from holdfast.fleet.ledger import HomeLedger
from holdfast.fleet.order import place
from holdfast.fleet.placement import Placement
from holdfast.fleet.request import FleetRequest, take_resources
from holdfast.fleet.settings import HOME, FleetSettings, load_settings, target_of
from holdfast.manage.plaintext import printable
from holdfast.process.clock import wall_clock
from holdfast.run.names import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from holdfast.fleet.ledger import PlacementLedger
    from holdfast.fleet.live.watching import FleetWatch
    from holdfast.fleet.placer import Placer
    from holdfast.fleet.remote import RemoteRun
    from holdfast.fleet.settings import FleetTarget
    from holdfast.manage.info import RunInfo
    from holdfast.manage.live import LiveChanges
    from holdfast.manage.operations import Steps
    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs
    from holdfast.manage.selection import Selection
    from holdfast.run.home import Home


class Fleet:
    """The other machines, as one home knows them. A context manager."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.settings = load_settings()
        self._ledger: PlacementLedger | None = None
        self._placers: dict[str, Placer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is kept open."""
        for placer in self._placers.values():
            placer.close()
        self._placers.clear()
        if self._ledger is not None:
            self._ledger.close()

    @property
    def ledger(self) -> PlacementLedger:
        """Where placements are recorded."""
        if self._ledger is None:
            self._ledger = _ledger_of(self.runs.home, self.settings)
        return self._ledger

    def placer_of(self, where: str) -> Placer:
        """The engine that leads there."""
        if where not in self._placers:
            self._placers[where] = _placer_of(target_of(where, self.settings))
        return self._placers[where]

    def prepare(self, argv: Sequence[str], options: dict[str, Any]) -> PreparedStart:
        """Check a start; nothing is placed yet."""
        options = dict(options)
        where, resources = take_resources(options)
        assert where is not None
        target_of(where, self.settings)
        request = FleetRequest.start(argv, options, resources)
        return PreparedStart(self, where, options.get("key"), request)

    def start_steps(self, prepared: PreparedStart) -> Steps[RemoteRun]:
        """Place what was checked, or find what its key has."""
        from holdfast.fleet.remote import RemoteRun

        self.runs.home.prepare()
        request = prepared.request
        wanted = Placement(
            new_id(),
            request.name,
            prepared.key,
            target_of(prepared.where, self.settings).kind,
            prepared.where,
            request.public(),
            request.is_public,
            submitter(),
            wall_clock(),
        )
        placed = yield from place(self.ledger, self.placer_of, wanted, request)
        answer, placement = placed.answer, placed.placement
        if answer is not None and answer.node is not None:
            self.ledger.see(answer.node, placement.engine, placement.target)
        if answer is not None and answer.run is not None:
            self.ledger.remember(placement.id, answer.run)
        for text in () if answer is None else answer.notices:
            self.runs._notice(printable(text))
        is_ours = placement.id == wanted.id
        return RemoteRun(self, placement, fresh=answer, is_ours=is_ours)


class PreparedStart:
    """A start on another machine that was checked, and not begun."""

    def __init__(self, fleet: Fleet, where: str, key: str | None, request: FleetRequest) -> None:
        self._fleet = fleet
        self.where = where
        self.key = key
        self.request = request

    @property
    def name(self) -> str:
        return self.request.name

    def steps(self) -> Steps[RemoteRun]:
        """Place it."""
        return self._fleet.start_steps(self)


def open_fleet(runs: Runs) -> Fleet:
    """The other machines that the runs of this home may be on."""
    return Fleet(runs)


def _ledger_of(home: Home, settings: FleetSettings) -> PlacementLedger:
    if settings.ledger == HOME:
        return HomeLedger(home)
    from holdfast.fleet.postgres import PostgresLedger

    return PostgresLedger(settings.ledger)


def _placer_of(target: FleetTarget) -> Placer:
    if target.kind == "ssh":
        from holdfast.fleet.ssh import SshPlacer

        return SshPlacer(target)
    if target.kind == "slurm":
        from holdfast.fleet.slurm.placer import SlurmPlacer

        return SlurmPlacer(target)
    from holdfast.fleet.ray.placer import RayPlacer

    return RayPlacer(target)


def submitter() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def find(runs: Runs, reference: str) -> Run:
    """The run that is meant: here, or placed elsewhere."""
    from holdfast.fleet.references import find_run

    return find_run(runs, reference)


def placed_run(runs: Runs, run_id: str) -> RemoteRun:
    """The run that was placed under that id; nobody is asked."""
    from holdfast.fleet.remote import RemoteRun

    fleet = Fleet(runs)
    placement = fleet.ledger.get(run_id)
    if placement is None:
        raise RunNotFound(f"there is no run {run_id}: it was removed", run=run_id)
    return RemoteRun(fleet, placement)


def watch(
    runs: Runs,
    tell: Callable[[LiveChanges], None],
    selection: Selection | None,
    *,
    window: float | None,
    is_plain: bool,
) -> FleetWatch:
    """Runs elsewhere, kept fresh; begun."""
    from holdfast.fleet.live.watching import FleetWatch

    watching = FleetWatch(runs, tell, selection, window=window, is_plain=is_plain)
    watching.begin()
    return watching


def wait_steps(
    runs: Sequence[Run], *, any_of: bool, attention: bool, timeout: float | str | None
) -> Steps[list[RunInfo]]:
    """Until all of them, or one, have ended, wherever they are, or one needs a person."""
    from holdfast.fleet.waiting import wait_for_all

    return wait_for_all(runs, any_of=any_of, attention=attention, timeout=timeout)
