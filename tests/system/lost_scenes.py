"""Agents that a reboot ended, after it: what `recover --resume-lost` makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.support.running import info_of

Facts = dict[str, Any]


def _holdfast(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _recovered(process: subprocess.Popen[str], is_alone: bool) -> list[Facts]:
    out, errors = process.communicate(timeout=90)
    runs: list[Facts] = json.loads(out)["runs"]
    # One that finds another at work waits for a while, and says then that it was not taken over.
    is_beaten = not is_alone and any(one["action"] == "not taken over" for one in runs)
    assert process.returncode == int(is_beaten), (process.returncode, out, errors)
    return runs


def resume_lost(
    home: str, words: list[str], names: list[str], times: int = 1, at_once: int = 1
) -> Facts:
    """Recover so often, by so many at once; then wait for the runs of these names."""
    os.environ["HOLDFAST_HOME"] = home
    told = []
    for _ in range(times):
        started = [_holdfast("recover", "--json", *words) for _ in range(at_once)]
        told.append([one for each in started for one in _recovered(each, at_once == 1)])
    infos = {}
    for name in names:
        _holdfast("wait", name).communicate(timeout=90)
        infos[name] = info_of(name).to_json()
    return {"told": told, "runs": infos}


def told_by(home: str, words: list[str]) -> str:
    """What people read."""
    os.environ["HOLDFAST_HOME"] = home
    process = _holdfast("recover", *words)
    out, errors = process.communicate(timeout=90)
    assert process.returncode == 0, (process.returncode, out, errors)
    return out
