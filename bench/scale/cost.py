"""What one command costs, and that over a bare interpreter, measured in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.launch import HOLDFAST

_METER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("meter.py"))]
SLOW_SECONDS = 2.0
LEAST_SECONDS = 0.001  # less can't be told from none
BARE = [sys.executable, "-c", "pass"]


class Figure(NamedTuple):
    """What was measured; some have a bar."""

    what: str
    value: float
    unit: str
    limit: float | None = None  # at most
    note: str = ""

    @property
    def is_met(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        bar = "" if self.limit is None else f"(at most {self.limit:g})"
        met = "met" if self.is_met else "MISSED"
        word = "" if self.limit is None else met
        row = f"{word:<7}{self.what:<56}{self.value:>9.2f} {self.unit:<12}{bar}{self.note}"
        return row.rstrip()


class Cost(NamedTuple):
    """Of one call."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int


class Costs:
    """Of one command in one home: its calls, each beside a bare interpreter."""

    def __init__(self) -> None:
        self._calls: list[Cost] = []
        self._bare: list[Cost] = []

    def add(self, cost: Cost, bare: Cost) -> None:
        self._calls.append(cost)
        self._bare.append(bare)

    @property
    def milliseconds(self) -> float:
        """Over a bare interpreter; of medians."""
        return self._over("seconds", statistics.median)

    @property
    def cpu_milliseconds(self) -> float:
        """The same of CPU time, which other work on the machine disturbs less."""
        return self._over("cpu_seconds", statistics.median)

    @property
    def least_milliseconds(self) -> float:
        """Of the least disturbed calls: on a busy machine the better guess at what it takes."""
        return self._over("seconds", min)

    def _over(self, what: str, middle: Callable[[list[float]], float]) -> float:
        calls, bare = ([getattr(one, what) for one in part] for part in (self._calls, self._bare))
        return max(LEAST_SECONDS, middle(calls) - middle(bare)) * 1000

    @property
    def megabytes(self) -> float:
        """The most that one of the calls had in memory."""
        return max(cost.peak_bytes for cost in self._calls) / 1e6

    @property
    def is_slow(self) -> bool:
        """Whether calls take so long that one of them is measured well enough."""
        return bool(self._calls) and self._calls[-1].seconds > SLOW_SECONDS

    def __str__(self) -> str:
        if not self._calls:
            return "-"
        return f"{self.milliseconds:.0f}/{self.cpu_milliseconds:.0f} ({self.megabytes:.0f})"

    def figure(self, what: str, limit: float | None = None) -> Figure:
        """The time, with its bar."""
        note = f"  CPU {self.cpu_milliseconds:.0f} ms"
        return Figure(what, self.milliseconds, "ms", limit, note)

    def growth(self, smaller: Costs) -> float:
        """How many times as long as that."""
        by_median = self.milliseconds / smaller.milliseconds
        return min(by_median, self.least_milliseconds / smaller.least_milliseconds)


def start_meter(
    words: list[str], environment: dict[str, str], lines: int = 0
) -> subprocess.Popen[str]:
    """`holdfast WORDS` below a meter; `read_meter` has what it cost."""
    return _start([HOLDFAST, *words], environment, lines)


def read_meter(meter: subprocess.Popen[str], what: str, exit_codes: tuple[int, ...] = (0,)) -> Cost:
    """When the command has ended; RuntimeError when that was not as expected."""
    printed, errors = meter.communicate()
    if meter.returncode:
        raise RuntimeError(f"{what} could not be measured: {errors[-500:]}")
    code, seconds, cpu, peak = printed.split()
    if int(code) not in exit_codes:
        raise RuntimeError(f"{what}: exit {code}: {errors[-500:]}")
    return Cost(int(code), float(seconds), float(cpu), int(peak))


def cost_of(
    words: list[str],
    environment: dict[str, str],
    *,
    lines: int = 0,
    exit_codes: tuple[int, ...] = (0,),
    descriptors: int | None = None,
) -> Cost:
    """Of one call of `holdfast WORDS`; with a limit of so many descriptors."""
    argv = [HOLDFAST, *words]
    if descriptors is not None:
        argv = ["/bin/sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *argv]
    return read_meter(_start(argv, environment, lines), " ".join(words), exit_codes)


def bare_cost(environment: dict[str, str]) -> Cost:
    """Of an interpreter that does nothing."""
    return read_meter(_start(BARE, environment, 0), "python")


def costs_in_turns(words: list[str], environment: dict[str, str], rounds: int) -> Costs:
    """Of so many calls; the first, which warms the caches, does not count."""
    costs = Costs()
    for number in range(rounds + 1):
        bare = bare_cost(environment)
        cost = cost_of(words, environment)
        if number:
            costs.add(cost, bare)
    return costs


def _start(argv: list[str], environment: dict[str, str], lines: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_METER, str(lines), *argv],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
