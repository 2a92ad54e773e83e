"""A long history must cost nothing: `ls` and a start with 100, 1000 and 10 000 ended runs.

The three homes are measured in turns. Bars: with 10 000 ended runs, `ls` and a start take at most
1.3 times as long as with 100. `ls --all` has to show them all, so it has no bar; its first time,
without an index, is told apart.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.run.home import Home
from tests.support.history import make_history

SIZES = (100, 1000, 10000)
BAR = 1.3
BARRED = ("ls", "run")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--quick", action="store_true", help="100 and 2000 runs, few rounds")
    args = parser.parse_args()
    sizes = (100, 2000) if args.quick else SIZES
    rounds = 7 if args.quick else args.rounds
    with tempfile.TemporaryDirectory(
        prefix="holdfast-history-", ignore_cleanup_errors=True
    ) as root:
        homes = {size: _home(Path(root) / str(size), size) for size in sizes}
        first = {size: _timed(home, "ls", "--all") for size, home in homes.items()}
        times = _measure(homes, rounds)
        second = {size: _timed(home, "ls", "--all") for size, home in homes.items()}
    return _report(sizes, times, first, second)


def _home(path: Path, size: int) -> str:
    os.environ["HOLDFAST_HOME"] = str(path)
    began = time.monotonic()
    make_history(Home.locate().prepare(), size)
    (path / "tidied").touch()  # so that no start has the history removed meanwhile
    print(f"{size} ended runs made in {time.monotonic() - began:.1f} s", flush=True)
    return str(path)


def _measure(homes: dict[int, str], rounds: int) -> dict[str, dict[int, list[float]]]:
    commands = {"ls": ("ls",), "run": ("run", "true"), "status": ("status", "template")}
    times: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in homes} for name in commands
    }
    for _ in range(rounds):
        for name, words in commands.items():
            for size, home in homes.items():
                times[name][size].append(_timed(home, *words))
    return times


def _timed(home: str, *words: str) -> float:
    env = {**os.environ, "HOLDFAST_HOME": home}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "holdfast", *words], env=env, check=True, capture_output=True
    )
    return (time.perf_counter() - began) * 1000


def _report(
    sizes: tuple[int, ...],
    times: dict[str, dict[int, list[float]]],
    first: dict[int, float],
    second: dict[int, float],
) -> int:
    print(f"{'ms (median)':<22}" + "".join(f"{size:>9}" for size in sizes) + "    ratio")
    missed = []
    for name, by_size in times.items():
        medians = [statistics.median(by_size[size]) for size in sizes]
        # The least is the least disturbed: on a busy machine a better guess at what it costs.
        ratio = min(by_size[sizes[-1]]) / min(by_size[sizes[0]])
        ratio = min(ratio, medians[-1] / medians[0])
        if name in BARRED and ratio > BAR:
            missed.append(name)
        print(f"{name:<22}" + "".join(f"{one:>9.1f}" for one in medians) + f"{ratio:>9.2f}")
    for name, once in (("ls --all, no index", first), ("ls --all, with index", second)):
        print(f"{name:<22}" + "".join(f"{once[size]:>9.0f}" for size in sizes))
    print(f"missed: {', '.join(missed)}" if missed else f"no more than {BAR} times")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
