"""Holdfast starts long commands, supervises them, and always tells the truth about them.

General layout
--------------
process   the kernel's view: which process is which, what it uses, how to signal it
run       one run's facts on disk
shim      the process that supervises one run
agents    what is special about each coding agent: data, not code
manage    many runs: the library that every interface calls
fleet     runs on other machines: placed by an engine, decided by their node
cli       one file per command
tui       the live screen of `top` (extra `top`)
web       the page, the API and /metrics of `serve` (extra `web`)
mcp       the MCP server for agents (extra `mcp`)

Names are loaded when they are first used: importing the package is cheap.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from holdfast.errors import (
        AlreadyRunning,
        Failed,
        HoldfastError,
        IdentityUnproven,
        InvalidOption,
        NoAnswer,
        NotFound,
        ProcessGone,
        Refused,
        RunNotFound,
        StillAlive,
        Unavailable,
        WrongUse,
    )
    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.aio import AsyncRun, AsyncRuns
    from holdfast.manage.changing.adjusting import Adjusted
    from holdfast.manage.doctor.checks import Diagnosis
    from holdfast.manage.doctor.findings import DoctorFinding
    from holdfast.manage.info import RunInfo
    from holdfast.manage.process_info import ProcessInfo
    from holdfast.manage.reading.events import Event
    from holdfast.manage.recovery import Recovered
    from holdfast.manage.removal.archive import Archived
    from holdfast.manage.removal.discarding import Discarded
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.removal.retention import Cleaned
    from holdfast.manage.report.report import Report
    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs
    from holdfast.manage.usage.totals import Usage, UsageTotal
    from holdfast.manage.worktrees.changes import ChangedFile, Diff
    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.pidfile import PidFile
    from holdfast.process.signals import Delivery, Fate, send_signal
    from holdfast.process.tree_stop import Cleanup, Survivor, stop_tree
    from holdfast.process.verdict import Look, Proof, Verdict
    from holdfast.run.events import Kind
    from holdfast.run.facts import State
    from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
    from holdfast.run.output import Chunk

__version__ = "0.1.0"

_HOMES = {
    "Adjusted": "manage.changing.adjusting",
    "AlreadyRunning": "errors",
    "Archived": "manage.removal.archive",
    "AsyncRun": "manage.aio",
    "AsyncRuns": "manage.aio",
    "ChangedFile": "manage.worktrees.changes",
    "Chunk": "run.output",
    "Cleaned": "manage.removal.retention",
    "Cleanup": "process.tree_stop",
    "Delivery": "process.signals",
    "Diagnosis": "manage.doctor.checks",
    "Diff": "manage.worktrees.changes",
    "Discarded": "manage.removal.discarding",
    "DoctorFinding": "manage.doctor.findings",
    "EndedBy": "run.outcomes",
    "Event": "manage.reading.events",
    "Failed": "errors",
    "Fate": "process.signals",
    "HoldfastError": "errors",
    "IdentityUnproven": "errors",
    "InvalidOption": "errors",
    "Kind": "run.events",
    "Look": "process.verdict",
    "Loss": "run.outcomes",
    "NoAnswer": "errors",
    "NotFound": "errors",
    "Outcome": "run.outcomes",
    "PidFile": "process.pidfile",
    "ProcessGone": "errors",
    "ProcessIdentity": "process.identity",
    "ProcessInfo": "manage.process_info",
    "Proof": "process.verdict",
    "Recovered": "manage.recovery",
    "Refused": "errors",
    "RemoteRun": "fleet.remote",
    "Removed": "manage.removal.remove",
    "Report": "manage.report.report",
    "Run": "manage.run",
    "RunInfo": "manage.info",
    "RunNotFound": "errors",
    "Runs": "manage.runs",
    "State": "run.facts",
    "StillAlive": "errors",
    "StopCause": "run.outcomes",
    "Survivor": "process.tree_stop",
    "Unavailable": "errors",
    "Usage": "manage.usage.totals",
    "UsageTotal": "manage.usage.totals",
    "Verdict": "process.verdict",
    "WrongUse": "errors",
    "send_signal": "process.signals",
    "stop_tree": "process.tree_stop",
}

__all__ = [
    "Adjusted",
    "AlreadyRunning",
    "Archived",
    "AsyncRun",
    "AsyncRuns",
    "ChangedFile",
    "Chunk",
    "Cleaned",
    "Cleanup",
    "Delivery",
    "Diagnosis",
    "Diff",
    "Discarded",
    "DoctorFinding",
    "EndedBy",
    "Event",
    "Failed",
    "Fate",
    "HoldfastError",
    "IdentityUnproven",
    "InvalidOption",
    "Kind",
    "Look",
    "Loss",
    "NoAnswer",
    "NotFound",
    "Outcome",
    "PidFile",
    "ProcessGone",
    "ProcessIdentity",
    "ProcessInfo",
    "Proof",
    "Recovered",
    "Refused",
    "RemoteRun",
    "Removed",
    "Report",
    "Run",
    "RunInfo",
    "RunNotFound",
    "Runs",
    "State",
    "StillAlive",
    "StopCause",
    "Survivor",
    "Unavailable",
    "Usage",
    "UsageTotal",
    "Verdict",
    "WrongUse",
    "send_signal",
    "stop_tree",
]


def program() -> "NoReturn":
    """The console script, which is no part of the library.

    ctrl-c while the command line is loaded ends it as it ends any program, without a traceback.
    """
    if TYPE_CHECKING:
        import signal
    else:
        import _signal as signal  # which is loaded, without the enums

    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from holdfast.cli import program

    program(heed_interrupts=is_heeded)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"holdfast.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
