"""The batch process of a placed run: starts it inside the job, waits for it, passes SIGTERM on.

Slurm signals only its own child, and kills the whole group some time later: the attendant stops the
run in between, so that the ending is recorded. A SIGTERM that only warns of the job's limit stops
nothing: the run's own deadline is before it, and ends it as `timed_out`. If the shim dies, its wait
has the run adopted, inside the job. It starts nothing in a job that Slurm has put back. Where a
database is configured, it has the facts exported: a job that is over leads to no node.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, Refused, Unavailable, WrongUse, argument
from holdfast.fleet.export.export_process import run_export
from holdfast.fleet.node import marked, node_facts
from holdfast.fleet.programs import run_program
from holdfast.fleet.slurm.limits import LIMIT_ROOM_SECONDS, WARNING_SECONDS, grace_of
from holdfast.fleet.slurm.words import COMMENT, LONGEST_COMMENT, seconds_left
from holdfast.fleet.starter import answer
from holdfast.lean import json_text, read_json, signal
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.run import Run
from holdfast.process.clock import boottime
from holdfast.run.atomic_files import (
    atomic_write,
    make_directory,
    read_file,
    remove_file,
    write_all,
)
from holdfast.run.locks import lock_is_held, take_lock
from holdfast.run.names import is_id
from holdfast.run.outcomes import run_exit_code
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.placement import NodeFacts
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.runs import Runs
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock

    Json = dict[str, Any]

_PROGRAM_SECONDS = 30.0
REFUSED = 96  # nothing was started: the exit code of the batch process
_HAND_SECONDS = 600.0  # for a submitter with secrets, once the job runs
_TAKEN_SECONDS = 30.0
_LINGER_SECONDS = 10.0  # for steps that read the end of the run's output
_AGAIN_SECONDS = 0.05
_WARNED_SECONDS = WARNING_SECONDS + 90.0  # Slurm looks every 30 s, and may warn a minute early
_CLOSE_SECONDS = 1.0  # Slurm counts whole seconds
_EXPORT_SECONDS = 20.0


def _job() -> str:
    return os.environ.get("SLURM_JOB_ID", "")


class _Ended(Exception):
    """Slurm wants the job to end."""


def attend(runs: Runs, text: bytes) -> int:
    """Start what the job is for, and wait for its end: the run's exit code."""
    wanted = _wanted(text)
    signals = _Signals()
    facts = node_facts(runs.home, make=True)
    _expect_steps(runs.home)
    try:
        if int(os.environ.get("SLURM_RESTART_COUNT") or 0):
            raise Refused("Slurm has put this job into its queue again: not started again")
        if wanted.get("on_node") not in (None, facts.node):
            raise Refused(f"this is node {facts.node}, and the run goes on at {wanted['on_node']}")
        _refuse_version(wanted, facts)
        _begin(runs, facts, wanted, signals)
    except _Ended:
        _say_refused("the job was ended before the run was started")
        return REFUSED
    except HoldfastError as error:
        _say_refused(error.message)
        return REFUSED
    return _stay(Run(runs, str(wanted["id"])), signals)


def _refuse_version(wanted: Json, facts: NodeFacts) -> None:
    """Refused when the submitter's Holdfast asks for what this one does not know."""
    if wanted.get("protocol") != facts.protocol:
        raise Refused(
            f"Holdfast {facts.version} there speaks protocol {facts.protocol}, and its submitter"
            f" {wanted.get('protocol')}: install the same version on both"
        )
    unknown = [name for name in wanted.get("options") or () if name not in facts.options]
    if unknown:
        shown = ", ".join(map(argument, unknown))
        raise Refused(f"Holdfast {facts.version} there does not know {shown}")


