"""An engine in a directory, for the order of writes: what it holds and what it started are files.

It keeps the promises of the protocol and no more: a reservation is found again by the placement's
id, a commit starts each id once. Run as a program it places one run, and may be killed on the way.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import AlreadyRunning, NoAnswer
from holdfast.fleet.ledger import HomeLedger
from holdfast.fleet.order import place, resettle
from holdfast.fleet.placement import NodeFacts, Placement, Reservation
from holdfast.fleet.placer import StartAnswer, nothing_started
from holdfast.fleet.postgres import PostgresLedger
from holdfast.fleet.request import FleetRequest
from holdfast.manage.operations import run_steps
from holdfast.process.clock import wall_clock
from holdfast.run.home import Home
from holdfast.run.names import new_id

if TYPE_CHECKING:
    from holdfast.manage.operations import Steps

FACTS = NodeFacts("0tqwwj27vvky24kza0yx", "0035969e", "n1", None, "/h", "0.1.0", 1, ())


class FakeEngine:
    """One place with room for everything. `moves`: each reservation gets another number."""

    kind = "fake"

    def __init__(self, path: Path, *, moves: bool = False) -> None:
        self.path = path
        self._moves = moves
        for name in ("held", "started"):
            (path / name).mkdir(parents=True, exist_ok=True)

    def reserve(self, placement: Placement, _is_new: bool) -> Steps[Reservation]:
        yield from ()
        number = new_id() if self._moves else placement.id
        (self.path / "held" / number).touch()
        return Reservation("fake", {"number": number})

    def commit(
        self, placement: Placement, bound: Reservation, request: FleetRequest | None
    ) -> Steps[StartAnswer | None]:
        yield from ()
        if (self.path / "refuses").exists():
            raise nothing_started(AlreadyRunning("the name is taken there"))
        path = self.path / "started" / placement.id
        was_before = path.exists()
        if request is None and not was_before:
            return None
        with path.open("a") as file:
            file.write("" if was_before else f"{bound.handle['number']}\n")
        return StartAnswer(FACTS, {"id": placement.id}, was_before)

    def cancel(self, reservation: Reservation) -> Steps[None]:
        yield from ()
        if (self.path / "silent").exists():
            raise NoAnswer("the engine does not answer")
        (self.path / "held" / reservation.handle["number"]).unlink(missing_ok=True)

    @property
    def held(self) -> list[str]:
        return sorted(path.name for path in (self.path / "held").iterdir())

    @property
    def started(self) -> list[str]:
        return sorted(path.name for path in (self.path / "started").iterdir())


def request_of(env: dict[str, str] | None = None) -> FleetRequest:
    return FleetRequest("start", "a", ("true",), {"env": env} if env else {})


def wanted(key: str | None, request: FleetRequest, target: str = "ssh:n1") -> Placement:
    public, whole = request.public(), request.is_public
    return Placement(new_id(), "a", key, "ssh", target, public, whole, "me@here", wall_clock())


def ledger_of(place: Any) -> Any:
    """Of a home; one that is given is as good."""
    return HomeLedger(Home(str(place))) if isinstance(place, Path) else place


def place_one(place_of_ledger: Any, engine: Any, key: str | None, **more: Any) -> Any:
    """Place a run, as a submitter does."""
    request = request_of(more.get("env"))
    ledger = ledger_of(place_of_ledger)
    target = more.get("target", "ssh:n1")
    return run_steps(place(ledger, lambda _: engine, wanted(key, request, target), request))


def recover(place_of_ledger: Any, engine: Any) -> list[Any]:
    """What `fleet recover` does."""
    ledger = ledger_of(place_of_ledger)
    return [run_steps(resettle(ledger, engine, one)) for one in ledger.unfinished()]


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    os.environ.setdefault("HOLDFAST_HOME", arguments["home"])
    made = FakeEngine(Path(arguments["engine"]), moves=arguments.get("moves", False))
    url = arguments.get("ledger")
    ledger = PostgresLedger(url) if url else Path(arguments["home"])
    placed = place_one(ledger, made, arguments["key"], env=arguments.get("env"))
    print(placed.placement.id)
