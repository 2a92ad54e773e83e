"""Ray places: a placement group with a name is the reservation, and starts nothing.

It is detached: it hangs on no process, and its name is unique, so a submitter that was killed finds
it again. The node where Ray put it is bound in the ledger; when Ray moves the group later, the run
is still where it was. Everything goes over a program of ours: Ray is not loaded here.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import HoldfastError, NoAnswer, Unavailable
from holdfast.fleet.channel import Channel
from holdfast.fleet.placement import EngineView, Reservation
from holdfast.fleet.programs import run_program
from holdfast.fleet.session import (
    StartSession,
    asked_of,
    commit_over,
    refuse_other_node,
    relay_line,
    tty_word,
)
from holdfast.lean import json_text, read_json
from holdfast.manage.doctor.findings import failed, works

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.fleet.placement import Placement
    from holdfast.fleet.placer import NodeCall, StartAnswer
    from holdfast.fleet.request import FleetRequest
    from holdfast.fleet.settings import FleetTarget
    from holdfast.manage.doctor.findings import DoctorFinding
    from holdfast.manage.operations import Steps

    Json = dict[str, Any]

_ADDRESS = "auto"  # of RAY_ADDRESS, else the cluster that this machine is a part of
_ROOM_SECONDS = 10.0  # for the program's own start, over what Ray is given
_FIELDS = ("group", "name", "ray_node", "host")  # of a group, in the ledger


class RayPlacer:
    """One cluster, and perhaps one node of it."""

    kind = "ray"

    def __init__(self, target: FleetTarget) -> None:
        self._target = target
        self._settings = target.settings
        self._sessions: dict[str, StartSession] = {}  # by placement: opened, and not committed
        self._idle: dict[str, StartSession] = {}  # by Ray's node: can start more

    def close(self) -> None:
        """Close sessions of nodes that wait for a request."""
        for session in (*self._sessions.values(), *self._idle.values()):
            session.close()
        self._sessions.clear()
        self._idle.clear()

    def reserve(self, placement: Placement, _is_new: bool) -> Steps[Reservation]:
        """A group, and which node answers where Ray has put it."""
        made = yield from self._call(
            "reserve",
            name=f"hf-{placement.id}",
            bundle=bundle_of(placement),
            seconds=self._settings.answer_seconds,
            on_node=placement.request.get("on_node"),
            on_host=placement.request.get("on_host"),
        )
        held = Reservation("ray", {name: made[name] for name in _FIELDS})
        try:
            session = yield from self._open(held, asked_of(placement.request))
            self._sessions[placement.id] = session
            refuse_other_node(placement, session.facts)
        except HoldfastError:
            yield from self.cancel(held)
            raise
        return Reservation("ray", {**held.handle, "node": session.facts.node})

    def commit(
        self, placement: Placement, bound: Reservation, request: FleetRequest | None
    ) -> Steps[StartAnswer | None]:
        """Have the bound node start it, wherever Ray has the group by now."""
        session = self._sessions.pop(placement.id, None)
        if session is None:
            session = yield from self._open(bound, asked_of(placement.request))
        try:
            answer = yield from commit_over(session, placement, bound.handle["node"], request)
        except BaseException:
            session.close()
            raise
        before = self._idle.pop(bound.handle["ray_node"], None)
        if before is not None:
            before.close()
        self._idle[bound.handle["ray_node"]] = session
        return answer

    def renew(self, _placement: Placement, _bound: Reservation) -> Steps[StartAnswer | None]:
        """A commit is the node's own answer: nothing of it can be lost."""
        yield from ()
        return None

    def look(self, bound: Reservation) -> Steps[EngineView | None]:
        """What Ray says of the group; it waits for nothing, since its node was known before."""
        said = yield from self._call("look", bound=bound.handle)
        word = said["state"] if said["is_alive"] else f"{said['state']}, its node DEAD"
        return EngineView("ray", word, is_gone=said["state"] == "REMOVED", node=said["host"])

    def look_at_all(self, bounds: Sequence[Reservation]) -> Steps[list[EngineView | None]]:
        """One by one: a run is bound to its node before it is committed, so there are few."""
        found: list[EngineView | None] = []
        for bound in bounds:
            view = yield from self.look(bound)
            found.append(view)
        return found

    def reach(self, placement: Placement, call: NodeCall) -> Steps[Channel]:
        """The node's own holdfast, at its desk."""
        channel = self._channel(_handle(placement), "relay", shows_errors=call.shows_errors)
        line = relay_line(call.words, placement.node, columns=call.columns)
        yield from channel.write(line + call.stdin)
        channel.end_input()
        return channel

    def attach_argv(self, placement: Placement, words: Sequence[str]) -> list[str]:
        """The program that runs a command of the node's own holdfast on our terminal."""
        word = tty_word(words, placement.node)
        return self._argv(
            "session", bound=_handle(placement), words=f"relay {word}", on_terminal=True
        )

    def cancel(self, reservation: Reservation) -> Steps[None]:
        """Give the group back."""
        yield from self._call("cancel", bound=reservation.handle)

    def end(self, _bound: Reservation) -> Steps[str | None]:
        """Ray has no hold on a run."""
        yield from ()
        return None

    def check(self) -> Steps[list[DoctorFinding]]:
        """Which Ray it is, and whether it has such a node."""
        try:
            said = yield from self._call("check")
        except HoldfastError as error:
            return [failed("ray", error.message, error.hint)]
        nodes = said["nodes"]
        return [works("ray", f"Ray {said['version']}, {len(nodes)} nodes: {', '.join(nodes)}")]

    def _open(self, held: Reservation, asked: Sequence[str]) -> Steps[StartSession]:
        session = self._idle.pop(held.handle["ray_node"], None)
        if session is None:
            session = StartSession(self._channel(held.handle, "start"), self._target.where)
        try:
            yield from session.begin(asked)
        except BaseException:
            session.close()
            raise
        return session

    def _channel(self, handle: Json, words: str, *, shows_errors: bool = False) -> Channel:
        return Channel(
            self._argv("session", bound=handle, words=words),
            self._target.where,
            answer_seconds=self._settings.answer_seconds,
            shows_errors=shows_errors,
        )

    def _call(self, do: str, **more: Any) -> Steps[Json]:
        """One question to Ray; what its answer lacks is raised."""
        seconds = self._settings.answer_seconds + _ROOM_SECONDS
        argv = self._argv(do, **more)
        ended = yield from run_program(argv, seconds=seconds, name=self._target.where)
        try:
            said: Json = read_json(ended.output)
        except ValueError:
            raise NoAnswer(
                f"{self._target.where} can't be reached: {ended.last_line}",
                hint=f"holdfast fleet check {self._target.where} says more",
            ) from None
        if ended.code:
            kind = Unavailable if said["kind"] in ("no_room", "no_node") else NoAnswer
            raise kind(f"{self._target.where}: {said['message']}; nothing was started")
        return said

    def _argv(self, do: str, **more: Any) -> list[str]:
        """The program that leads to Ray. Nothing that is secret is among its words."""
        import hashlib

        settings = self._settings
        way = hashlib.sha256(f"{settings.command}\0{settings.home}".encode()).hexdigest()[:8]
        asked = {
            "do": do,
            "address": settings.host or os.environ.get("RAY_ADDRESS") or _ADDRESS,
            "command": settings.command,
            "home": settings.home,
            "way": way,
            "target": self._target.name,
            **more,
        }
        paths = os.pathsep.join(_paths())
        program = ["env", f"PYTHONPATH={paths}", sys.executable, "-m", "holdfast.fleet.ray.way"]
        return [*program, json_text(asked)]


def bundle_of(placement: Placement) -> Json:
    """What Ray is asked to set aside: it counts, and enforces nothing."""
    wanted = placement.resources
    bundle: Json = {"CPU": wanted.cpus or 1}
    if wanted.memory_bytes:
        bundle["memory"] = wanted.memory_bytes
    if wanted.gpus:
        bundle["GPU"] = wanted.gpus
    return bundle


def _handle(placement: Placement) -> Json:
    bound = placement.bound
    return {} if bound is None else bound.handle


def _paths() -> list[str]:
    """Where Holdfast and Ray lie, for a program of the same interpreter."""
    from importlib.util import find_spec

    import holdfast

    ray = find_spec("ray")
    if ray is None or ray.origin is None:
        raise Unavailable(
            "runs are placed by Ray through its library, which is not installed",
            hint="pip install 'holdfast[ray]'",
        )
    found = [
        os.path.dirname(os.path.dirname(str(path))) for path in (holdfast.__file__, ray.origin)
    ]
    return list(dict.fromkeys(found))