def _begin(runs: Runs, facts: NodeFacts, wanted: Json, signals: _Signals) -> None:
    """Start it; of an error, nothing was started."""
    if wanted["request"] is None:
        asked = _handed(runs.home, wanted["id"], signals)
    else:
        asked = {**wanted, "node": facts.node, "do": "start"}
        asked["placement"] = {**wanted["placement"], "node": facts.node}
    held = asked["placement"].get("reservation") or {"engine": "slurm", "job": _job()}
    asked["placement"] = {**asked["placement"], "reservation": held}
    asked["request"] = _within_limit(asked["request"])
    answered = answer(runs, facts.node, json_text(asked).encode("ascii"))
    if wanted["request"] is None:
        _reply(runs.home, wanted["id"], answered)
    if "error" in answered and not answered.get("is_made", True):
        raise Unavailable(str(answered["error"].get("message")))


def _within_limit(request: Json) -> Json:
    """With a deadline of its own: Slurm's limit would end the run with nothing recorded."""
    left = run_steps(_job_seconds_left())
    if left is None:
        return request
    most = _own_seconds(left, grace_of(request))
    options = dict(request.get("options") or {})
    given = options.get("timeout")
    if given is None or seconds_given(given, "timeout") > most:
        options["timeout"] = most
    return {**request, "options": options}


def _own_seconds(left: float, grace: float) -> float:
    """How long a run may take, by the time that its job has left."""
    return max(1.0, left - grace - LIMIT_ROOM_SECONDS)


def _job_seconds_left() -> Steps[float | None]:
    """Until the job's limit; None: it has none, is being ended, or Slurm does not say."""
    words = ("squeue", "--noheader", "-j", _job(), "-t", "RUNNING,CONFIGURING", "-o%L")
    try:
        shown = yield from run_program(words, seconds=_PROGRAM_SECONDS)
    except HoldfastError:
        return None  # then Slurm's warning before the limit is what stops the run
    return seconds_left(shown.output) if not shown.code else None


def _stay(run: Run, signals: _Signals) -> int:
    """Until the run has ended, and nobody reads of it through this job."""
    info: RunInfo | None = None
    is_exported = False
    while info is None:
        try:
            with signals.raising():
                if not is_exported:
                    is_exported = True
                    _export(run)
                info = run.wait()
        except _Ended:
            if not _ends_before_limit(run):
                run.stop()
    _export(run)
    _linger(run._runs.home)
    if info.outcome is None:
        return 125
    return run_exit_code(info.outcome, info.exit_code, info.signal, info.stop_reason)


def _ends_before_limit(run: Run) -> bool:
    """Whether the SIGTERM was a warning of the job's limit; then the run has its deadline before.

    That is set when it starts; the limit may have been lowered since, or Slurm did not answer then.
    """
    left = run_steps(_job_seconds_left())
    if left is None or left > _WARNED_SECONDS:
        return False
    try:
        info = run.info()
        wanted = info.wanted or {}
        passed = info.duration_seconds or 0.0
        most = passed + _own_seconds(left, float(wanted.get("grace_seconds") or 0.0))
        timeout = wanted.get("timeout_seconds")
        if timeout is None or timeout > most + _CLOSE_SECONDS:
            run.adjust(timeout=most)
    except HoldfastError:
        return False  # it is stopped instead
    return True


def _export(run: Run) -> None:
    run_steps(run_export(_EXPORT_SECONDS, run._runs._notice))


class _Signals:
    """SIGTERM ends what waits, and never what starts."""

    def __init__(self) -> None:
        self.came = False
        self._raises = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, _number: int, _frame: object) -> None:
        self.came = True
        if self._raises:
            self._raises = self.came = False
            raise _Ended

    def raising(self) -> _Raising:
        return _Raising(self)


class _Raising:
    """While this is entered, a SIGTERM raises; also one that came before."""

    def __init__(self, signals: _Signals) -> None:
        self._signals = signals

    def __enter__(self) -> None:
        self._signals._raises = True
        if self._signals.came:
            self._signals._raises = self._signals.came = False
            raise _Ended

    def __exit__(self, *_: object) -> None:
        self._signals._raises = False


