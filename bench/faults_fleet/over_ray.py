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
from bench.faults_fleet.ledgers import HOME, POSTGRES, make_database, use_ledger
from bench.faults_fleet.track import Fault, submitter_points
from bench.faults_fleet.trial import Arena, Trial
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


class RayArena(Arena):
    """A submitter and a cluster of two nodes."""

    engine = "Ray"
    on = "ray"

    def __init__(
        self, submitter: RaySubmitter, cluster: RayCluster, database: Database | None
    ) -> None:
        super().__init__(submitter, HOME if database is None else POSTGRES)
        self.ray = submitter
        self.cluster = cluster
        self.database = database
        use_ledger(submitter, database)
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

    def host_of(self, trial: Trial) -> str:
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


class RayWorld:
    """A cluster, and two submitters with two ledgers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = RayCluster("n1", "n2")
        self.cluster.start()
        self.database = make_database(folder)
        self.arenas = [
            RayArena(_submitter(folder / "home", self.cluster), self.cluster, None),
            RayArena(_submitter(folder / "shared", self.cluster), self.cluster, self.database),
        ]

    def close(self) -> None:
        for arena in self.arenas:
            arena.ray.close()
        self.cluster.close()
        self.database.stop()


def make_world(folder: Path) -> RayWorld:
    return RayWorld(folder)


def _submitter(folder: Path, cluster: RayCluster) -> RaySubmitter:
    folder.mkdir()
    made = RaySubmitter(folder, cluster)
    made.configure(answer="20s")
    return made


def faults(arena: RayArena) -> Iterator[Fault]:
    """What is done to one submitter's runs, each some times."""
    for point in submitter_points():
        yield Fault("submitter killed at each write", lambda t, p=point: t.crash_at(p))
    yield Fault("submitter killed at a random time", submitter_killed)
    yield Fault("bridge killed in a start", bridge_killed)
    if arena.database is None:
        yield Fault("desk killed in a start", desk_in_start)
        yield Fault("shim killed", shim_killed)
        yield Fault("raylet killed under a run", raylet_under_run)
        yield Fault("raylet killed before a start goes on", raylet_before_commit)
        yield Fault("link cut under a run", cut_under_run)
    else:
        yield Fault("desk killed under a run", desk_under_run)
        yield Fault("link cut in a start", cut_in_start)
        yield Fault("GCS killed under a run", head_killed)
        yield Fault("PostgreSQL stopped in a start", database_stopped)


def submitter_killed(trial: Trial) -> None:
    started = trial.begin()
    trial.pause()
    started.kill()
    trial.end(started)


def bridge_killed(trial: Trial) -> None:
    arena = _of(trial)
    started = trial.begin()
    trial.pause()
    arena.end_bridge()
    trial.end(started)


def desk_in_start(trial: Trial) -> None:
    cluster = _of(trial).cluster
    started = trial.begin()
    trial.pause()
    for name in cluster.nodes:
        cluster.kill(name, "ray::Desk")
    trial.end(started)


def desk_under_run(trial: Trial) -> None:
    arena = _of(trial)
    trial.run()
    trial.follow()
    arena.cluster.kill(arena.host_of(trial), "ray::Desk")


def shim_killed(trial: Trial) -> None:
    trial.may_be_lost = True
    shim = trial.run()["shim"]
    trial.follow()
    os.kill(shim["pid"], signal.SIGKILL)


def raylet_under_run(trial: Trial) -> None:
    arena = _of(trial)
    trial.run()
    trial.follow()
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.kill(host, "raylet/raylet")


def raylet_before_commit(trial: Trial) -> None:
    """Ray moves the group: nothing may be started where it is now."""
    arena = _of(trial)
    trial.crash_at("submitter.bound")
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.kill(host, "raylet/raylet")
    eventually(lambda: host not in arena.cluster.alive(), 90, "Ray calls it dead")
    assert trial.start() == 6
    assert trial.begun == 0


def cut_under_run(trial: Trial) -> None:
    arena = _of(trial)
    trial.run()
    trial.follow()
    host = arena.host_of(trial)
    arena.down.add(host)
    arena.cluster.nodes[host].cut()
    trial.gate.touch()  # it ends while nobody can see it


def cut_in_start(trial: Trial) -> None:
    arena = _of(trial)
    started = trial.begin()
    trial.pause()
    for name, net in arena.cluster.nodes.items():
        arena.down.add(name)
        net.cut()
    trial.end(started, 150)


def head_killed(trial: Trial) -> None:
    arena = _of(trial)
    trial.run()
    trial.follow()
    arena.down.add("head")
    arena.cluster.kill("head", "gcs_server")


def database_stopped(trial: Trial) -> None:
    database = _of(trial).database
    assert database is not None
    started = trial.begin()
    trial.pause()
    database.stop()
    code = trial.end(started)
    database.start()
    assert code in (0, 6), code


def _of(trial: Trial) -> RayArena:
    assert isinstance(trial.arena, RayArena)
    return trial.arena


def apart(seed: int) -> Iterator[dict[str, Any]]:
    """`ray stop`, in namespaces of its own."""
    scene = [sys.executable, "-m", "bench.faults_fleet.ray_stopped", str(seed)]
    script = 'ip link set lo up && exec "$@"'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script, "sh", *scene],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    yield from json.loads(done.stdout.splitlines()[-1])


def alone(world: RayWorld) -> Iterator[dict[str, Any]]:
    """Tasks with Ray's defaults, whose worker or raylet is killed."""
    for what, words in (("worker killed", "ray::work"), ("raylet killed", "raylet/raylet")):
        folder = world.folder / words.partition("/")[0].strip(":")
        requests = [Request(folder, f"r{number}") for number in range(_TASKS)]
        scripts = [one.script for one in requests]
        words_of_driver = [sys.executable, "-c", _DRIVER, world.cluster.address, *scripts]
        driver = subprocess.Popen(words_of_driver, stdout=subprocess.DEVNULL)
        for one in requests:
            eventually(lambda one=one: one.starts, 90, "it has begun")
        for name in world.cluster.nodes:
            if world.cluster.processes(name, "ray::work"):
                world.cluster.kill(name, words)
        yield count("Ray", f"{what}, a task", requests, _RETRY_SECONDS)
        driver.kill()
        driver.wait()
