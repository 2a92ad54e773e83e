"""What other machines cost: latency of each command, and many runs, for ssh, Slurm and Ray.

Beside the engine alone and beside Holdfast on this machine, in turns: the nodes are on this machine
too, so all of them share its cores. Bar (F11): as many runs as `--runs` over 4 nodes (Slurm: 2) are
all recorded, each once, and take at most 1.3 times as long as the slower of the engine alone and
local Holdfast. It needs root for Slurm and Ray; an engine that is not there is said, not failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.manage.runs import Runs
from tests.fleet.fleet_world import Submitter, World
from tests.fleet.ray_cluster import RayCluster, RaySubmitter
from tests.fleet.slurm_cluster import FREEZER, Cluster, SlurmSubmitter

BAR = 1.3
ENGINES = ("ssh", "slurm", "ray")
NODES = ("n1", "n2", "n3", "n4")
COMMANDS = ("start", "status", "logs", "stop")
_AT_ONCE = 16
_RAY_ALONE = """
import subprocess, sys, time, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
one = ray.remote(num_cpus=1)(lambda: subprocess.run(["true"], check=True).returncode)
ray.get([one.remote() for _ in range(8)])  # workers are there
began = time.monotonic()
ray.get([one.remote() for _ in range(int(sys.argv[2]))])
print(time.monotonic() - began)
"""


class Place:
    """One engine, one submitter: where runs go, and how the engine does the same alone."""

    def __init__(
        self,
        submitter: Submitter,
        targets: list[str],
        alone: Callable[[int], float],
        recorded: Callable[[], list[str]],
        bare: Callable[[int], float] | None = None,
    ) -> None:
        """`bare`: the engine alone with less than a run has; told beside, no bar."""
        self.submitter = submitter
        self.targets = targets
        self.alone = alone
        self.recorded = recorded
        self.bare = bare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES), help="some of ssh,slurm,ray")
    parser.add_argument("--runs", type=int, default=200, help="for each engine (F11: 1000)")
    parser.add_argument("--slurm-runs", type=int, default=60, help="Slurm starts few a second")
    parser.add_argument("--rounds", type=int, default=7, help="of each command, for its latency")
    args = parser.parse_args()
    missed = []
    for engine in args.engines.split(","):
        why = _missing(engine)
        if why:
            print(f"{engine}: not measured: {why}", flush=True)
            continue
        with (
            tempfile.TemporaryDirectory(prefix="hfb", ignore_cleanup_errors=True) as folder,
            _PLACES[engine](Path(folder)) as place,
            _as_submitter(place.submitter),
        ):
            _latency(engine, place, args.rounds)
            count = args.slurm_runs if engine == "slurm" else args.runs
            if not _many(engine, place, count):
                missed.append(engine)
    print(f"bar missed: {', '.join(missed)}" if missed else "bar met", flush=True)
    return 1 if missed else 0


def _missing(engine: str) -> str:
    if engine not in ENGINES:
        return f"there are {', '.join(ENGINES)}"
    programs = {"ssh": ("ssh", "/usr/sbin/sshd"), "slurm": ("slurmctld", "munged"), "ray": ("ip",)}
    gone = [name for name in programs[engine] if shutil.which(name) is None]
    if gone:
        return f"{', '.join(gone)} is not installed"
    if engine != "ssh" and os.geteuid() != 0:
        return "it needs root"
    if engine == "slurm" and not FREEZER.is_dir():
        return "it needs cgroup v1"
    return "ray is not installed" if engine == "ray" and find_spec("ray") is None else ""


# Where


@contextlib.contextmanager
def _ssh(folder: Path) -> Iterator[Place]:
    world = World(folder, os.geteuid())
    submitter = world.submitter()
    for name in NODES:
        world.node(name)
    world.configure()
    try:
        recorded = lambda: [one for node in world.nodes.values() for one in world.run_ids(node)]  # noqa: E731
        targets = [f"ssh:{name}" for name in NODES]
        yield Place(submitter, targets, lambda count: _ssh_alone(world, count), recorded)
    finally:
        world.close()


def _ssh_alone(world: World, count: int) -> float:
    """`ssh NODE true` over one kept connection for each node, so many at once."""
    nodes = list(world.nodes.values())
    shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]
    lines = []
    for number in range(count):
        node = nodes[number % len(nodes)]
        path = ["-o", f"ControlPath={world.folder}/alone-{number % len(nodes)}"]
        lines.append(" ".join(["ssh", *node.ssh_options, *shared, *path, node.address, "true"]))
    for line in lines[: len(nodes)]:
        subprocess.run(line.split(), check=True, capture_output=True)
    return _timed(lambda: _all_at_once(lines))


def _all_at_once(lines: list[str]) -> None:
    command = ["xargs", "-P", str(_AT_ONCE), "-I{}", "sh", "-c", "{} >/dev/null 2>&1"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


@contextlib.contextmanager
def _slurm(folder: Path) -> Iterator[Place]:
    (folder / "cluster").mkdir()
    cluster = Cluster(folder / "cluster")
    try:
        cluster.start()
        submitter = SlurmSubmitter(folder, cluster)
        # A run has the environment of a login on its node, as --export=NONE gives it.
        yield Place(
            submitter,
            ["slurm"],
            lambda count: _slurm_alone(cluster, count, "NONE"),
            submitter.run_ids,
            lambda count: _slurm_alone(cluster, count, "ALL"),
        )
    finally:
        cluster.close()


def _slurm_alone(cluster: Cluster, count: int, export: str) -> float:
    def work() -> None:
        line = f"sbatch --parsable --export={export} --output=/dev/null --wrap true"
        command = ["xargs", "-P", str(_AT_ONCE), "-I{}", "sh", "-c", "{} >/dev/null"]
        lines = "\n".join([line] * count)
        subprocess.run(command, input=lines, text=True, check=True, env=cluster.env, cwd="/")
        while cluster("squeue", "--noheader").stdout:
            time.sleep(0.05)

    return _timed(work)


@contextlib.contextmanager
def _ray(folder: Path) -> Iterator[Place]:
    cluster = RayCluster(*NODES)
    try:
        cluster.start()
        submitter = RaySubmitter(folder, cluster)
        try:
            alone = lambda count: _ray_alone(cluster, count)  # noqa: E731
            yield Place(submitter, ["ray"], alone, submitter.run_ids)
        finally:
            submitter.close()
    finally:
        cluster.close()


def _ray_alone(cluster: RayCluster, count: int) -> float:
    command = [sys.executable, "-c", _RAY_ALONE, cluster.address, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return float(done.stdout.split()[-1])


_PLACES: dict[str, Callable[[Path], contextlib.AbstractContextManager[Place]]] = {
    "ssh": _ssh,
    "slurm": _slurm,
    "ray": _ray,
}


@contextlib.contextmanager
def _as_submitter(submitter: Submitter) -> Iterator[None]:
    """This process has the submitter's home and config."""
    before = dict(os.environ)
    os.environ.update(submitter.env())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# What is measured


