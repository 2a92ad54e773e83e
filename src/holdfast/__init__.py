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
    from holdfast.process.tree import Cleanup, stop_tree
    from holdfast.process.identity import Look, ProcessIdentity, Proof, Verdict
    from holdfast.process.pidfile import PidFile
    from holdfast.process.signals import Delivery, Fate, send_signal

__version__ = "0.1.0"

_HOMES = {
    "Cleanup": "process.tree",
    "Delivery": "process.signals",
    "Fate": "process.signals",
    "Look": "process.identity",
    "PidFile": "process.pidfile",
    "ProcessIdentity": "process.identity",
    "Proof": "process.identity",
    "Verdict": "process.identity",
    "send_signal": "process.signals",
    "stop_tree": "process.tree",
}

__all__ = [
    "Cleanup",
    "Delivery",
    "Fate",
    "Look",
    "PidFile",
    "ProcessIdentity",
    "Proof",
    "Verdict",
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
