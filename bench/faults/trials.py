"""Faults at random: deaths at any time, torn events, a damaged index, another boot, a full disk.

Each takes a trial and a random generator, does its worst, and leaves the judging to the trial.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.faults import scenes
from tests.support.history import make_ended, template_of
from tests.support.kernel_lab import BOOT_ID, Place, run_in
from tests.support.trials import NAME, Trial
from tests.support.waiting import eventually

Fault = Callable[[Trial, random.Random], None]
OTHER_BOOT = "11111111-2222-4333-8444-555555555555\n"


def _pause(rng: random.Random, most: float = 0.2) -> None:
    time.sleep(rng.uniform(0, most))


def _interrupt(trial: Trial, rng: random.Random, *words: object, most: float = 0.2) -> None:
    """A command that is killed at some time."""
    process = trial.begin(*words)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0, most))
    process.kill()
    process.wait()


def _go_on(trial: Trial, rng: random.Random) -> None:
    """What a user may do next."""
    choice = rng.choice(("nothing", "let it end", "stop", "recover", "start"))
    if choice == "let it end":
        trial.gate.touch()
    elif choice == "stop" and trial.subject() is not None:
        trial.stop(rng.choice((0, 1)))
    elif choice == "recover":
        trial.holdfast("recover")
    elif choice == "start":
        code = trial.start()
        assert code in (0, 4), f"a start gave {code}"


def launcher_killed(trial: Trial, rng: random.Random) -> None:
    """The launcher is killed at some time."""
    _interrupt(trial, rng, *trial.command(), most=0.15)
    _go_on(trial, rng)


def shim_killed(trial: Trial, rng: random.Random) -> None:
    """The shim is killed at some time, perhaps twice."""
    options = ("--restart", "on-failure:1") if rng.random() < 0.3 else ()
    trial.start(*options)
    for _ in range(rng.choice((1, 1, 2))):
        _pause(rng)
        trial.kill_shim()
        _go_on(trial, rng)


def workload_killed(trial: Trial, rng: random.Random) -> None:
    """The workload is killed, before or after its shim, or alone."""
    trial.start()
    _pause(rng)
    deaths = [trial.kill_workload]
    if rng.random() < 0.7:
        deaths.insert(rng.choice((0, 1)), trial.kill_shim)
    for death in deaths:
        death()
        _pause(rng, 0.05)
    _go_on(trial, rng)


def adopter_killed(trial: Trial, rng: random.Random) -> None:
    """A recovery, or the adopter that it sent, is killed at some time."""
    trial.start()
    _pause(rng)
    trial.kill_shim()
    _interrupt(trial, rng, "recover")
    if rng.random() < 0.6:
        trial.kill_shim()
    _go_on(trial, rng)


def stop_killed(trial: Trial, rng: random.Random) -> None:
    """Whoever stops it, and perhaps the shim, is killed at some time."""
    trial.start()
    _pause(rng)
    trial.was_stopped = True
    _interrupt(trial, rng, "stop", "--grace", rng.choice((0, 1)), NAME)
    if rng.random() < 0.6:
        trial.kill_shim()
    _go_on(trial, rng)


def remover_killed(trial: Trial, rng: random.Random) -> None:
    """Whoever removes the ended run is killed at some time."""
    trial.gate.touch()
    trial.start()
    eventually(lambda: trial.events("ended"), why="it is over")
    _interrupt(trial, rng, rng.choice(("rm", "archive")), NAME)
    trial.forget_if_gone()


def events_torn(trial: Trial, rng: random.Random) -> None:
    """A line that no holder finished: an ending that never was."""
    trial.start()
    _pause(rng, 0.1)
    trial.kill_shim()
    run = trial.subject()
    assert run is not None
    torn = b'{"seq":9,"at":"2026-01-01T00:00:00Z","boottime":1,"kind":"ended","outcome":"succeeded"'
    with open(run.directory.events_path, "ab") as file:
        file.write(torn[: rng.randrange(1, len(torn))])
    if rng.random() < 0.5:
        trial.kill_workload()
    _go_on(trial, rng)


def index_damaged(trial: Trial, rng: random.Random) -> None:
    """The index is spoilt in one of many ways while a run goes on."""
    home = trial.runs.home.prepare()
    template = template_of(home)
    for number in range(50):
        make_ended(home, template, time.time() - 86400.0 * (number + 2), f"old-{number}")
    trial.holdfast("ls", "--all")
    trial.start()
    path = Path(home.index_path)
    how = rng.choice(("garbage", "cut", "gone", "empty", "directory"))
    if how == "garbage":
        path.write_bytes(rng.randbytes(20000))
    elif how == "cut":
        os.truncate(path, rng.randrange(1, path.stat().st_size))
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
        if how == "directory":
            path.mkdir()
    if rng.random() < 0.5:
        trial.kill_shim()
    assert trial.holdfast("ls", "--all") == 0
    _go_on(trial, rng)


def boot_changed(trial: Trial, rng: random.Random) -> None:
    """Recovered under another boot id, while the old workload happens to live on."""
    trial.start()
    _pause(rng)
    trial.kill_shim()
    place = Place(pid_namespace=False, covers={BOOT_ID: OTHER_BOOT})
    words = rng.choice((["recover"], ["stop", NAME], ["recover", "--stop-orphans"]))
    trial.was_stopped = trial.was_stopped or words[0] == "stop"
    done = run_in(place, scenes.command, home=str(trial.home), words=words)
    assert done == 0, f"{words} gave {done}"


def disk_full(trial: Trial, rng: random.Random) -> None:
    """The disk fills up at some time, and has room again later."""
    place = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})
    scenes.raise_violation(
        run_in(place, scenes.full_disk, root=str(trial.root), seed=rng.randrange(1 << 30))
    )


AT_RANDOM: dict[str, Fault] = {
    "launcher killed at a random time": launcher_killed,
    "shim killed at a random time": shim_killed,
    "workload killed, with or without its shim": workload_killed,
    "adopter killed at a random time": adopter_killed,
    "stop killed at a random time": stop_killed,
    "removal killed at a random time": remover_killed,
    "torn events": events_torn,
    "damaged index": index_damaged,
    "another boot id": boot_changed,
    "full disk": disk_full,
}
