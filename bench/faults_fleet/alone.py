"""What an engine alone does with the same workload and the same fault: starts are counted.

The workload is that of the trials. One request that has begun twice is a second copy; two that are
alive together are counted apart.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.faults_fleet.trial import CODE, STOPPED_CODE, WORKLOAD, is_alive


class Request:
    """One start that was asked for, and what came of it."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(exist_ok=True)
        self.gate, self.marks = folder / f"{name}.gate", folder / f"{name}.marks"
        self.script = WORKLOAD.format(
            marks=self.marks,
            gate=self.gate,
            lines=folder / f"{name}.lines",
            code=CODE,
            stopped=STOPPED_CODE,
        )

    def _begun(self) -> list[list[str]]:
        if not self.marks.exists():
            return []
        rows = [line.split() for line in self.marks.read_text().splitlines()]
        return [row for row in rows if row[0] == "begun"]

    @property
    def starts(self) -> int:
        return len(self._begun())

    @property
    def alive(self) -> int:
        return sum(is_alive(pid, ticks) for _, pid, ticks in self._begun())


def count(engine: str, what: str, requests: list[Request], seconds: float) -> dict[str, Any]:
    """Wait for second copies as long as that; then let all of them end."""
    deadline = time.monotonic() + seconds
    most = [0] * len(requests)
    while time.monotonic() < deadline:
        is_enough = all(one.starts > 1 for one in requests)
        most = [max(seen, one.alive) for seen, one in zip(most, requests, strict=True)]
        if is_enough:
            break
        time.sleep(0.2)
    for one in requests:
        one.gate.touch()
    return {
        "engine": engine,
        "what": what,
        "requests": len(requests),
        "copies": sum(max(0, one.starts - 1) for one in requests),
        "together": sum(seen > 1 for seen in most),
    }
