"""What is done with pid files inside the kernel lab's places. Each scene returns plain facts."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from holdfast.process.signals import send_signal
from tests.support import recycling
from tests.support.kernel_lab import announce

Facts = dict[str, Any]


def attempt(path: str) -> Facts:
    """Try to hold the file; says what became of it, and lets go."""
    try:
        identity = PidFile(path).acquire()
    except HoldfastError as error:
        known = error.fields.get("identity")
        return {"code": error.code, "message": error.message, "pid": known and known.pid}
    return {"code": "held", "pid": identity.pid}


def read(path: str) -> Facts:
    """Whom the file names, or what is wrong with it."""
    try:
        identity = PidFile(path).read()
    except HoldfastError as error:
        return {"code": error.code, "message": error.message}
    return {"code": "read", "pid": identity.pid, "verdict": str(identity.verdict())}


def hold_until_killed(path: str) -> None:
    """Be the holder for as long as the scene lasts."""
    identity = PidFile(path).acquire()
    announce({"pid": identity.pid})
    signal.pause()


def recycled_holder(path: str) -> Facts:
    """The holder is gone and a stranger has its PID."""
    victim = recycling.spawn(action=lambda: _hold_at_once(path))
    while not os.path.exists(path):
        pass
    recorded = PidFile(path).read()
    stranger = recycling.recycle(victim)
    facts: Facts = {"verdict": str(PidFile(path).read().verdict())}
    facts["fates"] = [
        str(send_signal(recorded, number).fate) for number in (signal.SIGTERM, signal.SIGKILL)
    ]
    facts["attempt"] = attempt(path)
    facts["stranger_untouched"] = stranger.untouched()
    facts["same_pid"] = stranger.pid == recorded.pid
    stranger.end()
    return facts


def _hold_at_once(path: str) -> None:
    PidFile(path).acquire()


def legacy_recycled(path: str) -> Facts:
    """A legacy `<pid> <ticks>` record, whose PID a stranger has: the ticks tell."""
    while True:
        victim = recycling.spawn()
        stranger = recycling.recycle(victim)
        if stranger.ticks != victim.ticks:
            break
        stranger.end()
    with open(path, "w") as file:
        file.write(f"{victim.pid} {victim.ticks}\n")
    facts: Facts = {"read": read(path), "attempt": attempt(path)}
    facts["fate"] = str(
        send_signal(ProcessIdentity(victim.pid, victim.ticks), signal.SIGKILL, trust_pid=True).fate
    )
    facts["stranger_untouched"] = stranger.untouched()
    stranger.end()
    return facts


def notices(path: str) -> Facts:
    """What is said when the record of a dead process, and of a recycled PID, is replaced."""
    first = recycling.spawn()
    record = f"{first.pid} {ProcessIdentity.of(first.pid).token}\n"
    first.end()
    told: dict[str, list[str]] = {"dead": [], "reused": []}
    Path(path).write_text(record)
    with PidFile(path, notice=told["dead"].append).hold():
        pass
    stranger = recycling.spawn(first.pid)
    Path(path).write_text(record)
    with PidFile(path, notice=told["reused"].append).hold():
        pass
    untouched = stranger.untouched()
    stranger.end()
    return {**told, "untouched": untouched}
