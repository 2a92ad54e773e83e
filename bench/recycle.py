"""Forces thousands of PID reuses and counts who is hit: os.kill, psutil, Holdfast, side by side.

Two moments, both in PID namespaces of our own: the PID is recycled *between* a tool's check and
its signal; and a live race, in which it is recycled while the tool checks and signals. A wrong hit
is a stranger that died of the SIGTERM. Exits 1 if Holdfast ever hits one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support import recycling  # noqa: E402 - the path is set above
from tests.support.kernel_lab import OTHER_UID, Place, run_in  # noqa: E402

ROUNDS = 2000
QUICK_ROUNDS = 150
RECYCLER_SPINS_SECONDS = 0.0005
HUNTER_SPINS_SECONDS = 0.003  # recycling takes 1 to 2 ms: half of the attempts come after it


class Tool(NamedTuple):
    """One way to remember a process, check that it is still that one, and end it."""

    remember: Callable[[int], Any]
    check: Callable[[Any], bool]
    terminate: Callable[[Any], object]


def tools() -> dict[str, Tool]:
    """Imported here: only the interpreter inside the namespace needs them."""
    import psutil

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.signals import send_signal, signal_held
    from holdfast.process.verdict import Verdict

    def is_there(pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            return True
        return False

    def is_running(process: psutil.Process) -> bool:
        # In a race it lets the error of a vanished /proc entry through: taken for a "no".
        with contextlib.suppress(psutil.Error, OSError):
            return bool(process.is_running())
        return False

    def is_same(token: str) -> bool:
        return ProcessIdentity.parse(token).verdict() is Verdict.SAME

    return {
        "os.kill": Tool(int, is_there, lambda pid: os.kill(pid, signal.SIGTERM)),
        "psutil": Tool(
            psutil.Process,
            is_running,
            lambda process: process.terminate(),
        ),
        "holdfast": Tool(
            lambda pid: ProcessIdentity.of(pid).token,
            is_same,
            lambda token: send_signal(ProcessIdentity.parse(token), signal.SIGTERM),
        ),
        "holdfast, held": Tool(
            lambda pid: ProcessIdentity.of(pid).hold(),
            lambda held: not held.has_exited(),
            lambda held: _and_close(held, signal_held(held, signal.SIGTERM)),
        ),
    }


def _and_close(held: Any, delivery: object) -> object:
    held.close()
    return delivery


def _attempt(tool: Tool, remembered: Any) -> None:
    import psutil

    with contextlib.suppress(ProcessLookupError, FileNotFoundError, psutil.NoSuchProcess):
        tool.terminate(remembered)


def between_check_and_signal(rounds: int) -> dict[str, dict[str, int]]:
    """Check: alive. Recycle. Signal. The tools take turns, so that all meet the same machine."""
    result = {name: {"rounds": 0, "wrong": 0, "same_tick": 0} for name in tools()}
    ways = tools()
    for _ in range(rounds):
        for name, tool in ways.items():
            victim = recycling.spawn()
            remembered = tool.remember(victim.pid)
            if not tool.check(remembered):
                raise AssertionError(f"{name} says that a live process is not there")
            stranger = recycling.recycle(victim)
            _attempt(tool, remembered)
            row = result[name]
            row["rounds"] += 1
            row["same_tick"] += stranger.ticks == victim.ticks
            row["wrong"] += stranger.ended_by() == signal.SIGTERM
    return result


def live_race(rounds: int) -> dict[str, dict[str, int]]:
    """A hunter checks and signals while its target is ended and the PID given to a stranger."""
    return {name: _race(tool, rounds) for name, tool in tools().items()}


def _race(tool: Tool, rounds: int) -> dict[str, int]:
    hunter_reads, to_hunter = os.pipe()
    from_hunter, hunter_writes = os.pipe()
    hunter = os.fork()
    if hunter == 0:
        os.close(to_hunter)
        _hunt(tool, hunter_reads, hunter_writes)
    os.close(hunter_reads)
    os.close(hunter_writes)
    row = {"rounds": rounds, "right": 0, "wrong": 0, "same_tick": 0}
    for _ in range(rounds):
        target = recycling.spawn()
        os.write(to_hunter, target.pid.to_bytes(4, "little"))
        _expect(from_hunter)  # it has remembered the target
        os.write(to_hunter, b"go")
        _spin(RECYCLER_SPINS_SECONDS)
        row["right"] += target.ended_by() == signal.SIGTERM
        stranger = recycling.spawn(target.pid)
        _expect(from_hunter)  # it has done what it wanted
        row["same_tick"] += stranger.ticks == target.ticks
        row["wrong"] += stranger.ended_by() == signal.SIGTERM
    os.close(to_hunter)
    os.waitpid(hunter, 0)
    os.close(from_hunter)
    return row


def _hunt(tool: Tool, orders: int, answers: int) -> NoReturn:
    while pid := os.read(orders, 4):
        remembered = tool.remember(int.from_bytes(pid, "little"))
        os.write(answers, b".")
        os.read(orders, 2)
        _spin(HUNTER_SPINS_SECONDS)
        if tool.check(remembered):
            _attempt(tool, remembered)
        os.write(answers, b".")
    os._exit(0)


def _expect(fd: int) -> None:
    if os.read(fd, 1) != b".":
        raise AssertionError("the hunter died")


def _spin(longest_seconds: float) -> None:
    """Busy for a random moment, so that each order of events comes up; sleeping is too coarse."""
    until = time.perf_counter() + random.random() * longest_seconds
    while time.perf_counter() < until:
        pass


MOMENTS = {
    "recycled between check and signal": between_check_and_signal,
    "recycled in a live race": live_race,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench.recycle", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="per tool and moment")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds")
    parser.add_argument("--ordinary-user", action="store_true", help="through a user namespace")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    rounds = QUICK_ROUNDS if chosen.quick else chosen.rounds
    uid = OTHER_UID if chosen.ordinary_user and os.geteuid() == 0 else None
    from bench import recycle  # by its real name: the interpreter in the namespace imports it

    results = {
        title: run_in(
            Place(uid=uid), getattr(recycle, moment.__name__), rounds=rounds, timeout=3600
        )
        for title, moment in MOMENTS.items()
    }
    print(json.dumps(results) if chosen.json else _as_text(results))
    wrong = sum(
        row["wrong"]
        for rows in results.values()
        for name, row in rows.items()
        if name.startswith("holdfast")
    )
    if wrong:
        print(f"FAILED: Holdfast hit a stranger {wrong} times", file=sys.stderr)
    return 1 if wrong else 0


def _as_text(results: dict[str, dict[str, dict[str, int]]]) -> str:
    lines = []
    for title, rows in results.items():
        lines += [title, f"  {'':16} {'rounds':>7} {'same tick':>10} {'wrong hits':>11}"]
        lines += [
            f"  {name:16} {row['rounds']:>7} {row['same_tick']:>10} {row['wrong']:>11}"
            for name, row in rows.items()
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
