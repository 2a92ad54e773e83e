"""Faults that need a place of their own: PID reuse after a crash, a full disk, another boot."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support import recycling
from tests.support.disk_scenes import fill
from tests.support.trials import NAME, WRONG_SIGNAL, Trial, Violation, trial

Judgement = list[str] | None  # kind and text of the first violation


def raise_violation(judged: Judgement) -> None:
    """For whoever had a scene played."""
    if judged is not None:
        raise Violation(*judged)


def command(home: str, words: list[str]) -> int:
    """One command in this place."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOLDFAST_HOME": home},
        check=False,
        capture_output=True,
        timeout=60,
    ).returncode


def _judged(one: Trial) -> Judgement:
    try:
        one.settle()
        one.judge()
    except Violation as violation:
        return [violation.kind, str(violation)]
    return None


def full_disk(root: str, seed: int) -> Judgement:
    """A run on a small disk that is filled to the last byte at some time."""
    rng = random.Random(seed)
    home = Path(root) / "home"
    home.mkdir(exist_ok=True)
    size = f"size={rng.choice((1024, 2048))}k,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(home)], check=True)
    with trial(Path(root) / "inside") as one:
        one.home = home
        one.runs = type(one.runs)(str(home))
        ballast = str(home / "ballast")
        deeds = [one.start, lambda: fill(ballast), *_deeds(one, rng)]
        if rng.random() < 0.2:
            deeds[0], deeds[1] = deeds[1], deeds[0]
        for deed in deeds:
            deed()
            time.sleep(rng.uniform(0, 0.1))
        os.unlink(ballast)
        return _judged(one)


def _deeds(one: Trial, rng: random.Random) -> list[Any]:
    choices: list[Any] = [
        one.kill_shim,
        one.kill_workload,
        one.gate.touch,
        lambda: one.holdfast("recover"),
        lambda: one.subject() is not None and one.stop(0),
    ]
    return rng.sample(choices, k=rng.choice((1, 2, 3)))


def recycled(rounds: int, seed: int) -> list[list[str]]:
    """After a crash, strangers get the PIDs of shim and workload. Each round is one fault.

    Played in a PID namespace of its own. Gives the violations.
    """
    rng = random.Random(seed)
    violations = []
    for number in range(rounds):
        root = Path(tempfile.mkdtemp(prefix=f"holdfast-recycled-{number}-"))
        with trial(root / "trial") as one:
            judged = _recycle_once(one, rng)
        if judged is not None:
            violations.append(judged)
    return violations


def _recycle_once(one: Trial, rng: random.Random) -> Judgement:
    one.start()
    time.sleep(rng.uniform(0, 0.1))
    info = one.info()
    assert info is not None
    assert info.shim is not None
    root = one.events("attempt_started")[0]["root"]
    one.kill_shim()
    one.kill_workload()
    for pid in (info.shim["pid"], root["pid"]):
        _await_reaped(pid)
    strangers = [recycling.spawn(pid) for pid in (info.shim["pid"], root["pid"])]
    deeds: list[Any] = [
        lambda: one.holdfast("recover", *rng.choice(((), ("--stop-orphans",)))),
        lambda: one.stop(0),
        lambda: one.holdfast("rm", "--force", NAME),
        lambda: one.holdfast("run", "-n", NAME, "--replace", "true"),
        lambda: one.holdfast("signal", "TERM", NAME),
    ]
    for deed in rng.sample(deeds, k=rng.choice((1, 2, 3))):
        deed()
    touched = [stranger.pid for stranger in strangers if not stranger.untouched()]
    one.forget_if_gone()
    for stranger in strangers:
        stranger.end()
    if touched:
        return [WRONG_SIGNAL, f"strangers at {touched} were struck"]
    return _judged(one)


def _await_reaped(pid: int) -> None:
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        if time.monotonic() > deadline:
            raise AssertionError(f"{pid} is not reaped")
        time.sleep(0.002)
