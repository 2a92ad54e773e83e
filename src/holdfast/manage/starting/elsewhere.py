"""The way to runs on other machines, as far as this layer knows one.

`holdfast.fleet` lies above, and uses what is here; so it is found by its name, once a caller asks
for another machine or a reference leads there. Otherwise the cost is one look for a directory.
"""

from __future__ import annotations

import os

from holdfast.options import PLACING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol, Self

    from holdfast.manage.info import RunInfo
    from holdfast.manage.live import LiveChanges
    from holdfast.manage.operations import Steps
    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs
    from holdfast.manage.selection import Selection
    from holdfast.manage.words.views import Row
    from holdfast.run.home import Home

    class Prepared(Protocol):
        """A start on another machine that was checked, and not begun."""

        @property
        def name(self) -> str: ...
        def steps(self) -> Steps[Run]: ...

    class OpenFleet(Protocol):
        """The other machines, as one home knows them."""

        def __enter__(self) -> Self: ...
        def __exit__(self, *_: object) -> None: ...
        def close(self) -> None: ...
        def prepare(self, argv: Sequence[str], options: dict[str, Any]) -> Prepared: ...

    class FleetSight(Protocol):
        """How a run elsewhere was seen last."""

        @property
        def info(self) -> RunInfo: ...
        @property
        def row(self) -> Row: ...
        @property
        def where(self) -> str: ...
        @property
        def is_reached(self) -> bool: ...

    class FleetWatcher(Protocol):
        """Runs elsewhere, kept fresh."""

        def look_again(self, run_id: str) -> None: ...
        def sight(self, run_id: str) -> FleetSight | None: ...
        def end(self) -> None: ...

    class FleetLibrary(Protocol):
        """What this layer asks of `holdfast.fleet.library`."""

        def open_fleet(self, runs: Runs) -> OpenFleet: ...
        def find(self, runs: Runs, reference: str) -> Run: ...
        def watch(
            self,
            runs: Runs,
            tell: Callable[[LiveChanges], None],
            selection: Selection | None,
            *,
            window: float | None,
            is_plain: bool,
        ) -> FleetWatcher: ...
        def wait_steps(
            self,
            runs: Sequence[Run],
            *,
            any_of: bool,
            attention: bool,
            timeout: float | str | None,
        ) -> Steps[list[RunInfo]]: ...


_stays_here = False


def stay_here() -> None:
    """From here on no reference leads to another machine: a node answers for its own runs alone.

    It may export to the ledger that the asking machine uses. A run that it does not have would be
    looked for where it was placed: at this node, and so on.
    """
    global _stays_here
    _stays_here = True


def fleet() -> FleetLibrary:
    """The layer above, loaded now."""
    from importlib import import_module

    library: Any = import_module("holdfast.fleet.library")
    found: FleetLibrary = library
    return found


def is_placed(options: Mapping[str, Any]) -> bool:
    """Whether a start is meant for another machine, or speaks of one."""
    return any(options.get(name) is not None for name in PLACING)


def start_elsewhere(runs: Runs, argv: Sequence[str], options: dict[str, Any]) -> Steps[Run]:
    """Start a run on another machine."""
    with fleet().open_fleet(runs) as opened:
        return (yield from opened.prepare(argv, options).steps())


def leads_elsewhere(home: Home) -> bool:
    """Whether runs were placed elsewhere from this home."""
    return not _stays_here and os.path.isdir(f"{home.fleet_path}/placements")


def may_be_elsewhere(references: Sequence[str]) -> bool:
    """Whether any of them may mean a run on another machine; nothing is read for that."""
    from holdfast.run.home import Home

    home = Home.locate()
    if leads_elsewhere(home):
        return True
    if all(_is_here(home, one) for one in references):
        return False
    return has_shared_ledger()


def _is_here(home: Home, reference: str) -> bool:
    """Whether a name or a whole id leads to a run of this home."""
    if "/" in reference:
        return True  # no name: its reader reports it
    path = os.path.exists
    return path(f"{home.names_path}/{reference.lower()}") or path(f"{home.runs_path}/{reference}")


def has_shared_ledger() -> bool:
    """Whether others may have placed runs that this home does not know of."""
    from holdfast.manage.starting.config import load_config

    return not _stays_here and bool(load_config().fleet.get("ledger", "home") != "home")
