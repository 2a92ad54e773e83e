"""What a run costs: the call, its start beside `setsid -f` and other supervisors; memory, CPU.

All of them start the same script, and the time is that until its first instruction. They are
measured in turns within one run, since machines are noisy; each figure is the median of the
rounds, each ratio the median of the rounds' ratios. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import ctypes
import json
import os
import platform
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench._peers import PEERS, Missing, Peer

ROOT = Path(__file__).resolve().parents[1]
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
FIRST_INSTRUCTION_SECONDS = 60.0
IDLE_SECONDS = 20.0
SYSTEM_PYTHON = "/usr/bin/python3"
# Times `setsid -f`: a distribution builds its interpreter with more optimisation than most do.
SYSTEM_LIMIT, OTHER_LIMIT = 10.5, 12.5
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Bar(NamedTuple):
    """A figure and its limit."""

    what: str
    figure: float
    limit: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        word = "at least" if self.at_least else "at most"
        met = "met" if self.is_met else "MISSED"
        return f"{met:<7}{self.what:<50} {self.figure:8.2f} {self.unit} ({word} {self.limit:g})"


def interpreter() -> str:
    """Which one is measured: how it was built decides as much as the code does."""
    version = sys.version.split()[0]
    return f"{platform.python_implementation()} {version}, {sys.executable} of {sys.base_prefix}"


class Stage:
    """A directory with a script that says when it begins, and a Holdfast home."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fifo = directory / "begun"
        os.mkfifo(self.fifo)
        self._fd = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self.script = self._write("job", "exit 0")
        # Some peers start it again when it exits: for them it stays.
        self.staying_script = self._write("staying-job", "exec sleep 600")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not _is_ours(name)},
            "HOLDFAST_HOME": str(directory / "home"),
        }

    def _write(self, name: str, rest: str) -> Path:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\necho >{self.fifo}\n{rest}\n")
        path.chmod(0o755)
        return path

    def first_instruction(self, command: list[str], environment: dict[str, str]) -> float:
        """Seconds from the call to the script's first instruction."""
        began = time.perf_counter()
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        ) as process:
            if not self._poll.poll(FIRST_INSTRUCTION_SECONDS * 1000):
                raise RuntimeError(f"{command} did not start its command")
            seconds = time.perf_counter() - began
            os.read(self._fd, 4096)
            process.wait()
        return seconds

    def holdfast(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [HOLDFAST, *words], env=self.environment, check=check, capture_output=True, text=True
        )
        return done.stdout


def _is_ours(name: str) -> bool:
    # Without these, modules would be compiled again at every start: not so when installed.
    return name.startswith("HOLDFAST_") or name == "PYTHONDONTWRITEBYTECODE"


