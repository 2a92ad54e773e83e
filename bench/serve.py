"""What `serve` costs: requests a second for `runs`, the delay of events to many clients, memory.

The server is a process of its own with a home of its own; clients are on loopback, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast.manage.runs import Runs

CLIENTS = 50
CHANGES = 20
RUNS = 1000
ACTIVE = 200
BAR_SECONDS = 0.2  # the median, from the record to the client
BAR_BYTES = 120 << 20


class Server:
    """One that answers, and what a client needs to know."""

    def __init__(self, home: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", "--json", "--port", "0"],
            env={**os.environ, "HOLDFAST_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.port = int(told["url"].rstrip("/").rpartition(":")[2])
        self.token = told["token"]

    def memory_bytes(self) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return (
            int(next(one for one in text.splitlines() if one.startswith("VmRSS")).split()[1]) << 10
        )

    @contextlib.asynccontextmanager
    async def ask(self, path: str) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        writer.write(
            f"GET /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            f"authorization: Bearer {self.token}\r\n\r\n".encode()
        )
        try:
            yield reader
        finally:
            writer.close()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def requests_a_second(server: Server, path: str, seconds: float) -> float:
    """With four clients at once."""
    ends, done = time.monotonic() + seconds, 0

    async def one() -> None:
        nonlocal done
        while time.monotonic() < ends:
            async with server.ask(path) as reader:
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
            done += 1

    began = time.monotonic()
    await asyncio.gather(*(one() for _ in range(4)))
    return done / (time.monotonic() - began)


async def delays(server: Server, runs: Runs) -> list[float]:
    """Seconds from the time that a run's end was recorded to each client's reading of it."""
    found: list[float] = []
    ready = asyncio.Semaphore(0)

    async def one() -> None:
        async with server.ask("events") as reader:
            is_ready, ends = False, 0
            while ends < CHANGES:
                line = await reader.readline()
                if not line:
                    return
                if line.startswith(b"data: ") and not is_ready:
                    is_ready = True
                    ready.release()
                elif line.startswith(b"data: ") and b'"kind":"ended"' in line:
                    at = json.loads(line[6:])["at"]
                    found.append(time.time() - _seconds(at))
                    ends += 1

    clients = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    for _ in clients:
        await ready.acquire()
    for _ in range(CHANGES):
        await asyncio.to_thread(lambda: runs.start(["true"]).wait())
    await asyncio.wait_for(asyncio.gather(*clients), 60)
    return found


def _seconds(at: str) -> float:
    import datetime as dt

    return dt.datetime.fromisoformat(at).timestamp()


def fill(runs: Runs, many: int) -> None:
    """Ended runs, started in parts."""
    for begin in range(0, many, 100):
        batch: list[Any] = [["true"]] * min(100, many - begin)
        runs.wait([run for run in runs.start_many(batch) if not isinstance(run, Exception)])


async def memory_while_active(server: Server, runs: Runs) -> int:
    """The most that it takes while so many runs are active and each client has events and asks."""
    most = 0

    async def one() -> None:
        async with server.ask("events") as reader:
            while await reader.readline():
                pass

    clients = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    started = await asyncio.to_thread(runs.start_many, [["sleep", "100000"]] * ACTIVE)
    wrong = [one for one in started if isinstance(one, Exception)]
    assert not wrong, wrong[0]
    try:
        for _ in range(5):
            await requests_a_second(server, "runs?active=1&limit=1000", 2.0)
            most = max(most, server.memory_bytes())
    finally:
        for client in clients:
            client.cancel()
    return most


def main() -> int:
    parser = argparse.ArgumentParser(description="what `holdfast serve` answers, and how fast")
    parser.add_argument("runs", nargs="?", type=int, default=RUNS, help="ended runs in the home")
    many: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as home:
        os.chmod(home, 0o700)
        runs = Runs(home)
        print(f"making {many} ended runs", file=sys.stderr)
        fill(runs, many)
        server = Server(home)
        try:
            for path in ("runs?limit=1", "runs?limit=100", "runs?limit=1000"):
                rate = asyncio.run(requests_a_second(server, path, 5.0))
                print(f"{path:<16} {rate:8.1f} requests/s, {many} runs")
            took = sorted(asyncio.run(delays(server, runs)))
            print(
                f"events to {CLIENTS} clients, {len(took)} of {CLIENTS * CHANGES}:"
                f" median {statistics.median(took) * 1000:.0f} ms,"
                f" 95 % {took[int(len(took) * 0.95)] * 1000:.0f} ms"
            )
            memory = server.memory_bytes()
            print(f"memory of the server: {memory / 2**20:.0f} MiB")
            active = asyncio.run(memory_while_active(server, runs))
            print(f"with {ACTIVE} active runs and {CLIENTS} clients: {active / 2**20:.0f} MiB")
            memory = max(memory, active)
        finally:
            server.end()
            subprocess.run(
                [sys.executable, "-m", "holdfast", "-q", "stop", "--all", "--grace", "1"],
                env={**os.environ, "HOLDFAST_HOME": home},
                check=False,
            )
    return int(statistics.median(took) > BAR_SECONDS or memory > BAR_BYTES)


if __name__ == "__main__":
    sys.exit(main())
