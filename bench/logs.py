"""What `logs` costs: --grep beside GNU grep, and following beside `tail -f`.

Both search the same log, in turns; the figures are CPU time, so that a busy machine does not count,
of the whole command, start included. Each ratio is the median of the rounds' ratios. A delay is the
time from a write to the log until its line can be read from the follower's stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.launch import Bar, interpreter
from holdfast import Runs

SMALLEST_PART_OF_GREP = 0.5  # of its throughput, for plain text
LARGEST_TIMES_TAIL = 1.5
SMALLEST_PART_OF_TAIL = 0.9  # of its throughput
SPARE_SECONDS = 0.0002
PATIENCE_SECONDS = 30
WORDS = (
    *("epoch", "step", "loss", "accuracy", "learning", "rate", "worker", "queue", "request"),
    *("response", "connection", "timeout", "retry", "cache", "batch", "tensor", "memory", "device"),
    *("gradient", "checkpoint", "saved", "loaded", "handler", "session", "client", "server"),
    *("upload", "download", "index", "size", "zero", "maximum", "xor"),
)


class Search(NamedTuple):
    """A pattern, and the options for it."""

    what: str
    pattern: str
    options: tuple[str, ...] = ()
    grep: tuple[str, ...] = ("-E",)

    @property
    def is_text(self) -> bool:
        return self.grep == ("-F",)


SEARCHES = (
    Search("text", "disk quota exceeded", grep=("-F",)),
    Search("text that is nowhere", "nonesuch", grep=("-F",)),
    Search("two letters", "zq", grep=("-F",)),
    Search("text, ignoring case", "error disk", ("-i",), ("-i", "-E")),
    Search("expression with text in it", "ERROR [a-z]+ quota", grep=("-E",)),
    Search("text at the end of a line", "/dev/sda[0-6]$", grep=("-E",)),
    Search("whole word", r"\bERROR\b", grep=("-P",)),
    Search("expression without text", "[0-9]{7,} ", grep=("-E",)),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="of the log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--writes", type=int, default=500, help="to follow")
    parser.add_argument("--flood", type=int, default=300, help="megabytes to follow")
    parser.add_argument("--only", choices=("grep", "follow"))
    parser.add_argument("--quick", action="store_true", help="a smaller log, fewer rounds")
    args = parser.parse_args()
    if args.quick:
        args.megabytes, args.rounds, args.writes, args.flood = 512, 3, 100, 100
    print(interpreter(), flush=True)
    missed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-logs-") as directory:
        os.environ["HOLDFAST_HOME"] = f"{directory}/home"
        if args.only != "follow":
            missed += measure_grep(Path(directory), args.megabytes << 20, args.rounds)
        if args.only != "grep":
            missed += measure_following(Path(directory), args.writes)
            missed += measure_flood(Path(directory), args.flood << 20, args.rounds)
    print(f"missed: {', '.join(missed)}" if missed else "all bars are met")
    return 1 if missed else 0


def measure_grep(directory: Path, size: int, rounds: int) -> list[str]:
    """Searches in turns; the names of those that are too slow."""
    run = Runs().start(["true"], name="big")
    run.wait()
    log = Path(run.directory.output_path)
    hits = _write_log(log, size)
    print(f"a log of {size >> 20} MB, {hits} lines of which have an error; seconds of CPU (median)")
    print(f"{'':<28}{'grep':>8}{'holdfast':>10}{'throughput of grep, times':>28}")
    missed = []
    for search in SEARCHES:
        ours = [sys.executable, "-m", "holdfast", "logs", *search.options]
        ours += ["--grep", search.pattern, "big"]
        theirs = ["grep", "-b", *search.grep, "-e", search.pattern, str(log)]
        pairs = [
            (_cpu_seconds(theirs, directory), _cpu_seconds(ours, directory)) for _ in range(rounds)
        ]
        ratio = statistics.median(one / other for one, other in pairs)
        middle = [statistics.median(column) for column in zip(*pairs, strict=True)]
        is_missed = search.is_text and ratio < SMALLEST_PART_OF_GREP
        bar = f"  (at least {SMALLEST_PART_OF_GREP})" if search.is_text else ""
        figures = f"{middle[0]:>8.2f}{middle[1]:>10.2f}{ratio:>28.2f}{bar}"
        print(f"{search.what:<28}{figures}", flush=True)
        missed += [search.what] if is_missed else []
    log.unlink()
    return missed


def _write_log(path: Path, size: int) -> int:
    chance = random.Random(1)
    lines = [
        f"2026-11-15T18:{number % 60:02d}:{number % 59:02d}.{chance.randrange(10**6):06d}Z"
        f" {chance.choice(('INFO', 'DEBUG', 'WARN'))}"
        f" {' '.join(chance.choices(WORDS, k=chance.randrange(4, 14)))} {chance.randrange(10**6)}\n"
        for number in range(20_000)
    ]
    block = "".join(lines).encode()
    hits = 0
    with path.open("wb") as log:
        while log.tell() < size:
            log.write(block)
            log.write(b"2026-11-15 ERROR disk quota exceeded on /dev/sda%d\n" % (hits % 7))
            hits += 1
    return hits


def _cpu_seconds(command: list[str], directory: Path) -> float:
    """Of the command and its whole output, which is no /dev/null: grep would stop at a hit."""
    before = os.times()
    with (directory / "found").open("wb") as found:
        code = subprocess.run(command, stdout=found, check=False).returncode
    if code > 1:
        raise RuntimeError(f"exit code {code}: {command}")
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


class Follower:
    """Something that follows a log, and the log."""

    def __init__(self, log: Path, command: list[str]) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self.delay_of(b"first\n")

    def delay_of(self, line: bytes) -> float:
        """Seconds from the write until the line is there."""
        seen = b""
        began = time.perf_counter()
        os.write(self._log, line)
        while not seen.endswith(line):
            if not self._poll.poll(PATIENCE_SECONDS * 1000):
                raise TimeoutError(f"{line!r} does not come")
            seen += os.read(self._out, 65536)
        return time.perf_counter() - began

    def seconds_of(self, size: int) -> float:
        """From the first of so many bytes, which another process writes, to the last."""
        began = time.perf_counter()
        block = "bs=1M", f"count={size >> 20}", "status=none"
        source = ["dd", "if=/dev/zero", f"of=/dev/fd/{self._log}", "oflag=append", "conv=notrunc"]
        with subprocess.Popen([*source, *block], pass_fds=[self._log]):
            while size > 0:
                if not self._poll.poll(PATIENCE_SECONDS * 1000):
                    raise TimeoutError(f"{size} bytes do not come")
                size -= len(os.read(self._out, 1 << 20))
        return time.perf_counter() - began

    def close(self) -> None:
        os.close(self._log)
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def _followers(directory: Path) -> Iterator[dict[str, Follower]]:
    run = Runs().start(["sleep", "3600"], name="followed")
    plain = directory / "plain.log"
    plain.touch()
    ours = [sys.executable, "-m", "holdfast", "logs", "-f", "followed"]
    with contextlib.ExitStack() as stack:
        stack.callback(run.stop, 0)
        followers = {}
        for name, log, command in (
            ("tail -f", plain, ["tail", "-n", "+1", "-f", str(plain)]),
            ("holdfast logs -f", Path(run.directory.output_path), ours),
        ):
            followers[name] = Follower(log, command)
            stack.callback(followers[name].close)
        yield followers


def measure_following(directory: Path, writes: int) -> list[str]:
    """Writes to both logs in turns; the name of the bar if it is missed."""
    delays: dict[str, list[float]] = {}
    with _followers(directory) as followers:
        for number in range(writes):
            for name, follower in followers.items():
                delays.setdefault(name, []).append(follower.delay_of(b"line %d\n" % number))
    for name, values in delays.items():
        worst = statistics.quantiles(values, n=20)[-1]
        print(
            f"{name:<28}{statistics.median(values) * 1e6:8.0f} us from write to stdout (median),"
            f" {worst * 1e6:.0f} us (95 of 100)"
        )
    theirs, ours = map(statistics.median, delays.values())
    limit = LARGEST_TIMES_TAIL * theirs + SPARE_SECONDS
    spare = f"{SPARE_SECONDS * 1e6:.0f} us"
    print(f"bar: {LARGEST_TIMES_TAIL} times tail -f and {spare}: {limit * 1e6:.0f} us")
    return ["following"] if ours > limit else []


def measure_flood(directory: Path, size: int, rounds: int) -> list[str]:
    """So much is written at once, in turns; the name of the bar if it is missed."""
    seconds: dict[str, list[float]] = {}
    with _followers(directory) as followers:
        for _ in range(rounds):
            for name, follower in followers.items():
                seconds.setdefault(name, []).append(follower.seconds_of(size))
    for name, values in seconds.items():
        print(f"{name:<28}{size / 1e6 / statistics.median(values):8.0f} MB/s of {size >> 20} MB")
    theirs, ours = seconds.values()
    part = statistics.median(one / other for one, other in zip(theirs, ours, strict=True))
    what = f"`logs -f` of {size >> 20} MB, throughput of tail -f"
    bar = Bar(what, part, SMALLEST_PART_OF_TAIL, "x", at_least=True)
    print(bar)
    return [] if bar.is_met else ["following a flood"]


if __name__ == "__main__":
    sys.exit(main())