def _timed(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _latency(engine: str, place: Place, rounds: int) -> None:
    """Each command of a user, here and there in turns: the median, in milliseconds."""
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for where, on in (("here", []), ("there", ["--on", place.targets[0]])):
            name = f"{where}-{number}"
            words = {
                "start": ["run", "-n", name, *on, "sleep", "600"],
                "status": ["status", name],
                "logs": ["logs", "--tail", "5", name],
                "stop": ["stop", name],
            }
            for command in COMMANDS:
                took = _timed(lambda words=words[command]: place.submitter(*words, expect=0))  # type: ignore[misc]
                if command == "start" and engine == "slurm" and on:
                    place.submitter.await_running(name)  # type: ignore[attr-defined]
                if number:  # the first opens the connection
                    times.setdefault((command, where), []).append(took * 1000)
    print(f"{engine}: latency of a command, median of {rounds}, in ms (here / on {engine})")
    for command in COMMANDS:
        here, there = (statistics.median(times[command, where]) for where in ("here", "there"))
        print(f"  {command:<8}{here:6.0f} /{there:6.0f}", flush=True)


def _many(engine: str, place: Place, count: int) -> bool:
    """So many runs of `true`, until each one's end is recorded; each way once, in turns."""
    alone, here, there, starts, bare = [], [], [], list[float](), list[float]()
    before = set(place.recorded())
    half = max(1, count // 2)
    for part in (half, count - half):
        if part:
            alone.append(place.alone(part))
            if place.bare is not None:
                bare.append(place.bare(part))
            here.append(_timed(lambda part=part: _run_here(part)))  # type: ignore[misc]
            there.append(_timed(lambda part=part: _run_there(place.targets, part, starts)))  # type: ignore[misc]
    took = {f"{engine} alone": sum(alone), "Holdfast here": sum(here), "there": sum(there)}
    load = f"load {os.getloadavg()[0]:.0f}"
    print(f"{engine}: {count} runs of `true` over {_node_count(engine)} nodes, {load}")
    for name, seconds in took.items():
        print(f"  {name:<16}{seconds:7.1f} s {count / seconds:8.1f} a second", flush=True)
    print(f"  of which the starts took {sum(starts):.1f} s")
    if bare:
        print(f"  {engine} alone, without the environment of a login: {sum(bare):.1f} s")
    copies = Counter(one for one in place.recorded() if one not in before)
    once = len(copies) == count and set(copies.values()) <= {1}
    ratio = took["there"] / max(took[f"{engine} alone"], took["Holdfast here"])
    print(f"  recorded: {len(copies)} runs, at most {max(copies.values(), default=0)} of each id")
    print(f"  {ratio:.2f} times the slower of the two (bar {BAR})", flush=True)
    return once and ratio <= BAR


def _node_count(engine: str) -> int:
    return 2 if engine == "slurm" else len(NODES)


def _run_here(count: int) -> None:
    runs = Runs()
    runs.wait(runs.start_many([["true"]] * count))  # type: ignore[arg-type]


def _run_there(targets: list[str], count: int, starts: list[float]) -> None:
    """Over all nodes; each node is asked for all of its runs at once."""
    runs = Runs(notice=lambda _: None)  # that jobs wait is no news here
    requests = [{"argv": ["true"], "on": targets[at % len(targets)]} for at in range(count)]
    began = time.monotonic()
    started: list[Any] = runs.start_many(requests)
    starts.append(time.monotonic() - began)
    failed = [one for one in started if isinstance(one, Exception)]
    if failed:
        raise failed[0]
    runs.wait(started)


if __name__ == "__main__":
    sys.exit(main())
