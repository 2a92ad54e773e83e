"""What a proof costs: verify a token, beside the raw system calls and beside psutil.

All three are measured in turns within one run, since machines are noisy, and in many short rounds,
most of which no other program interrupts. Each figure is the median of the rounds, each ratio the
median of the rounds' ratios. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

import psutil  # noqa: E402 - the path is set above

from holdfast.process.identity import ProcessIdentity  # noqa: E402
from holdfast.process.verdict import Verdict  # noqa: E402

LARGEST_TIMES_RAW = 3.0
SMALLEST_TIMES_FASTER_THAN_PSUTIL = 5.0

Seconds = dict[str, list[float]]


def measure(rounds: int, calls: int) -> Seconds:
    """Seconds per call of each way, one value for each round."""
    with subprocess.Popen(["sleep", "600"]) as target:
        try:
            return _measure(_ways(target.pid), rounds, calls)
        finally:
            target.kill()


def _ways(pid: int) -> dict[str, tuple[Callable[[], object], float]]:
    """Each way, and what part of the calls it gets: psutil is slow."""
    token = ProcessIdentity.of(pid).token

    def raw() -> int:
        fd = os.pidfd_open(pid)
        inode = os.fstat(fd).st_ino
        os.close(fd)
        return inode

    def verify() -> Verdict:
        return ProcessIdentity.parse(token).verdict()

    def through_psutil() -> bool:
        return psutil.Process(pid).is_running()

    if verify() is not Verdict.SAME or not through_psutil():
        raise AssertionError("the target is not there")
    return {"raw": (raw, 1), "holdfast": (verify, 1), "psutil": (through_psutil, 0.2)}


def _measure(
    ways: dict[str, tuple[Callable[[], object], float]], rounds: int, calls: int
) -> Seconds:
    seconds: Seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (call, part) in ways.items():
            number = max(1, int(calls * part))
            began = time.perf_counter()
            for _ in range(number):
                call()
            seconds[name].append((time.perf_counter() - began) / number)
    return seconds


def ratio(seconds: Seconds, one: str, other: str) -> float:
    """How many times longer `one` takes than `other`."""
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.identity", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    seconds = measure(rounds=200 if chosen.quick else 1000, calls=100)
    times_raw = ratio(seconds, "holdfast", "raw")
    times_faster = ratio(seconds, "psutil", "holdfast")
    micros = {name: statistics.median(values) * 1e6 for name, values in seconds.items()}
    if chosen.json:
        print(json.dumps({**micros, "times_raw": times_raw, "times_faster": times_faster}))
    else:
        print(f"raw pidfd_open + fstat + close      {micros['raw']:8.2f} us")
        print(f"holdfast, verdict of a token        {micros['holdfast']:8.2f} us")
        print(f"psutil Process(pid).is_running()    {micros['psutil']:8.2f} us")
        print(f"holdfast takes {times_raw:.2f} times the raw calls (bar: {LARGEST_TIMES_RAW})")
        bar = SMALLEST_TIMES_FASTER_THAN_PSUTIL
        print(f"holdfast is {times_faster:.2f} times faster than psutil (bar: {bar})")
    missed = times_raw > LARGEST_TIMES_RAW or times_faster < SMALLEST_TIMES_FASTER_THAN_PSUTIL
    if missed:
        print("FAILED: a bar was missed", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
