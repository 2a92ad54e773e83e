"""From `queued` to `admitted`: a shim that waits before it starts the command.

The conditions hold one after the other: time, then other runs, then a slot of a queue. Nothing is
forked before `admitted` is on disk. What a start and an end need is loaded before the wait: an
upgrade of the files meanwhile mixes no versions.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process.context import own_context
from holdfast.process.oom import OomWatch
from holdfast.run.conclusion import OWN_EXIT_CODE
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.facts import AttemptEnd
from holdfast.run.queueing.plan import MOST_PRIORITY
from holdfast.run.queueing.waking import VERB as TURN
from holdfast.shim.beginning import LOG_FLAGS
from holdfast.shim.restarts import next_try_seconds
from holdfast.shim.waiting.conditions import After, Moment
from holdfast.shim.waiting.turn import QueueBusy, Turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.control import Client
    from holdfast.shim.requests import Requests
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.waiting.conditions import Condition

_FAILED_SECONDS = 15.0
_SETTLE_SECONDS = 0.2  # between looks whether a full disk has taken the record


class Waiting:
    """The wait of one run."""

    def __init__(self, supervisor: Supervisor) -> None:
        waits: dict[str, Any] = supervisor.spec.waits or {}
        self._supervisor = supervisor
        self._tries = 0
        self._is_over = False  # admitted, cancelled, or a condition failed
        self._is_starting = False  # admitted, and not started yet
        self._has_failed = False
        self._conditions: list[Condition] = []
        moment = Moment.of(supervisor.loop, waits, self.look)
        if moment is not None:
            self._conditions.append(moment)
        for target in waits.get("after") or ():
            self._conditions.append(After(supervisor, target, self.look, self._fail))
        if waits.get("queue") is not None:
            self._conditions.append(Turn(supervisor, waits, self.look))

    def begin(self) -> None:
        """Record that it waits, look once, and tell the launcher."""
        supervisor = self._supervisor
        supervisor.guarded("output", self._make_output)
        try:
            context = own_context()
        except (HoldfastError, OSError) as error:  # nothing was promised yet
            self._fail(f"it could not be set waiting: {error}")
            return
        supervisor.journal.record(Kind.QUEUED, context=context)
        crash_point("shim.queued")
        if supervisor.journal.facts.paused is not None:
            supervisor.guarded("queue", self.hold)  # the shim before us may have died before that
        self.look()
        if not self._is_over:  # else the launcher is to hear whether the command runs
            supervisor.on_ready()
        for begin in supervisor.on_waiting:
            supervisor.guarded("begin", begin)

    def _make_output(self) -> None:
        os.close(os.open(self._supervisor.directory.output_path, LOG_FLAGS, 0o600))

    def close(self) -> None:
        """The run has ended."""
        self._is_over, self._is_starting = True, False
        for condition in self._conditions:
            condition.close()

    def move(self, priority: int | None, *, first: bool) -> None:
        """To another place in the line. ValueError when it stands in none."""
        turn = self._conditions[-1] if self._conditions else None
        if self._is_over or not isinstance(turn, Turn):
            raise ValueError("it does not wait in a queue")
        turn.move(priority, first=first)
        self.look()

    def look(self) -> None:
        """Does every condition hold? The first that does not wakes us when it may.

        A look that fails is no verdict: it is said once, and looked again.
        """
        try:
            self._look()
        except (HoldfastError, OSError) as error:  # no descriptor is left
            if not self._has_failed:
                self._has_failed = True
                self._supervisor.journal.record_fault("waiting", error)
            self._supervisor.loop.after("look", _FAILED_SECONDS, self.look)

    def _look(self) -> None:
        if self._is_starting:
            self._start()
        while not self._is_over and self._may_go_on():
            if not self._conditions:
                self._admit()
                return
            if not self._conditions[0].holds():
                return
            self._conditions.pop(0).close()

    def hold(self) -> None:
        """The run is paused: others go past it."""
        for condition in self._conditions:
            if isinstance(condition, Turn):
                condition.step_back()

    def _may_go_on(self) -> bool:
        supervisor = self._supervisor
        return supervisor.stop_cause is None and supervisor.journal.facts.paused is None

    def _admit(self) -> None:
        self._is_over = self._is_starting = True
        if not self._supervisor.journal.facts.is_admitted:  # a turn has recorded it under the baton
            self._supervisor.journal.record(Kind.ADMITTED)
        crash_point("shim.admitted")
        self._start()

    def _start(self) -> None:
        supervisor = self._supervisor
        if not self._may_go_on():
            return
        if not supervisor.journal.is_settled:
            self._start_later(_SETTLE_SECONDS)
            return
        try:
            supervisor.oom = OomWatch()  # what was killed before was not this command
            supervisor.start_attempt()
            self._is_starting = False
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has to be ended
            self._tries += 1
            delay = next_try_seconds(error, self._tries)
            if delay is None or supervisor.attempt.number:
                self._fail(f"the command could not be started: {error}")
            else:
                supervisor.journal.record_fault("start", error)
                self._start_later(delay)

    def _start_later(self, seconds: float) -> None:
        self._supervisor.on_ready()  # its launcher need not wait for that
        self._supervisor.loop.after("waiting", seconds, self._start)

    def _fail(self, why: str) -> None:
        """It will never start."""
        self._is_over, self._is_starting = True, False
        self._supervisor.attempt.end = AttemptEnd(failure_code=OWN_EXIT_CODE, evidence=why)
        self._supervisor.finish()


def serve_waiting(supervisor: Supervisor, requests: Requests) -> None:
    """What may be asked of a run that waits, or waited."""
    requests.verbs[TURN] = lambda client, _request: _take_turn(supervisor, client)
    requests.verbs["requeue"] = lambda client, request: _move(supervisor, client, request)


def _take_turn(supervisor: Supervisor, client: Client) -> None:
    client.answer({"ok": True})
    if supervisor.waiting is not None:
        supervisor.waiting.look()


def _move(supervisor: Supervisor, client: Client, request: dict[str, Any]) -> None:
    priority = request.get("priority")
    if priority is not None and (type(priority) is not int or abs(priority) > MOST_PRIORITY):
        raise ValueError("priority is not a number that a queue has")
    if supervisor.waiting is None:
        raise ValueError("it does not wait in a queue")
    try:
        supervisor.waiting.move(priority, first=request.get("first") is True)
    except QueueBusy as error:
        client.answer({"ok": False, "error": str(error), "code": "busy"})
    else:
        client.answer({"ok": True})
