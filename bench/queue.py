"""What a queue costs, beside task-spooler and nq: runs a second, the delay from one to the next.

    python -m bench.queue [--quick] [--only peers|waiting]

All run the same script, which says when it began and ended, one at a time; they are measured in
turns within one run, since machines are noisy. Then what waits: memory and wake-ups of waiting
shims, and `ls` and `queue` with many of them. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.launch import Bar, Stage, interpreter, pss_bytes, stage

ROUNDS, QUICK_ROUNDS = 3, 1
RUNS, QUICK_RUNS = 40, 8  # in one round
WAITING, QUICK_WAITING = 300, 30
ACTIVE = 10
LISTINGS = 5
QUIET_SECONDS, QUICK_QUIET_SECONDS = 20.0, 3.0
FAR_BACK = 10  # in the line: the slow look of such a one is minutes away
DELAY_MILLISECONDS = 60.0
SETTLED_SECONDS = 60.0


class Spooler:
    """Something that runs commands one after the other."""

    program = ""

    def __init__(self, place: Stage) -> None:
        self.place = place
        self.directory = place.directory / type(self).__name__
        self.directory.mkdir()
        self.environment = dict(place.environment)

    def submit(self, command: list[str]) -> None:
        raise NotImplementedError

    def wait(self) -> None:
        """Until all that was submitted is over."""
        raise NotImplementedError

    def close(self) -> None:
        """End what stays behind."""

    def call(self, *words: str) -> str:
        return subprocess.run(
            words,
            env=self.environment,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout


class Holdfast(Spooler):
    """`holdfast run -Q main`."""

    def __init__(self, place: Stage) -> None:
        super().__init__(place)
        self.names: list[str] = []

    def submit(self, command: list[str]) -> None:
        self.names.append(self.place.holdfast("run", "-Q", "main", *command).strip())

    def wait(self) -> None:
        self.place.holdfast("wait", *self.names)
        self.names.clear()


class TaskSpooler(Spooler):
    """`tsp`, a daemon that it starts by itself."""

    program = "tsp"

    def __init__(self, place: Stage) -> None:
        super().__init__(place)
        self.environment |= {"TS_SOCKET": f"{self.directory}/s", "TMPDIR": str(self.directory)}
        self.last = ""

    def submit(self, command: list[str]) -> None:
        self.last = self.call("tsp", *command).strip()

    def wait(self) -> None:
        self.call("tsp", "-w", self.last)

    def close(self) -> None:
        self.call("tsp", "-K")


class Nq(Spooler):
    """`nq`: each job waits for the locks of those before it."""

    program = "nq"

    def __init__(self, place: Stage) -> None:
        super().__init__(place)
        self.environment["NQDIR"] = str(self.directory)

    def submit(self, command: list[str]) -> None:
        self.call("nq", *command)

    def wait(self) -> None:
        self.call("nq", "-w")


class Round:
    """Some commands through one of them: how long that took, and the gaps between them."""

    def __init__(self, spooler: Spooler, runs: int) -> None:
        told = spooler.directory / "told"
        told.write_text("")
        script = f"date +%s%N >>{told}; date +%s%N >>{told}"
        began = time.perf_counter()
        for _ in range(runs):
            spooler.submit(["sh", "-c", script])
        spooler.wait()
        self.per_second = runs / (time.perf_counter() - began)
        times = [int(line) for line in told.read_text().split()]
        if len(times) != 2 * runs or times != sorted(times):
            raise RuntimeError(f"{type(spooler).__name__} did not run them one after the other")
        pairs = zip(times[2::2], times[1:-1:2], strict=True)
        self.gaps_ms = [(begin - end) / 1e6 for begin, end in pairs]


def beside_peers(place: Stage, rounds: int, runs: int) -> Iterator[Bar]:
    """Runs a second with all submitted as fast as one can, then the delay with all in line."""
    spoolers = [make(place) for make in (Holdfast, TaskSpooler, Nq) if _is_here(make.program)]
    done: dict[str, list[Round]] = {type(one).__name__: [] for one in spoolers}
    try:
        for _ in range(rounds):
            for one in spoolers:
                done[type(one).__name__].append(Round(one, runs))
        delays = _delays(place, rounds * runs)
    finally:
        for one in spoolers:
            one.close()
    print(f"{rounds} rounds of {runs} runs each, one at a time:")
    for name, found in done.items():
        rate = statistics.median(one.per_second for one in found)
        gap = statistics.median(gap for one in found for gap in one.gaps_ms)
        print(
            f"  {name:<12} {rate:7.1f} runs a second, {gap:7.1f} ms from an end to the next begin"
        )
    # When the one that submits is the slower one, the gaps above are its own.
    yield Bar("an end to the next begin, all in line", delays, DELAY_MILLISECONDS, "ms")


def _is_here(program: str) -> bool:
    if program and shutil.which(program) is None:
        print(f"{program} is left out: it is not installed", flush=True)
        return False
    return True


def _delays(place: Stage, runs: int) -> float:
    """The median delay when all have been submitted before the first may start."""
    place.holdfast("queue", "set", "line", "--limit", "1")
    place.holdfast("queue", "pause", "line")
    told = place.directory / "line"
    told.write_text("")
    script = f"date +%s%N >>{told}; date +%s%N >>{told}"
    names = [place.holdfast("run", "-Q", "line", "sh", "-c", script).strip() for _ in range(runs)]
    place.holdfast("queue", "unpause", "line")
    place.holdfast("wait", *names)
    times = [int(line) for line in told.read_text().split()]
    gaps = [(begin - end) / 1e6 for begin, end in zip(times[2::2], times[1:-1:2], strict=True)]
    print(f"{runs} in line: {sorted(gaps)[len(gaps) * 9 // 10]:.1f} ms at the 90th percentile")
    return statistics.median(gaps)


# What waits


def of_the_waiting(place: Stage, count: int, quiet_seconds: float) -> Iterator[Bar]:
    """Memory, wake-ups and listings while so many wait."""
    for number in range(ACTIVE):
        place.holdfast("run", "-n", f"active{number}", "sleep", "3600")
        place.holdfast("run", "-n", f"late{number}", "--in", "1h", "true")
    place.holdfast("queue", "set", "long", "--limit", "1")
    place.holdfast("queue", "pause", "long")
    began = time.perf_counter()
    batch = "".join(
        json.dumps({"command": ["true"], "queue": "long", "name": f"w{number:04}"}) + "\n"
        for number in range(count)
    )
    path = place.directory / "batch"
    path.write_text(batch)
    place.holdfast("run", "-q", "--batch", str(path))
    print(f"{count} submitted in one call in {time.perf_counter() - began:.1f} s")
    shims = dict(_shims(place))
    kinds = {
        kind: [pid for name, pid in sorted(shims.items()) if name.startswith(kind)]
        for kind in ("w", "late", "active")
    }
    yield from _wake_ups([*kinds["w"][FAR_BACK:], *kinds["late"]], quiet_seconds)
    # Of the same number, each started by a call of its own.
    of_waiting, of_active = (
        statistics.median(map(pss_bytes, kinds[kind])) for kind in ("late", "active")
    )
    print(f"PSS: {of_waiting / 1e6:.2f} MB waiting, {of_active / 1e6:.2f} MB active")
    yield Bar("PSS of a waiting shim, times an active one's", of_waiting / of_active, 1.0, "x")
    for words in (("ls",), ("queue", "long")):
        took = statistics.median(_seconds(place, words) for _ in range(LISTINGS))
        print(f"`{' '.join(words)}` with {count} waiting: {took * 1000:.0f} ms")


def _shims(place: Stage) -> Iterator[tuple[str, int]]:
    for info in json.loads(place.holdfast("ls", "--json"))["runs"]:
        yield info["name"], info["shim"]["pid"]


def _wake_ups(waiting: list[int], seconds: float) -> Iterator[Bar]:
    """Of those whose slow look is minutes away, once they have settled."""
    deadline = time.monotonic() + SETTLED_SECONDS
    before = _switches(waiting)
    while time.monotonic() < deadline:
        time.sleep(1.0)  # time itself: nothing tells that nothing happens
        now = _switches(waiting)
        if now == before:
            break
        before = now
    time.sleep(seconds)
    count = sum(_switches(waiting)) - sum(before)
    yield Bar(f"wake-ups of {len(waiting)} waiting shims in {seconds:g} s", count, 0, "")


def _switches(pids: list[int]) -> list[int]:
    lines = (Path(f"/proc/{pid}/status").read_text().splitlines() for pid in pids)
    return [
        int(line.split()[1]) for status in lines for line in status if line.startswith("voluntary")
    ]


def _seconds(place: Stage, words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    place.holdfast(*words)
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.queue", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs, rounds and seconds")
    parser.add_argument("--only", choices=["peers", "waiting"], help="one part alone")
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    print(f"Linux {platform.release()}, {os.cpu_count()} cores, load {load:.1f}; {interpreter()}")
    bars = []
    with stage() as place:
        try:
            if options.only != "waiting":
                rounds, runs = (QUICK_ROUNDS, QUICK_RUNS) if options.quick else (ROUNDS, RUNS)
                bars += beside_peers(place, rounds, runs)
            if options.only != "peers":
                count = QUICK_WAITING if options.quick else WAITING
                seconds = QUICK_QUIET_SECONDS if options.quick else QUIET_SECONDS
                bars += of_the_waiting(place, count, seconds)
        finally:
            place.holdfast("stop", "--all", "--grace", "0", check=False)
    for bar in bars:
        print(bar)
    return 0 if options.quick or all(bar.is_met for bar in bars) else 1


if __name__ == "__main__":
    raise SystemExit(main())