@contextlib.contextmanager
def stage(parent: Path | None = None) -> Iterator[Stage]:
    directory = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=parent))
    try:
        yield Stage(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def peers(place: Stage) -> Iterator[dict[str, Peer]]:
    """Those that can be had here; the others are named."""
    started: dict[str, Peer] = {}
    try:
        for name, make in PEERS.items():
            home = place.directory / name
            home.mkdir()
            try:
                started[name] = make(home, place.staying_script)
            except (Missing, OSError, subprocess.SubprocessError) as error:
                print(f"{name} is left out: {error}", flush=True)
        yield started
    finally:
        for peer in started.values():
            peer.close()


# Starting


def measure_starts(
    place: Stage, rounds: int, peer_rounds: int
) -> tuple[dict[str, float], list[Bar]]:
    """Milliseconds to the first instruction, and the bars."""
    ways: dict[str, Callable[[], float]] = {
        "setsid -f": lambda: place.first_instruction(
            ["setsid", "-f", str(place.script)], place.environment
        ),
        "holdfast run": lambda: place.first_instruction(
            [HOLDFAST, "run", str(place.script)], place.environment
        ),
    }
    limits = {"holdfast run": SYSTEM_LIMIT if sys.base_prefix == "/usr" else OTHER_LIMIT}
    other = _script_of_system(place)
    if other is not None:
        command = [other, "run", str(place.script)]
        ways[f"by {SYSTEM_PYTHON}"] = lambda: place.first_instruction(command, place.environment)
        limits[f"by {SYSTEM_PYTHON}"] = SYSTEM_LIMIT
    seconds = _in_turns(ways, rounds)
    bars = [
        Bar(f"{way}, times `setsid -f`", _ratio(seconds, way, "setsid -f"), limit, "x")
        for way, limit in limits.items()
    ]
    with peers(place) as managers:
        for name, peer in managers.items():
            ways = {"holdfast run": ways["holdfast run"], name: _start_by(place, peer)}
            beside = _in_turns(ways, peer_rounds)
            seconds[name] = beside[name]
            ratio = _ratio(beside, name, "holdfast run")
            bars.append(Bar(f"times faster than {name}", ratio, 2, "x", at_least=True))
    return {name: statistics.median(values) * 1000 for name, values in seconds.items()}, bars


def _script_of_system(place: Stage) -> str | None:
    """The same command by the system's interpreter, where it is another one that will do."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    if sys.base_prefix == "/usr" or not os.path.exists(SYSTEM_PYTHON):
        return None
    if subprocess.run([SYSTEM_PYTHON, "-c", check], check=False).returncode:
        return None
    source = str(ROOT / "src")
    compiling = [SYSTEM_PYTHON, "-m", "compileall", "-qq", source]
    subprocess.run(compiling, env=place.environment, check=True)
    script = place.directory / "holdfast-by-system"
    path = f"import sys; sys.path.insert(0, {source!r})"
    script.write_text(f"#!{SYSTEM_PYTHON}\n{path}\nfrom holdfast import program\nprogram()\n")
    script.chmod(0o755)
    return str(script)


def _start_by(place: Stage, peer: Peer) -> Callable[[], float]:
    def start() -> float:
        seconds = place.first_instruction(peer.start(), peer.environment)
        subprocess.run(
            peer.remove(), env=peer.environment, check=True, capture_output=True, timeout=60
        )
        return seconds

    return start


def _in_turns(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            taken = way()
            if number:  # the first round warms the caches
                seconds[name].append(taken)
    return seconds


def _ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def measure_calls(place: Stage, rounds: int) -> list[Bar]:
    """What a caller waits for, and what one run costs all in all."""
    ways = {
        "run": lambda: call([HOLDFAST, "run", "true"], place),
        "python": lambda: _python(place),
    }
    seconds = _in_turns(ways, rounds)
    extra = [a - b for a, b in zip(seconds["run"], seconds["python"], strict=True)]
    cpu = [cpu_of_a_run([HOLDFAST, "run", "true"], place) for _ in range(rounds)]
    return [
        Bar("a call of `run`, over bare python", statistics.median(extra) * 1000, 20, "ms"),
        Bar("CPU of a run of `true`, its end too", statistics.median(cpu) * 1000, 38, "ms"),
    ]


def cpu_of_a_run(command: list[str], place: Stage) -> float:
    """Of the launcher, the shim and the command: as the subreaper of all of them we see it."""
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        call(command, place)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
    finally:
        libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_batch(place: Stage, count: int) -> list[Bar]:
    """So many runs of `true` by one call: milliseconds for each."""
    began = time.perf_counter()
    subprocess.run(
        [HOLDFAST, "run", "--batch", "-", "-n", "batch"],
        env=place.environment,
        check=True,
        input=b"true\n" * count,
        stdout=subprocess.DEVNULL,
    )
    milliseconds = (time.perf_counter() - began) / count * 1000
    place.holdfast("wait", "--all", "--timeout", "60", check=False)
    return [Bar(f"each of {count} runs by one `run --batch`", milliseconds, 15, "ms")]


def measure_many(place: Stage, count: int, at_once: int) -> list[Bar]:
    """So many runs of `true`: milliseconds a call, and that every one of them ended well."""
    began = time.perf_counter()
    command = f'seq {count} | xargs -P{at_once} -I% "{HOLDFAST}" -q run -n many-% true'
    subprocess.run(
        ["sh", "-c", command], env=place.environment, check=True, stdout=subprocess.DEVNULL
    )
    milliseconds = (time.perf_counter() - began) / count * 1000
    place.holdfast("wait", "--all", "--timeout", "60", check=False)
    found = json.loads(place.holdfast("--json", "ls", "--all"))["runs"]
    bad = [
        run for run in found if run["name"].startswith("many-") and run["outcome"] != "succeeded"
    ]
    good = len([run for run in found if run["name"].startswith("many-")]) - len(bad)
    for run in bad:
        print(f"{run['name']}: {run['state']}, {run['outcome']}: {run['evidence']}")
    print(f"{count} runs of `true`, {at_once} at once: {milliseconds:.1f} ms a call")
    return [Bar("runs of `true` that did not succeed", count - good, 0, "")]


# Living


@contextlib.contextmanager
def sleepers(place: Stage, count: int, *options: str) -> Iterator[list[int]]:
    """So many runs of `sleep`; the PIDs of their shims."""
    for _ in range(count):
        place.holdfast("run", "--tag", "bench=1", *options, "sleep", "600")
    found = json.loads(place.holdfast("--json", "ls"))["runs"]
    try:
        yield [run["shim"]["pid"] for run in found if run["state"] == "running"]
    finally:
        place.holdfast("stop", "--grace", "1", "--tag", "bench=1", check=False)


@contextlib.contextmanager
def bare_interpreters(count: int) -> Iterator[list[int]]:
    """So many that have started, and wait for their input to end."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(count)
        ]
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        yield [one.pid for one in started]
        for one in started:
            one.communicate()


