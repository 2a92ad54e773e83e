"""What commands cost among 10 000 and 100 000 ended runs, with the index and without it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import NamedTuple

from bench.launch import HOLDFAST, Stage
from bench.scale.copies import SORTS, Sort, make_home, name_of, part_of, sort_of
from bench.scale.cost import Costs, Figure, bare_cost, cost_of

SIZES, QUICK_SIZES = (10_000, 100_000), (240,)
ROUNDS, QUICK_ROUNDS = 5, 1
INDEXES = ("warm", "cold")  # cold: there is no index, and the command has to do without or make it


class Command(NamedTuple):
    """What is measured."""

    words: tuple[str, ...]
    is_bounded: bool = True  # its answer does not grow with the history
    lines: int = 0  # how many are read of its output; 0: all
    exit_codes: tuple[int, ...] = (0,)

    @property
    def label(self) -> str:
        return " ".join(self.words) + (f" (first {self.lines} lines)" if self.lines else "")


LISTING = Command(("ls", "--all", "-n", "50"))
BY_DAY = Command(("usage", "--by", "day"), is_bounded=False)
COMMANDS = (
    Command(("ls",)),
    Command(("ls", "--all", "-n", "20")),
    LISTING,
    Command(("ls", "--all", "--outcome", "failed", "-n", "20")),
    Command(("ls", "--all", "--tag", "part=p7", "-n", "20")),
    Command(("ls", "--all", "--agent", "claude", "-n", "20")),
    Command(("ls", "--all", "--since", "100d", "-n", "20")),
    Command(("ls", "--all", "--state", "unknown", "-n", "20"), is_bounded=False),
    Command(("ls", "--all"), is_bounded=False),
    Command(("ls", "--since", "1d")),
    Command(("status", "NAME")),
    Command(("usage",), is_bounded=False),
    BY_DAY,
    Command(("events",), lines=100, exit_codes=(0, 141)),
    Command(("events",), is_bounded=False),
    Command(("logs", "--state", "ended", "--grep", "nonesuch"), False, exit_codes=(1,)),
    Command(("clean", "--dry-run"), is_bounded=False),
    Command(("recover",), is_bounded=False),
    Command(("run", "-n", "FRESH", "true")),
    Command(("wait", "FRESH")),
)


class History:
    """A home with so many ended runs."""

    def __init__(self, stage: Stage, size: int) -> None:
        self.size = size
        self._path = stage.directory / f"ended-{size}"
        self._starts = 0
        began = time.monotonic()
        make_home(stage, self._path, size)
        self._environment = {**stage.environment, "HOLDFAST_HOME": str(self._path)}
        print(f"{size} ended runs made in {time.monotonic() - began:.0f} s", flush=True)

    def measure(self, command: Command, costs: Costs) -> None:
        """One call, beside a bare interpreter."""
        os.utime(self._path / "tidied")  # so that no start has the history removed
        bare = bare_cost(self._environment)
        cost = cost_of(
            self._words(command),
            self._environment,
            lines=command.lines,
            exit_codes=command.exit_codes,
        )
        costs.add(cost, bare)

    def _words(self, command: Command) -> list[str]:
        self._starts += command.words[0] == "run"
        names = {"NAME": name_of(self.size // 2), "FRESH": f"fresh-{self._starts}"}
        return [names.get(word, word) for word in command.words]

    def remove_index(self) -> None:
        for path in self._path.glob("index.sqlite3*"):
            path.unlink()

    # --- whether the commands are right about it ---------------------------------------------

    def faults(self) -> list[str]:
        """What Holdfast says of these runs and is not so; with and without an index."""
        wrong = self._wrong_lists()  # the first of them makes the index, if there is none
        return [*wrong, *self._wrong_lists(), *self._wrong_runs(), *self._wrong_usage()]

    def _wrong_runs(self) -> list[str]:
        wrong = []
        for number in (*map(self._newest, SORTS), self.size - 1):
            found = json.loads(self._holdfast("--json", "status", name_of(number)))
            sort = sort_of(number)
            expected = {
                "name": name_of(number),
                "outcome": sort.outcome,
                "exit_code": sort.exit_code,
                "tags": {"part": part_of(number)},
                "agent": "claude" if sort.cost_usd else None,
            }
            wrong += [
                f"status {name_of(number)}: {key} is {found[key]!r}, not {value!r}"
                for key, value in expected.items()
                if found[key] != value
            ]
        return wrong

    def _newest(self, sort: Sort) -> int:
        return next(number for number in range(self.size) if sort_of(number) == sort)

    def _wrong_usage(self) -> list[str]:
        found = json.loads(self._holdfast("--json", "usage"))["total"]
        cost = sum(sort_of(number).cost_usd for number in range(self.size))
        if (found["runs"], found["cost_usd"]) == (self.size, cost):
            return []
        return [f"usage: {found['runs']} runs of {self.size}, ${found['cost_usd']} of ${cost}"]

    def _wrong_lists(self) -> list[str]:
        every = range(self.size)
        failed = [number for number in every if sort_of(number).outcome == "failed"]
        of_part = [number for number in every if part_of(number) == "p7"]
        expected = {
            ("-n", "50"): list(every[:50]),
            ("-n", "20", "--outcome", "failed"): failed[:20],
            ("-n", "20", "--tag", "part=p7"): of_part[:20],
        }
        return [
            f"ls --all {' '.join(words)}: not the newest ones: {found}"
            for words, numbers in expected.items()
            if (found := self._holdfast("-q", "ls", "--all", *words).split())
            != list(map(name_of, numbers))
        ]

    def _holdfast(self, *words: str) -> str:
        done = subprocess.run(
            [HOLDFAST, *words], env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout


class EndedCosts:
    """Of every command, in every home, with and without an index."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self._costs: dict[tuple[Command, int, str], Costs] = {}

    def of(self, command: Command, size: int, index: str = "warm") -> Costs:
        return self._costs.setdefault((command, size, index), Costs())

    def growth(self, command: Command) -> float:
        """From the smallest to the largest home."""
        return self.of(command, self.sizes[-1]).growth(self.of(command, self.sizes[0]))

    def figures(self) -> list[Figure]:
        least, most = self.sizes[0], self.sizes[-1]
        listing = self.of(LISTING, most)
        at_least = {key: cost for key, cost in self._costs.items() if key[1] == least}
        largest = max(at_least, key=lambda key: at_least[key].megabytes)
        return [
            listing.figure(f"`{LISTING.label}` of {most}", 250),
            Figure(f"`{LISTING.label}` of {most}, peak", listing.megabytes, "MB", 60),
            self.of(BY_DAY, most).figure(f"`{BY_DAY.label}` of {most}", 300),
            Figure(
                f"most at {least}: `{largest[0].label}`, {largest[2]}",
                at_least[largest].megabytes,
                "MB",
                100,
            ),
            *(
                Figure(f"`{command.label}`, times {least}", self.growth(command), "x", 3)
                for command in COMMANDS
                if command.is_bounded
            ),
        ]

    def table(self) -> list[str]:
        """Milliseconds and CPU milliseconds over a bare interpreter, and the peak in MB."""
        columns = [(size, index) for size in self.sizes for index in INDEXES]
        heads = "".join(f"{f'{size} {index}':>22}" for size, index in columns)
        lines = [f"{'ms/CPU ms over bare python (MB)':<34}{heads}{'growth':>9}"]
        for command in COMMANDS:
            cells = "".join(f"{self.of(command, *column)!s:>22}" for column in columns)
            lines.append(f"{command.label:<34}{cells}{self.growth(command):>8.1f}x")
        return lines


def measure_ended(
    stage: Stage, sizes: tuple[int, ...], rounds: int
) -> tuple[EndedCosts, list[str]]:
    """What each command costs, and what was wrong."""
    costs = EndedCosts(sizes)
    histories = [History(stage, size) for size in sizes]
    for history in histories[1:]:
        history.measure(LISTING, costs.of(LISTING, history.size, "cold"))  # which makes the index
    wrong = [f"{one.size} ended: {fault}" for one in histories for fault in one.faults()]
    for _ in range(rounds):
        _measure_round(histories, costs, "warm")
    # Once, and of the smallest: who has no index reads every run.
    _measure_round(histories[:1], costs, "cold")
    return costs, wrong


def _measure_round(histories: list[History], costs: EndedCosts, index: str) -> None:
    """Every command in every home; what takes seconds is not measured again and again."""
    for command in COMMANDS:
        for history in histories:
            known = costs.of(command, history.size, index)
            if known.is_slow:
                continue
            if index == "cold":
                history.remove_index()
            history.measure(command, known)
            print(f"{index} {history.size}: {command.label}: {known}", flush=True)
