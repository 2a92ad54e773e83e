"""What an engine has to offer, so that the order of writes is the same for all of them.

To place is two calls, `reserve` and `commit`: the ledger is written between them.
"""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    from holdfast.errors import HoldfastError
    from holdfast.fleet.channel import Channel
    from holdfast.fleet.placement import EngineView, NodeFacts, Placement, Reservation
    from holdfast.fleet.request import FleetRequest
    from holdfast.manage.doctor.findings import DoctorFinding
    from holdfast.manage.operations import Steps


def nothing_started(error: HoldfastError) -> HoldfastError:
    """The error, with the word of the node that nothing was, or will be, started."""
    error.fields["nothing_started"] = True
    return error


class NodeCall(Record):
    """A command for a node's own holdfast."""

    words: tuple[str, ...]
    stdin: bytes = b""
    shows_errors: bool = False  # what it says on stderr goes to ours; else it is kept
    columns: int | None = None  # of the terminal that its output is for; None: there is none


class StartAnswer(Record):
    """What is known when a placement was committed."""

    node: NodeFacts | None  # None: the engine will choose one
    run: dict[str, Any] | None  # the run's document; None: it waits at the engine
    was_before: bool = False  # it had been started by an earlier call
    notices: tuple[str, ...] = ()  # what the node would have told whoever starts there


if TYPE_CHECKING:

    class Placer(Protocol):
        """One engine, at one target. All of these are operations that have to wait."""

        kind: str  # which engine

        def reserve(self, placement: Placement, is_new: bool, /) -> Steps[Reservation]:
            """Set a place aside; starts nothing. Once for each placement, however often called.

            `is_new`: nobody can have done so before; somebody may at the same time.
            """

        def commit(
            self, placement: Placement, bound: Reservation, request: FleetRequest | None
        ) -> Steps[StartAnswer | None]:
            """Have it started, in the place that the ledger names. Once, however often called.

            Without a request: only find out whether it was. None: it was not.
            """

        def renew(self, placement: Placement, bound: Reservation, /) -> Steps[StartAnswer | None]:
            """Say again that it may begin, if the engine has lost that, and no node has begun it.

            None: nothing was lost.
            """

        def look(self, bound: Reservation, /) -> Steps[EngineView | None]:
            """What the engine says; None: it has nothing to say."""

        def look_at_all(self, bounds: Sequence[Reservation], /) -> Steps[list[EngineView | None]]:
            """What it says of many, by one question: of each, in order, what a wait needs."""

        def reach(self, placement: Placement, call: NodeCall) -> Steps[Channel]:
            """Run a command of the node's own holdfast."""

        def attach_argv(self, placement: Placement, words: Sequence[str]) -> list[str]:
            """The program that runs such a command on our own terminal; 255 is its own failure."""

        def cancel(self, reservation: Reservation, /) -> Steps[None]:
            """Give a place back in which nothing was, or will be, started."""

        def end(self, bound: Reservation, /) -> Steps[str | None]:
            """For a stop that does not reach the node: have the engine end what it holds.

            What it was asked, in words; None: it can't, or holds nothing any more.
            """

        def check(self) -> Steps[list[DoctorFinding]]:
            """What of the engine's own settings would harm a run."""

        def close(self) -> None:
            """Close what is kept open; it may be used again."""