def measure_life(place: Stage, count: int, idle_seconds: float) -> list[Bar]:
    """CPU of runs without samples, and memory."""
    with sleepers(place, count, "--sample-interval", "0") as shims:
        time.sleep(3)  # the early looks are over, and nothing is due any more
        before = sum(map(cpu_seconds, shims))
        time.sleep(idle_seconds)
        cpu = (sum(map(cpu_seconds, shims)) - before) / idle_seconds * 100
        bare = _memory(shims)
    with sleepers(place, count) as shims, bare_interpreters(count) as others:
        _await_samples(place, count)
        memory, beside = _memory(shims), _memory(others)
    print(f"a bare interpreter among {count}: {beside:.2f} MB ({sys.executable})")
    return [
        Bar(f"PSS of a sampled shim among {count}", memory, 5, "MB"),
        Bar("the same, times a bare interpreter", memory / beside, 2, "x"),
        Bar(f"the same of {count} without samples", bare, 5, "MB"),
        Bar(f"CPU of {count} idle runs without samples", cpu, 0.1, "% of a core"),
    ]


def measure_listing(place: Stage, count: int) -> list[Bar]:
    """What a listing of so many active runs takes beyond the start of an interpreter."""
    with sleepers(place, count) as shims:
        assert len(shims) == count
        ways = {"ls": lambda: call([HOLDFAST, "ls"], place), "python": lambda: _python(place)}
        seconds = _in_turns(ways, 20)
    extra = [a - b for a, b in zip(seconds["ls"], seconds["python"], strict=True)]
    what = f"`ls` of {count} active runs, over bare python"
    return [Bar(what, statistics.median(extra) * 1000, 25, "ms")]


def _memory(shims: list[int]) -> float:
    return sum(map(pss_bytes, shims)) / len(shims) / 1e6


def _await_samples(place: Stage, count: int) -> None:
    """Until each of so many runs has two rows: what samples need is loaded by then."""
    deadline = time.monotonic() + 60
    traces = Path(place.environment["HOLDFAST_HOME"]) / "runs"
    while sum(path.read_bytes().count(b"\n") > 1 for path in traces.glob("*/trace.jsonl")) < count:
        if time.monotonic() > deadline:
            raise RuntimeError("the runs were not sampled")
        time.sleep(0.5)


def call(command: list[str], place: Stage) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=place.environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _python(place: Stage) -> float:
    return call([sys.executable, "-c", "pass"], place)


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel shows no PSS")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.launch", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, runs and seconds")
    parser.add_argument(
        "--only", choices=["starts", "calls", "many", "life"], help="one part alone"
    )
    chosen = parser.parse_args(arguments)
    quick = chosen.quick
    compileall.compile_dir(ROOT / "src", quiet=2)
    subprocess.run(
        [sys.executable, "-m", "holdfast.bundling"], check=True
    )  # as a start has it made
    print(interpreter(), flush=True)
    bars: list[Bar] = []
    # Each in a home of its own: what one leaves behind is not the other's history.
    if chosen.only in (None, "starts"):
        with stage() as place:
            milliseconds, found = measure_starts(place, 10 if quick else 40, 3 if quick else 10)
        bars += found
        for name, median in milliseconds.items():
            print(f"{name:<14} {median:8.1f} ms to the first instruction", flush=True)
    if chosen.only in (None, "calls"):
        with stage() as place:
            bars += measure_calls(place, 10 if quick else 40)
            bars += measure_batch(place, 50 if quick else 200)
    if chosen.only in (None, "many"):
        with stage() as place:
            bars += measure_many(place, 60 if quick else 500, 8)
    if chosen.only in (None, "life"):
        with stage() as place:
            bars += measure_life(place, 50, 5 if quick else IDLE_SECONDS)
        with stage() as place:
            bars += measure_listing(place, 100)
    print(*bars, sep="\n", flush=True)
    return 0 if all(bar.is_met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
