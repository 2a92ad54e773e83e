"""Runs in a queue that tell by themselves when they began and ended, and what that comes to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.run.home import Home
from holdfast.run.queueing.disk import Queue
from tests.support.recovering import gated

# One line per run, by a clock that all share, written at once: who dies on the way tells nothing.
RECORDING = (
    "import os, sys, time; begin = time.monotonic_ns(); time.sleep(float(sys.argv[2]));"
    " fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600);"
    " os.write(fd, f'{begin} {time.monotonic_ns()} {sys.argv[3]}\\n'.encode())"
)


class Told(NamedTuple):
    """What one run told of itself."""

    begin_ns: int
    end_ns: int
    name: str


def recording(path: Path, name: str, seconds: float = 0.02) -> list[str]:
    """A command that tells."""
    return [sys.executable, "-I", "-S", "-c", RECORDING, str(path), str(seconds), name]


def told_in(path: Path) -> list[Told]:
    """By their beginnings."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return sorted(Told(int(begin), int(end), name) for begin, end, name in rows)


def names_in(path: Path) -> list[str]:
    return [one.name for one in told_in(path)]


def most_at_once(path: Path) -> int:
    """How many ran at the same time, at most."""
    return overlap(told_in(path))


def overlap(told: Iterable[Told]) -> int:
    """The same, of those."""
    changes = [change for one in told for change in ((one.begin_ns, 1), (one.end_ns, -1))]
    count = most = 0
    for _, change in sorted(changes):
        count += change
        most = max(most, count)
    return most


def blocker(
    runs: Runs, tmp_path: Path, queue: str = "main", name: str = "blocker", **options: Any
) -> tuple[Run, Path]:
    """A run that keeps a slot of the queue until its gate is there."""
    gate = tmp_path / f"gate-{name}"
    return runs.start(gated(gate, "exit 0"), queue=queue, name=name, **options), gate


def queue_of(home: Path, name: str = "main") -> Queue:
    return Queue(Home(str(home)), name)
