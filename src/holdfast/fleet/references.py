"""Which run a person means, here or elsewhere.

A run whose directory is in this home is a local one. A name may mean both: an active one goes
before an ended one, a newer before an older; two active ones have to be told apart by id. A start
that is under way, and that its node does not have yet, takes the name from no active one.
"""

from __future__ import annotations

from holdfast.errors import InvalidName, NoAnswer, RunNotFound
from holdfast.fleet.library import Fleet
from holdfast.fleet.reaching import look_steps
from holdfast.fleet.remote import RemoteRun
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id_prefix
from holdfast.run.references import SHORTEST_PREFIX, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.fleet.placement import Placement
    from holdfast.manage.info import RunInfo
    from holdfast.manage.runs import Runs


def find_run(runs: Runs, reference: str) -> Run:
    """The one that is meant. InvalidName when that is not clear, RunNotFound when none is."""
    fleet = Fleet(runs)
    try:
        local = resolve(runs.home, reference)
    except RunNotFound as error:
        placement = meant_placement(fleet, reference, None)
        if placement is None:
            error.hint = f"{error.hint}; `holdfast ls --fleet` shows those elsewhere too"
            raise
        return RemoteRun(fleet, placement)
    try:
        placement = meant_placement(fleet, reference, local)
    except NoAnswer as error:
        runs._notice(f"{error.message}; {reference} is the run of this home")
        placement = None
    return Run(runs, local) if placement is None else RemoteRun(fleet, placement)


def meant_placement(fleet: Fleet, reference: str, local: str | None) -> Placement | None:
    """The placement that is meant; None: the local run is, or there is none."""
    home = fleet.runs.home
    found = [
        one
        for one in _candidates(fleet, reference)
        if one.id != local and not RunDirectory(home, one.id).exists()
    ]
    if not found:
        return None
    active = [one for one in found if not one.is_over]
    is_active_here = local is not None and RunDirectory(home, local).is_marked_active()
    if len(active) + is_active_here > 1:
        active = _look_which(fleet, active, is_active_here)
    if len(active) + is_active_here > 1:
        shown = [f"{one.id} ({one.where})" for one in active]
        raise _ambiguous(reference, [*shown, f"{local} (here)"] if is_active_here else shown)
    if is_active_here:
        return None
    if not active and len(found) > 1 and found[0].name.lower() != reference.lower():
        raise _ambiguous(reference, [f"{one.id} ({one.where})" for one in found])
    best = active[0] if active else found[0]
    return best if local is None or active or best.id > local else None


def _look_which(fleet: Fleet, several: list[Placement], is_active_here: bool) -> list[Placement]:
    """Those that are active at a look: the ledger need not know of an end, or of a start."""
    infos: dict[str, RunInfo] = {one.id: run_steps(look_steps(fleet, one)) for one in several}
    active = [one for one in several if infos[one.id].is_active]
    started = [one for one in active if one.committed_at or infos[one.id].state.is_under_way]
    return started if started or is_active_here else active


def _candidates(fleet: Fleet, reference: str) -> list[Placement]:
    """Those of that name; else those whose id begins so."""
    named = _newest_on_each(fleet.ledger.called(reference))
    if named:
        return named
    prefix = reference.lower()
    if len(prefix) < SHORTEST_PREFIX or not is_id_prefix(prefix):
        return []
    return fleet.ledger.beginning(prefix)


def _newest_on_each(named: list[Placement]) -> list[Placement]:
    """A node gives a name to one run at a time: what it started later has it now."""
    found, nodes = [], set()
    for one in named:
        if one.committed_at is None or one.node is None:
            found.append(one)
        elif one.node not in nodes:
            nodes.add(one.node)
            found.append(one)
    return found


def _ambiguous(reference: str, shown: list[str]) -> InvalidName:
    return InvalidName(
        f"{reference} may mean {len(shown)} runs, here or elsewhere",
        hint=f"say which, by id: {', '.join(shown[:5])}",
    )
