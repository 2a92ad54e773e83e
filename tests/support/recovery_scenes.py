"""Runs that lose their shims in places of their own: PID namespaces, other boots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast.process.identity import ProcessIdentity
from tests.support import recycling
from tests.support.recovering import gated, kill, kill_shim
from tests.support.running import ended, events_of, info_of
from tests.support.waiting import eventually

Facts = dict[str, Any]


def holdfast(*words: object, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
    """The command line, in the scene's own home."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"exit {done.returncode}: {done}")
    return done


def recover(*words: object) -> dict[str, Facts]:
    """What `recover` told, by name."""
    told = json.loads(holdfast("recover", "--json", *words).stdout)
    return {one["name"]: one for one in told["runs"]}


def own_home() -> Path:
    """A home that goes with the scene's temporary directory."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-scene-"))
    os.environ["HOLDFAST_HOME"] = str(home)
    return home


def adopted_below_a_lazy_init() -> Facts:
    """D1 where PID 1 reaps nobody."""
    gate = own_home() / "gate"
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    kill_shim("a")
    recover()
    gate.touch()
    info = ended("a")
    pid = events_of("a", "attempt_started")[0]["root"]["pid"]
    return {
        "exit_code": info.exit_code,
        "outcome": info.outcome,
        "how": events_of("a", "root_exited")[0]["how"],
        "zombie": recycling.await_state(pid, "Z") == "Z",
    }


def found_as_a_zombie() -> Facts:
    """It ended while nobody watched, and PID 1 has not reaped it."""
    gate = own_home() / "gate"
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    kill_shim("a")
    gate.touch()
    recycling.await_state(events_of("a", "attempt_started")[0]["root"]["pid"], "Z")
    told = recover()["a"]
    info = info_of("a")
    return {"action": told["action"], "outcome": info.outcome, "exit_code": info.exit_code}


def recycled_workload() -> Facts:
    """Shim and workload are gone, and a stranger has the workload's PID."""
    own_home()
    holdfast("run", "-n", "a", "sleep", "600")
    before = info_of("a")
    assert before.workload is not None
    kill_shim("a")
    kill(before.workload)
    number = before.workload["pid"]
    eventually(lambda: not os.path.exists(f"/proc/{number}"), why="it is reaped")
    stranger = recycling.spawn(number)
    facts: Facts = {
        "derived": info_of("a").evidence,
        "told": recover()["a"],
        "stop": holdfast("stop", "a").stdout,
        "verdict": str(ProcessIdentity.from_json(before.workload).verdict()),
        "outcome": info_of("a").outcome,
    }
    holdfast("run", "-n", "a", "true")
    facts["rm"] = holdfast("rm", info_of("a").id).returncode
    facts["rm old"] = holdfast("rm", before.id).returncode
    facts["untouched"] = stranger.untouched()
    stranger.end()
    return facts


def recover_in(home: str, words: list[str]) -> dict[str, Facts]:
    """Look at a home from this place."""
    os.environ["HOLDFAST_HOME"] = home
    return recover(*words)


def stands(home: str, name: str) -> Facts:
    """How a run looks from this place."""
    os.environ["HOLDFAST_HOME"] = home
    info = info_of(name)
    return {"state": info.state, "outcome": info.outcome, "evidence": info.evidence}


def command_in(home: str, words: list[str]) -> Facts:
    """The command line from this place."""
    os.environ["HOLDFAST_HOME"] = home
    done = holdfast(*words, expect=None)
    return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
