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


def _said(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=90)
    assert process.returncode == 0, (process.returncode, out, errors)
    return out


def resume_lost(
    home: str, words: list[str], names: list[str], times: int = 1, at_once: int = 1
) -> Facts:
    """Recover so often, by so many at once; then wait for the runs of these names."""
    os.environ["HOLDFAST_HOME"] = home
    told = []
    for _ in range(times):
        started = [_holdfast("recover", "--json", *words) for _ in range(at_once)]
        told.append([one for each in started for one in json.loads(_said(each))["runs"]])
    infos = {}
    for name in names:
        _holdfast("wait", name).communicate(timeout=90)
        infos[name] = info_of(name).to_json()
    return {"told": told, "runs": infos}


def told_by(home: str, words: list[str]) -> str:
    """What people read."""
    os.environ["HOLDFAST_HOME"] = home
    return _said(_holdfast("recover", *words))
