"""Scenes of waiting work that are played in a place of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.disk_scenes import fill
from tests.support.queues import most_at_once, names_in, recording
from tests.support.recovering import gated
from tests.support.waiting import eventually


def _holdfast(home: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOLDFAST_HOME": home},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def submit_here(home: str, name: str, queue: str) -> dict[str, Any]:
    """A run in a queue, to its end if it was taken."""
    done = _holdfast(home, "run", "-F", "-n", name, "-Q", queue, "true")
    return {"code": done.returncode, "stderr": done.stderr}


def recover_here(home: str, names: list[str], at_once: int) -> dict[str, str]:
    """Some recoveries at once, and what became of those runs."""
    words = [sys.executable, "-m", "holdfast", "recover"]
    env = {**os.environ, "HOLDFAST_HOME": home}
    recovering = [
        subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL) for _ in range(at_once)
    ]
    for process in recovering:
        process.wait(100)
    _holdfast(home, "wait", *names)
    return {name: _outcome(home, name) for name in names}


def _outcome(home: str, name: str) -> str:
    info = json.loads(_holdfast(home, "status", name, "--json").stdout)
    return str(info["outcome"])


def _state(home: str, name: str) -> str:
    return str(json.loads(_holdfast(home, "status", name, "--json").stdout)["state"])


def read_only_queue(home: str) -> dict[str, Any]:
    """The queues' disk becomes read-only while one runs and one waits."""
    queues = f"{home}/queues"
    os.mkdir(queues, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700", "none", queues], check=True)
    _submit(home, "first", gated(Path(home) / "gate", "exit 0"))
    _submit(home, "then", ["true"])
    read_only = ["mount", "-o", "remount,ro", queues]
    # While a waiter holds the baton, its file is open for writing, and the kernel refuses.
    eventually(lambda: subprocess.run(read_only).returncode == 0, 30, "nobody has a file open")
    Path(home, "gate").touch()
    _holdfast(home, "wait", "first")
    refused = _holdfast(home, "queue", "set", "main", "--limit", "2")
    during = [_state(home, name) for name in ("first", "then")]
    subprocess.run(["mount", "-o", "remount,rw", queues], check=True)
    _holdfast(home, "queue", "set", "main", "--limit", "1")
    _holdfast(home, "wait", "then")
    return {
        "while_read_only": during,
        "set_code": refused.returncode,
        "set_said": refused.stderr,
        "afterwards": [_outcome(home, name) for name in ("first", "then")],
    }


def full_disk(home: str) -> dict[str, Any]:
    """The disk of the whole home is full when a slot becomes free, and has room again later."""
    outside = Path(home)
    inside = str(outside / "home")
    os.mkdir(inside, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "none", inside], check=True)
    told = outside / "told"
    _submit(inside, "blocker", recording(told, "blocker", 2))
    _submit(inside, "then", recording(told, "then"))
    ballast = f"{inside}/ballast"
    fill(ballast)
    eventually(told.exists, 60, "the first is over")
    seen = _state(inside, "then")  # whatever it says, nothing is started twice
    os.unlink(ballast)
    _holdfast(inside, "queue", "set", "main", "--limit", "1")
    _holdfast(inside, "wait", "blocker", "then")
    return {
        "during": seen,
        "told": names_in(told),
        "most_at_once": most_at_once(told),
        "outcomes": [_outcome(inside, name) for name in ("blocker", "then")],
    }


def _submit(home: str, name: str, command: list[str]) -> None:
    done = _holdfast(home, "run", "-n", name, "-Q", "main", *command)
    assert done.returncode == 0, done.stderr
