"""The faults of one engine, one after the other, in a process of its own.

Each result is a line of JSON on stdout. Where something was wrong, everything is kept.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.faults_fleet.trial import FAILED, Arena, Trial, Violation
from holdfast.run.crashpoints import POINTS

ALONE = "alone"  # of kinds: what shows the engine alone
_OUT = sys.stdout
ENGINES = {"ssh": "over_ssh", "slurm": "over_slurm", "ray": "over_ray"}


class Fault(NamedTuple):
    """What is done to one trial."""

    kind: str
    play: Callable[[Trial], None]


def submitter_points() -> list[str]:
    """Where a submitter can be made to die."""
    return [point for point in POINTS if point.startswith("submitter.")]


def play(engine: str, rounds: int, seed: int, most: int, only: str) -> None:
    """All of them, each told as it is done."""
    module = importlib.import_module(f"bench.faults_fleet.{ENGINES[engine]}")
    rng = random.Random(f"{seed} {engine}")
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix=f"hf-faults-{engine}-"))
    folder.chmod(0o755)
    is_well = True
    world = module.make_world(folder)
    try:
        chosen = [
            (arena, fault)
            for _ in range(rounds)
            for arena in world.arenas
            for fault in module.faults(arena)
            if any(text in fault.kind for text in only.split(","))
        ]
        rng.shuffle(chosen)
        chosen = _varied(chosen) if most else chosen
        used = [arena for arena in world.arenas if any(one is arena for one, _ in chosen)]
        for arena in used if not most else ():
            arena.start_seconds = measure(arena, rng)
        for number, (arena, fault) in enumerate(chosen[: most or None]):
            row = play_one(arena, fault, f"t{number}", rng)
            is_well = is_well and not row["wrong"]
            _tell(row)
        for row in module.apart(seed) if not (most or only) else ():
            is_well = is_well and not row["wrong"]
            _tell(row)
        if ALONE in only or not (most or only):
            _tell_alone(module.alone(world))
    finally:
        world.close()
    if is_well:
        shutil.rmtree(folder, ignore_errors=True)


def _tell_alone(rows: Iterator[dict[str, Any]]) -> None:
    """What the engine alone does is no fault of ours: where it can't be shown, that is said."""
    try:
        for row in rows:
            _tell({"alone": row})
    except Exception as error:  # noqa: BLE001 - the faults are done, and their results count
        print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)


def _varied(chosen: list[tuple[Arena, Fault]]) -> list[tuple[Arena, Fault]]:
    """One of each kind first."""
    firsts = list({fault.kind: (arena, fault) for arena, fault in chosen}.values())
    return [*firsts, *(one for one in chosen if one not in firsts)]


def measure(arena: Arena, rng: random.Random) -> float:
    """How long a start takes, without a fault; the second, since the first makes connections."""
    for name in ("first", "second"):
        trial = Trial(arena, name, rng)
        began = time.monotonic()
        assert trial.start() == 0, trial.errors.decode()
        took = time.monotonic() - began
        trial.settle()
        trial.judge()
    return took


def play_one(arena: Arena, fault: Fault, name: str, rng: random.Random) -> dict[str, Any]:
    """One fault, and what came of it."""
    trial = Trial(arena, name, random.Random(rng.random()))
    began = time.monotonic()
    wrong = text = ""
    try:
        fault.play(trial)
        trial.settle()
        trial.judge()
    except Violation as violation:
        wrong, text = violation.kind, str(violation)
    except Exception as error:  # noqa: BLE001 - a trial that fails is told, and counted
        wrong, text = FAILED, "".join(traceback.format_exception(error))
    finally:
        trial.close()
    if wrong:
        arena.heal()
    return {
        "engine": arena.engine,
        "ledger": arena.ledger,
        "kind": fault.kind,
        "wrong": wrong,
        "text": f"{text} (kept: {arena.marks / name})" if wrong else "",
        "unknown": trial.was_left_unknown,
        "starts": trial.begun,
        "seconds": round(time.monotonic() - began, 1),
    }


def _tell(row: dict[str, Any]) -> None:
    _OUT.write(json.dumps(row) + "\n")
    _OUT.flush()


if __name__ == "__main__":
    _OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is started here says nothing among the results
    name, rounds, seed, most, only = sys.argv[1:6]
    play(name, int(rounds), int(seed), int(most), only)