def _wanted(text: bytes) -> Json:
    try:
        wanted = read_json(text.decode())
        if isinstance(wanted, dict) and is_id(str(wanted.get("id"))):
            return wanted
    except ValueError:  # refused below
        pass
    raise WrongUse("fleet attend: this is the batch process of a run that a submitter placed")


def _say_refused(why: str) -> None:
    """To whoever asks Slurm about the job: nobody can reach this node through it any more."""
    text = f"{COMMENT}{why}"[:LONGEST_COMMENT].replace("=", ":").replace("\n", " ")
    try:
        words = ("scontrol", "update", f"JobId={_job()}", f"Comment={text}")
        run_steps(run_program(words, seconds=_PROGRAM_SECONDS))
    except HoldfastError:
        pass  # Slurm's word then is that the job failed, with our exit code


# Requests with secrets: a step of the job brings them


def _handing(home: Home) -> str:
    path = f"{home.fleet_path}/handed"
    for one in (home.fleet_path, path):
        make_directory(one)
    return path


def _handed(home: Home, run_id: str, signals: _Signals) -> Json:
    """The whole request, once a submitter has brought it."""
    path = f"{_handing(home)}/{run_id}"
    deadline = boottime() + _HAND_SECONDS
    while boottime() < deadline:
        try:
            asked = read_json(read_file(path).decode())
            remove_file(path)
            if isinstance(asked, dict):
                return asked
        except FileNotFoundError:
            with signals.raising():
                run_steps(_pause())
    raise Unavailable(f"its submitter brought no secrets for {_HAND_SECONDS:g} s")


def _reply(home: Home, run_id: str, answered: Json) -> None:
    path = f"{_handing(home)}/{run_id}.answer"
    atomic_write(path, json_text(answered).encode("ascii"))


def hand(home: Home, run_id: str, line: bytes) -> None:
    """As a step of the job: give its attendant the request, and print what became of it."""
    if not is_id(run_id):
        raise WrongUse(f"fleet hand: {run_id!r} is not an id")
    path = f"{_handing(home)}/{run_id}"
    deadline = boottime() + _TAKEN_SECONDS
    atomic_write(path, line)
    try:
        while boottime() < deadline:
            try:
                answered = read_file(f"{path}.answer")
            except FileNotFoundError:
                run_steps(_pause())
                continue
            remove_file(f"{path}.answer")
            write_all(1, marked(read_json(answered.decode())))
            return
    finally:
        remove_file(path)
    raise Unavailable("the attendant of the job took no request", hint="try again")


def _pause() -> Steps[None]:
    yield Wait((), _AGAIN_SECONDS)


# Steps that read through the job


def join_job(home: Home) -> HeldLock | None:
    """Keep the job's attendant until this step is done. None: this is no step of a run's job."""
    job = _job()
    step = os.environ.get("SLURM_STEP_ID", "")
    folder = f"{_steps(home)}/{job}"
    if not job.isdigit() or not step.isdigit() or not os.path.isdir(folder):
        return None
    return take_lock(f"{folder}/{step}")


def _steps(home: Home) -> str:
    return f"{home.fleet_path}/steps"


def _expect_steps(home: Home) -> None:
    for path in (home.fleet_path, _steps(home), f"{_steps(home)}/{_job()}"):
        make_directory(path)


def _linger(home: Home) -> None:
    """Wait for steps that are about to read the end; then Slurm ends what is left."""
    folder = f"{_steps(home)}/{_job()}"
    deadline = boottime() + _LINGER_SECONDS
    while boottime() < deadline and any(map(lock_is_held, _files(folder))):
        run_steps(_pause())
    for path in _files(folder):
        remove_file(path)
    try:
        os.rmdir(folder)
    except OSError:  # a step has just come; an empty folder does no harm
        pass


def _files(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except FileNotFoundError:
        return []
