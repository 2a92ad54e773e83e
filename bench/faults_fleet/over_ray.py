"""Faults of Ray: desk, raylet, head, link, and the bridge that leads to it.

`ray stop` ends whatever looks like Ray on its machine: it is played where nothing else is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.faults_fleet.alone import Request, count
from bench.faults_fleet.engine import (
    Engine,
    EngineArena,
    Fault,
    database_faults,
    shim_faults,
    submitter_faults,
)
from bench.faults_fleet.trial import Trial
from tests.fleet.postgres_cluster import Database
from tests.fleet.ray_cluster import RayCluster, RaySubmitter, _belongs
from tests.support.waiting import eventually

_TASKS = 3
_RETRY_SECONDS = 60.0
_DRIVER = """\
import subprocess, sys, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
work = ray.remote(lambda script: subprocess.run(["sh", "-c", script]).returncode)
ray.get([work.options(name="work").remote(script) for script in sys.argv[2:]])
"""


class RayArena(EngineArena):
    """A submitter and a cluster of two nodes."""

    engine = "Ray"
    on = "ray"

    def __init__(
        self, submitter: RaySubmitter, cluster: RayCluster, database: Database | None
    ) -> None:
        super().__init__(submitter, database)
        self.ray = submitter
        self.cluster = cluster
        self.use_ledger()
        self.down: set[str] = set()  # what has to be started again

    def node_homes(self) -> list[Path]:
        return sorted(self.cluster.folder.glob("home-*"))

    def heal(self) -> None:
        for net in self.cluster.nodes.values():
            net.heal()
        if "head" in self.down:
            for name in ("head", *self.cluster.nodes):
                self.cluster.stop(name)
            self.cluster.start()
        elif self.down:
            for name in self.down:
                self.cluster.stop(name)
            eventually(lambda: not self.down & set(self.cluster.alive()), 90, "they are dead")
            for name in self.down:
                self.cluster.start_one(name)
            self.cluster.await_nodes()
        self.down.clear()

    def mend(self) -> None:
        """Its shim may be gone: the node's own recovery."""
        for name in self.cluster.nodes:
            if (self.cluster.home_of(name) / "runs").is_dir():
                self.ray.on(name, "recover")

    def host_of(self, trial: Trial[RayArena]) -> str:
        """The node that it is bound to."""
        info = trial.info()
        assert info is not None
        return str(info["placement"]["reservation"]["host"])

    def end_bridge(self) -> None:
        """The process of this submitter that is connected to Ray."""
        folder = self.ray.runtime / "holdfast-ray"
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and _belongs(path, "holdfast.fleet.ray.bridge", folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(path.name), signal.SIGKILL)


class RayEngine(Engine):
    """A cluster, and two submitters with two ledgers."""

    apart_kind = "ray stop"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = RayCluster("n1", "n2")
        self.cluster.start()
        self.arenas = [
            RayArena(_submitter(folder / "home", self.cluster), self.cluster, None),
            RayArena(_submitter(folder / "shared", self.cluster), self.cluster, self.database),
        ]

    def faults(self, arena: RayArena) -> Iterator[Fault]:
        """What is done to one submitter's runs, each some times."""
        yield from submitter_faults()
        yield Fault("bridge killed in a start", bridge_killed)
        if arena.database is None:
            yield Fault("desk killed in a start", desk_in_start)
            yield from shim_faults()
            yield Fault("raylet killed under a run", raylet_under_run)
            yield Fault("raylet killed before a start goes on", raylet_before_commit)
            yield Fault("link cut under a run", cut_under_run)
        else:
            yield Fault("desk killed under a run", desk_under_run)
            yield Fault("link cut in a start", cut_in_start)
            yield Fault("GCS killed under a run", head_killed)
            yield from database_faults(arena)

    def apart(self, seed: int) -> Iterator[dict[str, Any]]:
        """`ray stop`, in namespaces of its own."""
        scene = [sys.executable, "-m", "bench.faults_fleet.ray_stopped", str(seed)]
        script = 'ip link set lo up && exec "$@"'
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script, "sh", *scene],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=1200,
        )
        yield from json.loads(done.stdout.splitlines()[-1])

    def alone(self) -> Iterator[dict[str, Any]]:
        """Tasks with Ray's defaults, whose worker or raylet is killed."""
        for what, words in (("worker killed", "ray::work"), ("raylet killed", "raylet/raylet")):
            folder = self.folder / words.partition("/")[0].strip(":")
            requests = [Request(folder, f"r{number}") for number in range(_TASKS)]
            scripts = [one.script for one in requests]
            words_of_driver = [sys.executable, "-c", _DRIVER, self.cluster.address, *scripts]
            driver = subprocess.Popen(words_of_driver, stdout=subprocess.DEVNULL)
            for one in requests:
                eventually(lambda one=one: one.starts, 90, "it has begun")
            for name in self.cluster.nodes:
                if self.cluster.processes(name, "ray::work"):
                    self.cluster.kill(name, words)
            yield count("Ray", f"{what}, a task", requests, _RETRY_SECONDS)
            driver.kill()
            driver.wait()

    def close(self) -> None:
        for arena in self.arenas:
            arena.ray.close()
        self.cluster.close()
        super().close()


def _submitter(folder: Path, cluster: RayCluster) -> RaySubmitter:
    folder.mkdir()
    made = RaySubmitter(folder, cluster)
    made.configure(answer="20s")
    return made


def bridge_killed(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    started = trial.begin()
    trial.pause()
    arena.end_bridge()
    trial.end(started)


def desk_in_start(trial: Trial[RayArena]) -> None:
    cluster = trial.arena.cluster
    started = trial.begin()
    trial.pause()
    for name in cluster.nodes:
        cluster.kill(name, "ray::Desk")
    trial.end(started)


def desk_under_run(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    trial.run()
    trial.follow()
    arena.cluster.kill(arena.host_of(trial), "ray::Desk")


def raylet_under_run(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    trial.run()
    trial.follow()
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.kill(host, "raylet/raylet")


def raylet_before_commit(trial: Trial[RayArena]) -> None:
    """Ray moves the group: nothing may be started where it is now."""
    arena = trial.arena
    trial.crash_at("submitter.bound")
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.kill(host, "raylet/raylet")
    eventually(lambda: host not in arena.cluster.alive(), 90, "Ray calls it dead")
    assert trial.start() == 6
    assert trial.begun == 0


def cut_under_run(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    trial.run()
    trial.follow()
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.nodes[host].cut()
    trial.gate.touch()  # it ends while nobody can see it


def cut_in_start(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    started = trial.begin()
    trial.pause()
    for name, net in arena.cluster.nodes.items():
        arena.down.add(name)
        net.cut()
    trial.end(started, 150)


def head_killed(trial: Trial[RayArena]) -> None:
    arena = trial.arena
    trial.run()
    trial.follow()
    arena.down.add("head")
    arena.cluster.kill("head", "gcs_server")
