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
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.faults_fleet.engine import Engine, EngineArena, Fault, measure, play_one

ALONE = "alone"  # of kinds: what shows the engine alone
_OUT = sys.stdout
ENGINES = {
    "ssh": "over_ssh.SshEngine",
    "slurm": "over_slurm.SlurmEngine",
    "ray": "over_ray.RayEngine",
}


def play(name: str, rounds: int, seed: int, most: int, only: str) -> None:
    """All of them, each told as it is done."""
    module, _, made_by = ENGINES[name].partition(".")
    rng = random.Random(f"{seed} {name}")
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix=f"hf-faults-{name}-"))
    folder.chmod(0o755)
    make = getattr(importlib.import_module(f"bench.faults_fleet.{module}"), made_by)
    engine: Engine = make(folder)
    try:
        with ThreadPoolExecutor(1) as pool:
            has_apart = not most and _fits(engine.apart_kind, only)
            apart = pool.submit(_tell_all, engine.apart(seed) if has_apart else iter(()))
            is_well = _tell_all(_played(engine, rng, rounds, most, only))
            is_well = apart.result() and is_well
        if ALONE in only or not (most or only):
            _tell_alone(engine.alone())
    finally:
        engine.close()
    if is_well:
        shutil.rmtree(folder, ignore_errors=True)


def _fits(kind: str, only: str) -> bool:
    return any(text in kind for text in only.split(","))


def _played(
    engine: Engine, rng: random.Random, rounds: int, most: int, only: str
) -> Iterator[dict[str, Any]]:
    """The results of its faults, one after the other."""
    chosen = [
        (arena, fault)
        for _ in range(rounds)
        for arena in engine.arenas
        for fault in engine.faults(arena)
        if _fits(fault.kind, only)
    ]
    rng.shuffle(chosen)
    chosen = _varied(chosen) if most else chosen
    used = [arena for arena in engine.arenas if any(one is arena for one, _ in chosen)]
    for arena in used if not most else ():
        arena.start_seconds = measure(arena, rng)
    for number, (arena, fault) in enumerate(chosen[: most or None]):
        yield play_one(arena, fault, f"t{number}", rng)


def _tell_all(rows: Iterator[dict[str, Any]]) -> bool:
    """Whether all of them were as promised."""
    is_well = True
    for row in rows:
        is_well = is_well and not row["wrong"]
        _tell(row)
    return is_well


def _tell_alone(rows: Iterator[dict[str, Any]]) -> None:
    """What the engine alone does is no fault of ours: where it can't be shown, that is said."""
    try:
        for row in rows:
            _tell({"alone": row})
    except Exception as error:  # noqa: BLE001 - the faults are done, and their results count
        print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)


def _varied(chosen: list[tuple[EngineArena, Fault]]) -> list[tuple[EngineArena, Fault]]:
    """One of each kind first."""
    firsts = list({fault.kind: (arena, fault) for arena, fault in chosen}.values())
    return [*firsts, *(one for one in chosen if one not in firsts)]


def _tell(row: dict[str, Any]) -> None:
    _OUT.write(json.dumps(row) + "\n")  # one call: two threads tell
    _OUT.flush()


if __name__ == "__main__":
    _OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is started here says nothing among the results
    name, rounds, seed, most, only = sys.argv[1:6]
    play(name, int(rounds), int(seed), int(most), only)
