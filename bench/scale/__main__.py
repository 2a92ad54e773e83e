"""What commands cost with 10 000 and 100 000 ended runs, and with 1000 active ones.

Seconds are those over a bare interpreter that is measured in turns; memory is the peak of the
command. Exits 1 when a bar is missed, when a command was wrong, or when something was left alive.
"""

from __future__ import annotations

import argparse
import compileall
import os
import signal
import sys
from pathlib import Path

from bench.launch import ROOT, Stage, interpreter, stage
from bench.scale import active, ended
from bench.scale.cost import Figure

MEMORY_DISK = Path("/dev/shm")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few runs; no bar is judged")
    parser.add_argument("--only", choices=["ended", "active"], help="one part alone")
    parser.add_argument("--directory", type=Path, help="for the homes; else in memory if possible")
    chosen = parser.parse_args(arguments)
    place = chosen.directory or (MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None)
    signal.signal(signal.SIGTERM, _leave)  # what was started is stopped, and the homes are removed
    compileall.compile_dir(ROOT / "src", quiet=2)
    print(interpreter(), flush=True)
    figures: list[Figure] = []
    wrong: list[str] = []
    for measure in (_ended, _active):
        if chosen.only in (None, measure.__name__.removeprefix("_")):
            with stage(place) as here:
                _seal(here)
                found, faults = measure(here, chosen.quick)
            figures += found
            wrong += faults
    return _report(figures, wrong, is_judged=not chosen.quick)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _seal(here: Stage) -> None:
    """No configuration of the user's."""
    here.environment.pop("XDG_CONFIG_HOME", None)
    here.environment["HOME"] = str(here.directory)


def _ended(here: Stage, quick: bool) -> tuple[list[Figure], list[str]]:
    sizes = ended.QUICK_SIZES if quick else ended.SIZES
    rounds = ended.QUICK_ROUNDS if quick else ended.ROUNDS
    costs, wrong = ended.measure_ended(here, sizes, rounds)
    print(*costs.table(), sep="\n", flush=True)
    return costs.figures(), wrong


def _active(here: Stage, quick: bool) -> tuple[list[Figure], list[str]]:
    counts = active.QUICK_COUNTS if quick else active.COUNTS
    rounds = active.QUICK_ROUNDS if quick else active.ROUNDS
    seconds = active.QUICK_IDLE_SECONDS if quick else active.IDLE_SECONDS
    return active.measure_active(here, counts, rounds, seconds)


def _report(figures: list[Figure], wrong: list[str], *, is_judged: bool) -> int:
    if not is_judged:
        figures = [figure._replace(limit=None) for figure in figures]
    print(*figures, sep="\n")
    for fault in wrong:
        print(f"WRONG {fault}")
    missed = [figure for figure in figures if not figure.is_met]
    bars = sum(figure.limit is not None for figure in figures)
    if is_judged:
        print(f"{len(missed)} of {bars} bars missed, {len(wrong)} wrong or left over")
    else:
        print(f"no bar is judged; {len(wrong)} wrong or left over")
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
