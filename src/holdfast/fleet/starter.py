"""The node's side of a start: says who it is, then starts what it is told, each id once.

One line of JSON in, one line out, until the input ends. A submitter that dies before it has sent a
request leaves nothing; one that dies after it leaves a supervised run.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused, WrongUse
from holdfast.fleet.node import marked, node_facts
from holdfast.fleet.request import RERUN, RESUME, START, FleetRequest
from holdfast.lean import read_json
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.starting.request import GivenId
from holdfast.run.atomic_files import write_all
from holdfast.run.claims import was_given
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.manage.operations import Steps

    Json = dict[str, Any]


def serve_starts(runs: Runs, fd_in: int, fd_out: int) -> None:
    """Until the input ends."""
    facts = node_facts(runs.home, make=True)
    write_all(fd_out, marked({"hello": facts.to_json()}))
    for line in _lines(fd_in):
        write_all(fd_out, marked(answer(runs, facts.node, line)))


def answer(runs: Runs, node: str, line: bytes) -> Json:
    """What became of one request, as the submitter reads it."""
    try:
        asked = read_json(line.decode())
        if not isinstance(asked, dict) or not is_id(str(asked.get("id"))):
            raise WrongUse("a request for a start is a JSON object with an id")
        if asked.get("node") != node:
            raise Refused(f"this is node {node}, and the run is bound to {asked.get('node')}")
        directory = RunDirectory(runs.home, str(asked["id"]))
    except (ValueError, HoldfastError) as error:
        return _failure(error, is_made=False)
    was_before = was_given(runs.home, directory.id)
    notices: list[str] = []
    try:
        if asked.get("do") != "find":
            run_steps(start_given(_heard(runs, notices), asked))
        elif not was_before:
            return {"answer": {"run": None, "was_before": False}}
    except (HoldfastError, OSError) as error:
        return _failure(error, is_made=directory.exists() or was_before)
    run = Run(runs, directory.id).info().to_json() if directory.exists() else None
    return {"answer": {"run": run, "was_before": was_before, "notices": notices}}


def _heard(runs: Runs, notices: list[str]) -> Runs:
    """The same runs; what a start tells is kept too."""

    def hear(text: str) -> None:
        notices.append(text)
        runs._notice(text)

    return Runs(runs.home.path, tags=runs.tags, notice=hear)


def start_given(runs: Runs, asked: Json) -> Steps[RunDirectory]:
    """Start a run under the id that it was given, or find the one that has it."""
    request = FleetRequest.from_json(asked["request"])
    given = GivenId(str(asked["id"]), asked.get("key"), asked.get("placement"))
    return _MAKERS[request.do](runs, request, given)


def _start(runs: Runs, request: FleetRequest, given: GivenId) -> Steps[RunDirectory]:
    options = {"cwd": os.path.expanduser("~"), **request.keywords()}
    options["cwd"] = os.path.join(os.path.expanduser("~"), os.path.expanduser(options["cwd"]))
    return runs._start_here(request.argv, name=request.name, given=given, **options)


def _resume(runs: Runs, request: FleetRequest, given: GivenId) -> Steps[RunDirectory]:
    from holdfast.manage.starting.resuming import resume_steps

    return resume_steps(runs, runs.get(str(request.of)).directory, request.prompt, given=given)


def _rerun(runs: Runs, request: FleetRequest, given: GivenId) -> Steps[RunDirectory]:
    from holdfast.manage.starting.resuming import rerun_steps

    changes = {**request.keywords(), "given": given}
    return rerun_steps(runs, runs.get(str(request.of)).directory, changes)


_MAKERS: dict[str, Callable[[Runs, FleetRequest, GivenId], Steps[RunDirectory]]] = {
    START: _start,
    RESUME: _resume,
    RERUN: _rerun,
}


def _failure(error: BaseException, *, is_made: bool) -> Json:
    if not isinstance(error, HoldfastError):
        from holdfast.errors import Unavailable

        error = Unavailable(f"{error}")
    document = error.to_json()["error"]
    return {"error": {**document, "exit_code": error.exit_code}, "is_made": is_made}


def _lines(fd: int) -> Iterator[bytes]:
    rest = b""
    while data := os.read(fd, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
