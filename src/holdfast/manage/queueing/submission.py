"""What a start has to wait for: names become ids, times become instants; what can't be is refused.

Each awaited run is told by a marker in `awaited/`, and then looked for again: a removal takes the
run out first and looks for markers after that, so one of the two sees the other.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError, InvalidOption, Refused, WrongUse, argument
from holdfast.manage.queueing.awaiting import note_awaited
from holdfast.manage.queueing.values import OFF
from holdfast.process import this_host
from holdfast.process.clock import boottime, wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.this_host import STAMP
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id
from holdfast.run.queueing.disk import Queue
from holdfast.run.queueing.plan import order_of
from holdfast.run.references import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from holdfast.manage.starting.request import StartRequest
    from holdfast.run.home import Home
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]


def describe_waits(home: Home, request: StartRequest, notice: Callable[[str], None]) -> Json | None:
    """What the spec holds of it; None: the run starts at once. Refused, or WrongUse."""
    given = {key: value for key, value in request.waiting.items() if value not in (None, [], ())}
    if "needs_memory" in given and "queue" not in given:
        _refuse_need(given.pop("needs_memory"), request)
    if not given:
        return None
    waits: Json = {}
    if "at" in given:
        waits["at"] = given["at"]
    if "delay" in given:
        boot_id, now = this_host.place().boot_id, boottime()
        waits["in"] = {"seconds": given["delay"], "boottime": now, "boot_id": boot_id}
        waits["in"]["at"] = wall_clock()
    targets = [
        _target(home, ref, takes_any)
        for key, takes_any in (("after", False), ("after_any", True))
        for ref in given.get(key, ())
    ]
    if targets:
        waits["after"] = targets
        _refuse_own_target(targets, request.name, request.replace)
    if "queue" in given:
        priority = given.get("priority", 0)
        waits.update(queue=given["queue"], priority=priority)
        waits["order"] = order_of(priority, time.time_ns())
        _refuse_other_namespace(Queue(home, given["queue"]))
    elif "priority" in given:
        raise InvalidOption(
            f"{argument('priority')}: there is no queue to have a priority in",
            hint=f"name one: {argument('queue', 'main')}",
            option="priority",
            value=given["priority"],
        )
    _refuse_circle(home, given.get("queue"), targets)
    need = _need(home, given, request, notice) if "queue" in given else None
    return waits if need is None else {**waits, "needs_memory": need}


def _refuse_need(asked: int | str, request: StartRequest) -> None:
    """A need of [defaults] is for the runs of queues alone."""
    if asked != OFF and (request.given_by or {}).get("needs_memory") != "[defaults]":
        raise WrongUse(
            f"{argument('needs_memory')}: only a run of a queue waits for memory",
            hint=f"name one: {argument('queue', 'main')}; or {argument('on', 'WHERE')}, where it"
            " is set aside",
        )


def _need(
    home: Home, given: Json, request: StartRequest, notice: Callable[[str], None]
) -> Json | None:
    """What it has to find free, and where that comes from; None: nothing."""
    queue, asked, by = str(given["queue"]), given.get("needs_memory"), "run"
    if asked is None:
        by = "queue"
        try:
            asked = Queue(home, queue).read_settings().needs_memory
        except (HoldfastError, OSError) as error:
            # Submitted all the same: nothing is admitted while they can't be read.
            notice(f"what the runs of queue {queue} need is not known: {error}")
    if asked in (None, OFF):
        return None
    from holdfast.manage.queueing.needs import NeedFinder  # only such a run pays for it

    finder = NeedFinder(home, queue=queue, name=request.name, agent=request.agent, notice=notice)
    return finder.find(asked, by)


def await_targets(directory: RunDirectory, spec: RunSpec) -> None:
    """Tell each run that is waited for. Refused when one was removed meanwhile."""
    for target in (spec.waits or {}).get("after") or ():
        awaited = directory.sibling(target["run"])
        note_awaited(awaited, directory.id)
        if not awaited.exists():
            raise Refused(
                f"{argument('after', target['name'])}: it was removed just now",
                hint="holdfast ls --all",
                run=target["run"],
            )


def _target(home: Home, ref: str, takes_any: bool) -> Json:
    directory = RunDirectory(home, resolve(home, ref))
    return {"run": directory.id, "name": directory.read_spec().name, "any": takes_any}


def _refuse_own_target(targets: Sequence[Json], name: str, replace: bool) -> None:
    """A run that replaces what it waits for would stop it, and then fail of that."""
    for target in targets if replace else ():
        if str(target["name"]).lower() == name.lower():
            raise Refused(
                f"{argument('replace', True)} would stop {name} ({target['run']}),"
                " which this run is to wait for",
                hint=f"give the new run another name, or leave out {argument('after')}",
                run=target["run"],
            )


def _refuse_circle(home: Home, queue: str | None, targets: Sequence[Json]) -> None:
    """A run inside another that has a slot would wait for what may wait for it.

    It does so in the queue of that slot, and by `--after` of a run that waits there, or that waits
    for one that does.
    """
    held = {}
    for spec in _outer_runs(home):
        name = (spec.waits or {}).get("queue")
        if name is not None:
            held[str(name).lower()] = spec
    wanted = [] if queue is None else [(argument("queue", queue), queue)]
    if held:
        ids = [str(target["run"]) for target in targets]
        wanted += [(argument("after", name), other) for name, other in queues_behind(home, ids)]
    for given, name in wanted:
        outer = held.get(name.lower())
        if outer is not None:
            raise Refused(
                f"{given}: this is started inside {outer.name} ({outer.id}),"
                f" which has a slot of {name}, and would wait for it",
                hint="use another queue, or none",
                run=outer.id,
            )


def _outer_runs(home: Home) -> Iterator[RunSpec]:
    run_id, seen = os.environ.get(STAMP), set()
    while run_id is not None and is_id(run_id) and run_id not in seen:
        seen.add(run_id)
        try:
            spec = RunDirectory(home, run_id).read_spec()
        except (HoldfastError, OSError):
            return
        yield spec
        run_id = spec.started_in


def queues_behind(home: Home, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(run, queue) of those of these runs that wait in a queue, and of those that they wait for."""
    from holdfast.manage.state import read_facts

    todo, seen = list(ids), set(ids)
    while todo:
        directory = RunDirectory(home, todo.pop())
        try:
            spec = directory.read_spec()
            if spec.waits is None or not read_facts(directory).waits_to_begin:
                continue
        except (HoldfastError, OSError):  # what it waits for is not known
            continue
        if spec.waits.get("queue") is not None:
            yield spec.name, str(spec.waits["queue"])
        behind = {str(target["run"]) for target in spec.waits.get("after") or ()} - seen
        seen |= behind
        todo += behind


def _refuse_other_namespace(queue: Queue) -> None:
    """Whether a run of another PID namespace lives can't be told from here: a slot that its shim
    leaves behind would be taken for free. All live runs of a queue are of one: the first tells."""
    if not queue.exists():
        return
    for run_id in (*queue.active(), *(run_id for _, run_id in queue.waiting())):
        directory = RunDirectory(queue.home, run_id)
        if not directory.lock_is_held():
            continue
        try:
            spec = directory.read_spec()
        except (HoldfastError, OSError):  # the next one tells
            continue
        if this_host.is_elsewhere(ProcessIdentity.from_json(spec.launcher)):
            raise Refused(
                f"queue {queue.name} has live runs of another PID namespace, such as {spec.name}"
                f" ({run_id}), of which it can't be told from here whether they live",
                hint="use another queue, or submit from that container",
                run=run_id,
            )
        return
