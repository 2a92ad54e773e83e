"""What 100 and 1000 active runs cost: to start, list, wait for and stop, and in their shims."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.launch import HOLDFAST, Stage, cpu_seconds, pss_bytes
from bench.scale.cost import Figure, cost_of, costs_in_turns, read_meter, start_meter
from holdfast import ProcessIdentity, Runs, Verdict

COUNTS, QUICK_COUNTS = (100, 1000), (3, 8)
ROUNDS, QUICK_ROUNDS = 9, 1
IDLE_SECONDS, QUICK_IDLE_SECONDS = 10.0, 1.0
AT_ONCE = 8  # starts
LIFETIME_SECONDS = 3600  # a leftover does not stay for ever
BYTES_A_RUN = 12_000_000  # of memory, rounded up
PROCESSES_A_RUN = 3  # shim, workload, and one that starts them
SETTLED_AFTER_SECONDS, SETTLED_CPU_SECONDS = 1.0, 0.01
FEW_DESCRIPTORS = 256  # of the stop: fewer than runs
STOPPED = 143  # of `wait`: SIGTERM ended them


def fitting(wanted: int) -> int:
    """How many runs this machine has room for; what it lacks is printed."""
    rooms = {"memory": _available_bytes() // BYTES_A_RUN}
    for what, limit in _process_limits().items():
        rooms[what] = limit // PROCESSES_A_RUN
    count = max(1, min(wanted, *rooms.values()))
    for what, room in rooms.items():
        if room < wanted:
            print(f"lowered from {wanted} to {count} runs: {what} allows {room}", flush=True)
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors < count + 64:
        print(f"`wait` has {descriptors} descriptors: no link to each of {count} shims", flush=True)
    return count


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _process_limits() -> dict[str, int]:
    """How many more processes each limit allows."""
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    limits = {"kernel.pid_max": int(Path("/proc/sys/kernel/pid_max").read_text()) - running}
    of_user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if of_user != resource.RLIM_INFINITY:
        limits["ulimit -u"] = of_user - running
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    group = Path("/sys/fs/cgroup", own.lstrip("/"))
    for path in (group, *group.parents):
        largest = path / "pids.max"
        if largest.exists() and (text := largest.read_text().strip()).isdigit():
            limits[str(largest)] = int(text) - int((path / "pids.current").read_text())
    return limits


class Crowd:
    """Runs of `sleep` in a home of their own; all are stopped at the end, by Holdfast."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._environment = stage.environment
        self._tokens: set[str] = set()  # of every shim and workload
        self._count = 0

    def grow(self, count: int) -> float:
        """Until there are so many; how many were started in a second."""
        began = time.perf_counter()
        run = f'"{HOLDFAST}" -q run -n many-% sleep {LIFETIME_SECONDS}'
        command = f"seq {self._count + 1} {count} | xargs -P{AT_ONCE} -I% {run}"
        subprocess.run(
            ["sh", "-c", command], env=self._environment, check=True, stdout=subprocess.DEVNULL
        )
        rate = (count - self._count) / (time.perf_counter() - began)
        self._count = count
        self._await_workloads()
        return rate

    def _await_workloads(self) -> None:
        deadline = time.monotonic() + 120
        while len(found := self._running()) < self._count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(found)} of {self._count} runs are running")
            time.sleep(0.5)
        self._tokens = {run[who]["token"] for run in found for who in ("shim", "workload")}
        self._shims = [run["shim"]["pid"] for run in found]

    def _running(self) -> list[dict[str, Any]]:
        """Those whose workload is known."""
        found = json.loads(self._stage.holdfast("--json", "ls"))["runs"]
        return [run for run in found if run["state"] == "running" and run["workload"]]

    def listing(self, rounds: int, limit: float | None = None) -> list[Figure]:
        """`ls` of all."""
        costs = costs_in_turns(["ls"], self._environment, rounds)
        what = f"`ls` of {self._count} active"
        return [
            costs.figure(f"{what}, over bare python", limit),
            Figure(f"{what}, peak", costs.megabytes, "MB"),
        ]

    def status(self, rounds: int) -> list[Figure]:
        costs = costs_in_turns(["status", f"many-{self._count // 2}"], self._environment, rounds)
        what = f"`status` of one among {self._count}, over bare python"
        return [costs.figure(what, 40)]

    def life(self, seconds: float) -> list[Figure]:
        """Memory and CPU of the shims, which measure their runs every five seconds."""
        before = sum(map(cpu_seconds, self._shims))
        time.sleep(seconds)
        used = sum(map(cpu_seconds, self._shims)) - before
        pss = sum(map(pss_bytes, self._shims)) / len(self._shims)
        return [
            Figure(f"PSS of a shim among {self._count}", pss / 1e6, "MB"),
            Figure(f"CPU of {self._count} shims at rest", used / seconds * 100, "% of a core"),
        ]

    def wait_and_stop(self, seconds: float) -> list[Figure]:
        """One waits for all of them, for some time at rest; then another stops them."""
        meter = start_meter(["wait", "--all"], self._environment)
        linked = _settled(_child_of(meter.pid))
        time.sleep(seconds)
        at_rest = cpu_seconds(_child_of(meter.pid)) - linked
        stop = cost_of(["stop", "--all"], self._environment, descriptors=FEW_DESCRIPTORS)
        wait = read_meter(meter, "wait --all", (STOPPED,))
        what = f"of {self._count}"
        return [
            Figure(f"`wait` {what}, CPU", wait.cpu_seconds, "s", 0.3),
            Figure("  of it until all are linked", linked, "s"),
            Figure(f"  of it in {seconds:g} s at rest", at_rest, "s"),
            Figure(f"`wait` {what}, peak", wait.peak_bytes / 1e6, "MB"),
            Figure(f"`stop` {what}, ulimit -n {FEW_DESCRIPTORS}", stop.seconds, "s", 4),
            Figure(f"`stop` {what}, CPU", stop.cpu_seconds, "s"),
            Figure(f"`stop` {what}, peak", stop.peak_bytes / 1e6, "MB"),
        ]

    def leftovers(self) -> list[str]:
        """Stop what is still there; what is alive after that, or was not stopped as asked."""
        self._stage.holdfast("stop", "--all", "--grace", "1", check=False)
        infos = Runs(self._environment["HOLDFAST_HOME"]).list()
        left = [f"{info.name}: {info.state}" for info in infos if info.is_active]
        left += [f"{info.name}: {info.outcome}" for info in infos if info.outcome != "stopped"]
        identities = list(map(ProcessIdentity.parse, self._tokens))
        deadline = time.monotonic() + 30  # a shim is there for a moment after its run's ending
        for identity in identities:
            identity.wait(max(0.0, deadline - time.monotonic()))
        alive = [one for one in identities if one.verdict() not in (Verdict.GONE, Verdict.RECYCLED)]
        return [*left, *(f"process {one.pid}: {one.verdict().value}" for one in alive)]


