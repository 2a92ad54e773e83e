"""What the engines have in common: submitters with two kinds of ledger, faults that any engine has,
and how a fault is played.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.faults_fleet.trial import FAILED, Arena, Trial, Violation
from holdfast.run.crashpoints import POINTS
from tests.fleet.fleet_world import Submitter
from tests.fleet.postgres_cluster import Database

HOME, POSTGRES = "home", "PostgreSQL"


class Fault(NamedTuple):
    """What is done to one trial."""

    kind: str
    play: Callable[[Trial[Any]], None]


class EngineArena(Arena):
    """A submitter whose ledger is in its home, or in PostgreSQL."""

    def __init__(self, submitter: Submitter, database: Database | None) -> None:
        super().__init__(submitter, HOME if database is None else POSTGRES)
        self.database = database

    def use_ledger(self) -> None:
        """Add it to the submitter's config."""
        if self.database is not None:
            config = self.submitter.config
            config.write_text(f'[fleet]\nledger = "{self.database.url}"\n{config.read_text()}')


class Engine:
    """One engine, with whatever it needs. It is made before the first fault, and closed."""

    arenas: Sequence[EngineArena]
    apart_kind = ""  # of the faults that are played apart

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = Database(folder / "pg")
        self.database.start()

    def faults(self, arena: Any) -> Iterator[Fault]:
        """What is done to one submitter's runs, each some times."""
        raise NotImplementedError

    def apart(self, seed: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """The results of faults that need a place of their own: played beside the others."""
        yield from ()

    def alone(self) -> Iterator[dict[str, Any]]:
        """What the engine alone does with the same workload."""
        yield from ()

    def close(self) -> None:
        self.database.stop()


def submitter_faults(times: int = 1) -> Iterator[Fault]:
    """The submitter killed at each of its writes, and so often at random times."""
    for point in POINTS:
        if point.startswith("submitter."):
            yield Fault("submitter killed at each write", lambda t, p=point: t.crash_at(p))
    yield from [Fault("submitter killed at a random time", _submitter_killed)] * times


def shim_faults(times: int = 1) -> Iterator[Fault]:
    yield from [Fault("shim killed", _shim_killed)] * times


def database_faults(arena: EngineArena, times: int = 1) -> Iterator[Fault]:
    """Of a submitter that has one."""
    if arena.database is not None:
        yield from [Fault("PostgreSQL stopped in a start", _database_stopped)] * times


def _submitter_killed(trial: Trial[EngineArena]) -> None:
    started = trial.begin()
    trial.pause()
    started.kill()
    trial.end(started)


def _shim_killed(trial: Trial[EngineArena]) -> None:
    trial.may_be_lost = True
    shim = trial.run()["shim"]
    trial.follow()
    os.kill(shim["pid"], signal.SIGKILL)


def _database_stopped(trial: Trial[EngineArena]) -> None:
    database = trial.arena.database
    assert database is not None
    started = trial.begin()
    trial.pause()
    database.stop()
    code = trial.end(started)
    database.start()
    assert code in (0, 6), code


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
        "refused": trial.was_refused,
        "starts": trial.begun,
        "seconds": round(time.monotonic() - began, 1),
    }
