"""The order of writes: intent, reserve, bind, commit. A death after any starts nothing twice.

Written in turn: the intent (its key is unique), the reservation at the engine, the binding (compare
and set), the commit (once for each id), that it was committed. Until the binding nothing can run;
after it a placement is never given to another node.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, NoAnswer, Unavailable
from holdfast.fleet.request import FleetRequest
from holdfast.lean import StrEnum
from holdfast.process.clock import wall_clock
from holdfast.record import Record
from holdfast.run.crashpoints import crash_point, set_role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.fleet.ledger import PlacementLedger
    from holdfast.fleet.placement import Placement, Reservation
    from holdfast.fleet.placer import Placer, StartAnswer
    from holdfast.manage.operations import Steps

    PlacerOf = Callable[[str], Placer]  # by WHERE


class Placed(Record):
    """A placement that was committed, and what its node answered."""

    placement: Placement
    answer: StartAnswer | None  # None: an earlier call had committed it


def place(
    ledger: PlacementLedger, placer_of: PlacerOf, wanted: Placement, request: FleetRequest
) -> Steps[Placed]:
    """Place a run, or find the placement that the key already has."""
    set_role("submitter")
    placement = ledger.intend(wanted)
    if placement.reservation is None and placement.target != wanted.target:
        # The key's submitter died early, and now another place is asked for: nothing binds it yet.
        ledger.withdraw(placement.id)
        placement = ledger.intend(wanted)
    crash_point("submitter.intended")
    try:
        placer, is_new = placer_of(placement.target), placement.id == wanted.id
        return (yield from go_on(ledger, placer, placement, request, is_new=is_new))
    except BaseException:
        ledger.withdraw(placement.id)  # unless it is bound: nothing can have been started
        raise


def go_on(
    ledger: PlacementLedger,
    placer: Placer,
    placement: Placement,
    request: FleetRequest | None,
    *,
    is_new: bool = False,
) -> Steps[Placed]:
    """From wherever an earlier call left it. Without a request: only what it needs none for."""
    if placement.committed_at is not None:
        try:
            yield from renew(ledger, placer, placement)
        except NoAnswer:  # as little as any other look would get; what is committed stays so
            pass
        return Placed(placement, None)
    if placement.reservation is None:
        placement = yield from _reserve(ledger, placer, placement, is_new)
    bound = placement.bound
    assert bound is not None
    try:
        answer = yield from placer.commit(placement, bound, request)
    except HoldfastError as error:
        if error.fields.get("nothing_started"):
            yield from _give_back(placer, bound, error)
            ledger.withdraw(placement.id, refused=True)
        raise
    if answer is None:
        raise _needs_its_request(placement)
    crash_point("submitter.committed")
    placement = ledger.note(placement.id, committed_at=wall_clock(), **_node_of(answer))
    return Placed(placement, answer)


def renew(
    ledger: PlacementLedger, placer: Placer, placement: Placement
) -> Steps[StartAnswer | None]:
    """Say again that a committed run may begin, if its engine has lost that. None: it had not."""
    if not placement.may_be_lost or placement.bound is None:
        return None
    answer = yield from placer.renew(placement, placement.bound)
    if answer is not None and answer.node is not None:
        ledger.note(placement.id, **_node_of(answer))
    return answer


def _reserve(
    ledger: PlacementLedger, placer: Placer, placement: Placement, is_new: bool
) -> Steps[Placement]:
    reservation = yield from placer.reserve(placement, is_new)
    crash_point("submitter.reserved")
    try:
        placement = ledger.bind(placement.id, reservation)
    except HoldfastError as error:
        yield from _give_back(placer, reservation, error)
        raise
    crash_point("submitter.bound")
    if placement.bound != reservation:
        yield from placer.cancel(reservation)  # another call with this key was first
    return placement


def _node_of(answer: StartAnswer) -> dict[str, Any]:
    if answer.node is None:
        return {}
    return {"node": answer.node.node, "node_name": answer.node.hostname}


class Settled(StrEnum):
    """What became of a placement whose submitter is gone."""

    STARTED = "started"  # now
    FOUND = "found"  # it had been started
    WITHDRAWN = "withdrawn"  # nothing was started, and nothing will be
    UNKNOWN = "unknown"  # its node does not answer, or only its submitter can start it


class Resettled(Record):
    """What `fleet recover` found out about one placement."""

    placement: Placement
    outcome: Settled
    says: str


def _give_back(placer: Placer, reservation: Reservation, error: HoldfastError) -> Steps[None]:
    """After an error, which is told too where the engine does not take the place back."""
    try:
        yield from placer.cancel(reservation)
    except HoldfastError as failed:
        said = f"{error.message}; its place could not be given back: {failed.message}"
        raise NoAnswer(said, hint=failed.hint) from error


def resettle(ledger: PlacementLedger, placer: Placer, placement: Placement) -> Steps[Resettled]:
    """Go on with a placement whose submitter is gone, as far as the ledger's copy allows."""
    set_role("submitter")
    if placement.committed_at is not None:
        return (yield from _renewed(ledger, placer, placement))
    request = FleetRequest.from_json(placement.request) if placement.is_whole else None
    if placement.reservation is None and request is None:
        ledger.withdraw(placement.id)
        says = "nothing was reserved for it, and its secrets are kept nowhere: forgotten"
        return Resettled(placement, Settled.WITHDRAWN, says)
    try:
        placed = yield from go_on(ledger, placer, placement, request)
    except HoldfastError as error:
        is_over = error.fields.get("nothing_started")
        outcome = Settled.WITHDRAWN if is_over else Settled.UNKNOWN
        return Resettled(placement, outcome, error.message)
    if placed.answer is not None and placed.answer.was_before:
        return Resettled(placed.placement, Settled.FOUND, "it had been started")
    return Resettled(placed.placement, Settled.STARTED, "it is started now")


def _renewed(ledger: PlacementLedger, placer: Placer, placement: Placement) -> Steps[Resettled]:
    answer = yield from renew(ledger, placer, placement)
    if answer is None or answer.was_before:
        return Resettled(placement, Settled.FOUND, "it had been started")
    return Resettled(placement, Settled.STARTED, "its engine had lost that it may begin")


def _needs_its_request(placement: Placement) -> Unavailable:
    return Unavailable(
        f"{placement.name} ({placement.id}) was not started on {placement.where}, and its secrets"
        " are kept nowhere",
        hint="start it again with the same --key; or holdfast fleet give-up frees the key",
        run=placement.id,
    )
