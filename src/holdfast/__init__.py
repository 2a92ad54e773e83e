"""Holdfast starts long commands, supervises them, and always tells the truth about them.

General layout
--------------
process   the kernel's view: who is who, what it uses, how to signal it
run       one run's facts on disk
shim      the process that supervises one run
agents    what is special about each coding agent: data, not code
manage    many runs: the library that every interface calls
cli       one file per command

Names are loaded when they are first used: importing the package is cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.errors import (
        AlreadyRunning,
        Failed,
        HoldfastError,
        IdentityUnproven,
        NotFound,
        ProcessGone,
        Refused,
        RunNotFound,
        StillAlive,
        Unavailable,
        WrongUse,
    )
    from holdfast.manage.aio import AsyncRun, AsyncRuns
    from holdfast.manage.events import Event
    from holdfast.manage.info import RunInfo
    from holdfast.manage.process_info import ProcessInfo
    from holdfast.manage.recovery import Recovered
    from holdfast.manage.runs import Run, Runs
    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.pidfile import PidFile
    from holdfast.process.signals import Delivery, Fate, send_signal
    from holdfast.process.tree import Cleanup, Survivor, stop_tree
    from holdfast.process.verdict import Look, Proof, Verdict
    from holdfast.run.events import Kind
    from holdfast.run.facts import State
    from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
    from holdfast.run.output import Chunk

__version__ = "0.1.0"

_HOMES = {
    "AlreadyRunning": "errors",
    "AsyncRun": "manage.aio",
    "AsyncRuns": "manage.aio",
    "Chunk": "run.output",
    "Cleanup": "process.tree",
    "Delivery": "process.signals",
    "EndedBy": "run.outcomes",
    "Event": "manage.events",
    "Failed": "errors",
    "Fate": "process.signals",
    "HoldfastError": "errors",
    "IdentityUnproven": "errors",
    "Kind": "run.events",
    "Look": "process.verdict",
    "Loss": "run.outcomes",
    "NotFound": "errors",
    "Outcome": "run.outcomes",
    "PidFile": "process.pidfile",
    "ProcessGone": "errors",
    "ProcessIdentity": "process.identity",
    "ProcessInfo": "manage.process_info",
    "Proof": "process.verdict",
    "Recovered": "manage.recovery",
    "Refused": "errors",
    "Run": "manage.runs",
    "RunInfo": "manage.info",
    "RunNotFound": "errors",
    "Runs": "manage.runs",
    "State": "run.facts",
    "StillAlive": "errors",
    "StopCause": "run.outcomes",
    "Survivor": "process.tree",
    "Unavailable": "errors",
    "Verdict": "process.verdict",
    "WrongUse": "errors",
    "send_signal": "process.signals",
    "stop_tree": "process.tree",
}

__all__ = [
    "AlreadyRunning",
    "AsyncRun",
    "AsyncRuns",
    "Chunk",
    "Cleanup",
    "Delivery",
    "EndedBy",
    "Event",
    "Failed",
    "Fate",
    "HoldfastError",
    "IdentityUnproven",
    "Kind",
    "Look",
    "Loss",
    "NotFound",
    "Outcome",
    "PidFile",
    "ProcessGone",
    "ProcessIdentity",
    "ProcessInfo",
    "Proof",
    "Recovered",
    "Refused",
    "Run",
    "RunInfo",
    "RunNotFound",
    "Runs",
    "State",
    "StillAlive",
    "StopCause",
    "Survivor",
    "Unavailable",
    "Verdict",
    "WrongUse",
    "send_signal",
    "stop_tree",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"holdfast.{home}"), name)
    globals()[name] = value
    return value
