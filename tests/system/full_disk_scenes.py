"""Whole runs on a small disk that fills up while they go on. Played in a mount namespace."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from holdfast.run.atomic_files import remove_file
from holdfast.run.home import Home
from tests.support.disk_scenes import fill
from tests.support.recovering import gated, kill, kill_shim, shim_is_dead, wait_gone
from tests.support.recovery_scenes import holdfast, recover
from tests.support.running import ended, events_of, info_of, run_of
from tests.support.waiting import eventually

Facts = dict[str, Any]


def _small_home(path: str, kibibytes: int = 2048) -> Path:
    options = f"size={kibibytes}k,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    os.environ["HOLDFAST_HOME"] = path
    return Path(path)


def _kinds(name: str) -> list[str]:
    return [event["kind"] for event in events_of(name)]


def ends_when_full(path: str) -> Facts:
    """Full before the end: the reserve takes the ending."""
    home = _small_home(path)
    gate = home.parent / "gate"  # on another disk
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    fill(str(home / "fill"))
    gate.touch()
    info = ended("a")
    kinds = _kinds("a")
    waited = holdfast("wait", "a", expect=None).returncode
    os.unlink(home / "fill")
    gate.unlink()
    shim_is_dead("a")
    told = recover()
    return {
        "outcome": info.outcome,
        "exit_code": info.exit_code,
        "waited": waited,
        "kinds": kinds,
        "damage": run_of("a").directory.read_events().damage,
        "marked": run_of("a").directory.is_marked_active(),
        "told": {name: one["action"] for name, one in told.items()},
        "active": Home.locate().run_ids(active=True),
    }


def ends_without_a_reserve(path: str) -> Facts:
    """A disk so full that even the reserve is gone: nothing is told before it is recorded."""
    home = _small_home(path)
    gate = home.parent / "gate"  # on another disk
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    root = events_of("a", "attempt_started")[0]["root"]
    # Give the reserve back behind the shim's back: a truncation to the present size does.
    events = run_of("a").directory.events_path
    fill(str(home / "fill"))
    os.truncate(events, os.path.getsize(events))
    fill(str(home / "fill"))
    gate.touch()
    wait_gone(root)
    time.sleep(1.0)  # the time over which nothing may be told
    before = info_of("a")
    was_recorded = "ended" in _kinds("a")
    os.unlink(home / "fill")
    gate.unlink()
    after = ended("a")
    return {
        "was_recorded": was_recorded,
        "before": [before.state, before.outcome],
        "after": [after.outcome, after.exit_code],
        "damage": run_of("a").directory.read_events().damage,
    }


def stops_when_full(path: str) -> Facts:
    """Stop a tree whose signals can't be written down."""
    home = _small_home(path)
    holdfast("run", "-n", "a", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    fill(str(home / "fill"))
    done = holdfast("stop", "--grace", "0.5", "a", expect=None)
    info = info_of("a")
    recorded_full = len(run_of("a").directory.read_signals())
    os.unlink(home / "fill")
    return {
        "code": done.returncode,
        "outcome": info.outcome,
        "workload": info.workload["verdict"] if info.workload else None,
        "signals_full": recorded_full,
    }


def stops_when_read_only(path: str) -> Facts:
    """What the shim has open can be written to, and nothing else: no signals, no marker."""
    home = _small_home(path)
    holdfast("run", "-n", "a", "sleep", "600")
    # Made elsewhere, and put there as it is: what the shim opens meanwhile would keep it writable.
    aside = home.parent / "aside"
    aside.mkdir()
    subprocess.run(["mount", "--bind", home, aside], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", aside], check=True)
    subprocess.run(["mount", "--move", aside, home], check=True)
    said = holdfast("stop", "a", expect=None)
    shim_is_dead("a")
    recovered = holdfast("recover", expect=None)
    removed = holdfast("rm", "a", expect=None)
    subprocess.run(["umount", home], check=True)
    return {
        "said": said.stdout,
        "recovered": (recovered.returncode, recovered.stdout),
        "refused": (removed.returncode, removed.stderr),
        "again": recover()["a"]["action"],
        "active": Home.locate().run_ids(active=True),
    }


def adopts_when_full(path: str) -> Facts:
    """The shim dies, and an adopter comes, on a full disk."""
    home = _small_home(path)
    gate = home.parent / "gate"  # on another disk
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    kill_shim("a")
    fill(str(home / "fill"))
    told = recover()["a"]
    gate.touch()
    final = ended("a")
    os.unlink(home / "fill")
    gate.unlink()
    return {
        "action": told["action"],
        "outcome": final.outcome,
        "exit_code": final.exit_code,
        "damage": run_of("a").directory.read_events().damage,
    }


def records_a_loss_when_full(path: str) -> Facts:
    """Shim and workload died; there is room for the ending alone."""
    home = _small_home(path)
    holdfast("run", "-n", "a", "sleep", "600")
    workload = info_of("a").workload
    assert workload is not None
    kill_shim("a")
    kill(workload)
    wait_gone(workload)
    fill(str(home / "fill"))
    first = json.loads(holdfast("recover", "--json", expect=None).stdout)["runs"]
    final = ended("a")
    os.unlink(home / "fill")
    again = recover()
    return {
        "first": [one["action"] for one in first],
        "outcome": final.outcome,
        "again": [one["action"] for one in again.values()],
        "active": Home.locate().run_ids(active=True),
    }


def starts_when_full(path: str) -> Facts:
    """No room for a new run: refused, nothing is left, and the name is free later."""
    home = _small_home(path)
    holdfast("run", "-n", "b", "true")
    ended("b")
    before = Home.locate().run_ids()
    fill(str(home / "fill"))
    done = holdfast("run", "-n", "a", "sleep", "600", expect=None)
    left = [one for one in Home.locate().run_ids() if one not in before]
    os.unlink(home / "fill")
    later = holdfast("run", "-n", "a", "true", expect=None)
    recover()
    return {
        "code": done.returncode,
        "stderr": done.stderr,
        "left": len(left),
        "later": later.returncode,
        "active": Home.locate().run_ids(active=True),
    }


def output_when_full(path: str) -> Facts:
    """The workload's own writes fail; what it could write is kept."""
    home = _small_home(path)
    script = f"echo begin; while [ ! -e {home}/fill ]; do sleep 0.02; done; sleep 0.3; exit 3"
    holdfast("run", "-n", "a", "sh", "-c", script)
    eventually(lambda: run_of("a").output() == b"begin\n", why="it began")
    threading.Timer(0, fill, [str(home / "fill")]).start()
    final = ended("a")
    output = run_of("a").output()
    os.unlink(home / "fill")
    return {"output": output.decode(), "exit_code": final.exit_code}


def removes_when_full(path: str) -> Facts:
    """Runs are removed to make room: what they used is kept all the same, or they stay."""
    home = _small_home(path)
    holdfast("run", "-n", "large", "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x")
    holdfast("run", "-n", "small", "true")
    for name in ("large", "small"):
        ended(name)
        shim_is_dead(name)
    remove_file(run_of("small").directory.trace_path)  # it has nothing to give back
    os.unlink(home / "usage.jsonl")  # as of an earlier version: who removes them adds the lines
    fill(str(home / "fill"))
    refused = holdfast("rm", "small", expect=None)
    stays = info_of("small").outcome
    removed = holdfast("rm", "large", expect=None)
    again = holdfast("rm", "small", expect=None)
    total = json.loads(holdfast("usage", "--json").stdout)["total"]
    return {
        "refused": refused.returncode,
        "said": refused.stdout,
        "stays": stays,
        "removed": removed.returncode,
        "again": again.returncode,
        "runs": total["runs"],
    }