def _child_of(pid: int) -> int:
    """What the meter has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 30
    while not (found := children.read_text().split()):
        if time.monotonic() > deadline:
            raise RuntimeError("the meter has started nothing")
        time.sleep(0.01)
    return int(found[0])


def _settled(pid: int) -> float:
    """CPU seconds of a process when it has had next to nothing to do for a while."""
    used = -1.0
    while (now := cpu_seconds(pid)) - used > SETTLED_CPU_SECONDS:
        used = now
        time.sleep(SETTLED_AFTER_SECONDS)
    return now


def measure_active(
    stage: Stage, counts: tuple[int, ...], rounds: int, seconds: float
) -> tuple[list[Figure], list[str]]:
    """What was measured, and what was left over or wrong."""
    few, many = (fitting(count) for count in counts)
    crowd = Crowd(stage)
    figures: list[Figure] = []
    try:
        crowd.grow(few)
        figures += crowd.listing(rounds, limit=25)
        figures.append(Figure(f"started in a second, {AT_ONCE} at once", crowd.grow(many), ""))
        figures += crowd.listing(rounds)
        figures += crowd.status(rounds)
        figures += crowd.life(seconds)
        figures += crowd.wait_and_stop(seconds)
    finally:
        left = crowd.leftovers()
        for text in left:
            print(f"LEFT {text}", file=sys.stderr)
    return figures, left
