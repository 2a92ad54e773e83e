"""Faults of Slurm: its daemons, its jobs, our attendant and shim in them.

A second cluster calls a node down after 10 s instead of 300: there a run is beside jobs of Slurm
alone, on a node whose slurmd is killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.faults_fleet.alone import Request, count
from bench.faults_fleet.engine import (
    Engine,
    EngineArena,
    Fault,
    database_faults,
    play_one,
    shim_faults,
    submitter_faults,
)
from bench.faults_fleet.trial import Trial
from tests.fleet.postgres_cluster import Database
from tests.fleet.slurm_cluster import Cluster, SlurmSubmitter
from tests.support.waiting import eventually

_SAVED_SECONDS = 6.0  # slurmctld saves what it knows at least every 5 s
_BEGIN_SECONDS = 120.0  # for which Slurm holds a job that it has put back
_JOBS = 3
NODE_DOWN = "slurmd killed, its node called down"
BESIDE = f"{NODE_DOWN}, beside jobs of Slurm alone"


class SlurmArena(EngineArena):
    """A submitter and a cluster of two nodes."""

    engine = "Slurm"
    on = "slurm"
    settle_seconds = 240.0  # a node stays busy for two minutes with a job that Slurm has lost

    def __init__(
        self, submitter: SlurmSubmitter, cluster: Cluster, database: Database | None
    ) -> None:
        super().__init__(submitter, database)
        self.slurm = submitter
        self.requests: list[Request] = []  # of Slurm alone
        self.alone: dict[str, Any] | None = None
        self.cluster = cluster
        if database is not None:
            submitter.configure(ledger=database.url)

    def node_homes(self) -> list[Path]:
        return sorted(self.slurm.nodes_folder.glob("*"))

    def start_daemons(self) -> None:
        """Those that were killed."""
        for name in ("slurmctld", *self.cluster.nodes):
            if name not in self.cluster._daemons:
                self.cluster.start_one(name)

    def heal(self) -> None:
        self.start_daemons()
        for node in self.cluster.nodes:
            self.cluster("scontrol", "update", f"NodeName={node}", "State=RESUME")
        self.cluster.await_nodes()

    def is_forgotten(self, info: dict[str, Any]) -> bool:
        return info["state"] == "unknown" and "says nothing of job" in info["evidence"]

    def is_refused(self, info: dict[str, Any]) -> bool:
        is_over = (info["state"], info["outcome"]) == ("ended", "never_started")
        return is_over and "put this job into its queue again" in info["evidence"]

    def job_of(self, trial: Trial[SlurmArena]) -> str:
        info = trial.info()
        assert info is not None
        return str(info["placement"]["reservation"]["job"])


class SlurmEngine(Engine):
    """A cluster, and two submitters with two ledgers."""

    apart_kind = BESIDE

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = _cluster(folder / "slurm", "f")
        self.arenas = [
            SlurmArena(_submitter(folder / "home", self.cluster), self.cluster, None),
            SlurmArena(_submitter(folder / "shared", self.cluster), self.cluster, self.database),
        ]
        quick = _cluster(folder / "quick", "g", SlurmdTimeout="10")
        self.down = SlurmArena(_submitter(folder / "down", quick), quick, None)
        self.down.requests = [Request(folder / "jobs", f"r{at}") for at in range(_JOBS)]

    def faults(self, arena: SlurmArena) -> Iterator[Fault]:
        """What is done to one submitter's runs, each some times."""
        yield from submitter_faults(2)
        yield from [Fault("slurmctld killed right after a start", controller_after_start)] * 2
        yield Fault("slurmctld killed before a start goes on", controller_before_commit)
        yield Fault("slurmctld killed in a start", controller_in_start)
        yield Fault("slurmctld killed under a run", controller_under_run)
        yield Fault("slurmd killed in a start", node_in_start)
        yield Fault("slurmd killed under a run", node_under_run)
        yield Fault("attendant killed", attendant_killed)
        yield from shim_faults()
        yield Fault("scancel of a run", cancelled)
        yield Fault("scancel of a job that is held", cancelled_held)
        yield Fault("requeue", requeued)
        yield from database_faults(arena, 3)

    def apart(self, seed: int) -> Iterator[dict[str, Any]]:
        """Most of it is waiting until Slurm calls a node down."""
        yield play_one(self.down, Fault(BESIDE, node_down), "down", random.Random(seed))

    def alone(self) -> Iterator[dict[str, Any]]:
        """What was counted beside that run."""
        if self.down.alone is not None:
            yield self.down.alone

    def close(self) -> None:
        for arena in (self.arenas[0], self.down):
            arena.start_daemons()
            arena.cluster.close()
        super().close()


def _cluster(folder: Path, name: str, **settings: Any) -> Cluster:
    folder.mkdir()
    made = Cluster(folder, name, **settings)
    made.start()
    return made


def _submitter(folder: Path, cluster: Cluster) -> SlurmSubmitter:
    folder.mkdir()
    return SlurmSubmitter(folder, cluster)


def controller_after_start(trial: Trial[SlurmArena]) -> None:
    """The release was answered, and is not saved."""
    cluster = trial.arena.cluster
    assert trial.start() == 0
    cluster.kill("slurmctld")
    _judge_by_slurm(trial)


def controller_before_commit(trial: Trial[SlurmArena]) -> None:
    trial.crash_at("submitter.bound")
    trial.arena.cluster.kill("slurmctld")


def controller_in_start(trial: Trial[SlurmArena]) -> None:
    cluster = trial.arena.cluster
    started = trial.begin()
    trial.pause()
    cluster.kill("slurmctld")
    cluster.start_one("slurmctld")
    trial.end(started)
    _judge_by_slurm(trial)


def controller_under_run(trial: Trial[SlurmArena]) -> None:
    cluster = trial.arena.cluster
    trial.run()
    time.sleep(_SAVED_SECONDS)
    trial.follow()
    cluster.kill("slurmctld")
    trial.pause()


def node_in_start(trial: Trial[SlurmArena]) -> None:
    cluster = trial.arena.cluster
    started = trial.begin()
    trial.pause()
    for node in cluster.nodes:
        cluster.kill(node)
    trial.end(started)
    for node in cluster.nodes:
        cluster.start_one(node)


def node_under_run(trial: Trial[SlurmArena]) -> None:
    cluster = trial.arena.cluster
    trial.run()
    trial.follow()
    for node in cluster.nodes:
        cluster.kill(node)
    trial.pause()


def attendant_killed(trial: Trial[SlurmArena]) -> None:
    """Slurm then kills the whole group: whether the shim saw that is left to chance."""
    trial.may_be_killed = trial.may_be_lost = True
    shim = trial.run()["shim"]["pid"]
    (attendant,) = set(_attendants(trial.arena.slurm)) - {shim}  # which was forked by it
    os.kill(attendant, signal.SIGKILL)


def cancelled(trial: Trial[SlurmArena]) -> None:
    arena = trial.arena
    trial.may_be_stopped = True
    trial.run()
    trial.follow()
    arena.cluster("scancel", arena.job_of(trial))


def cancelled_held(trial: Trial[SlurmArena]) -> None:
    arena = trial.arena
    trial.crash_at("submitter.bound")
    arena.cluster("scancel", arena.job_of(trial))


def requeued(trial: Trial[SlurmArena]) -> None:
    """Against `--no-requeue`, and without the two minutes that Slurm waits."""
    arena = trial.arena
    trial.may_be_stopped = True
    trial.run()
    trial.follow()
    job = arena.job_of(trial)
    arena.cluster("scontrol", "update", f"JobId={job}", "Requeue=1")
    assert arena.cluster("scontrol", "requeue", job).returncode == 0
    eventually(lambda: arena.cluster.jobs().get(job) == "PENDING", 90, "it is in the queue again")
    # slurmd takes a second credential only if it is younger than the end of the first.
    arena.cluster("scontrol", "update", f"JobId={job}", "StartTime=now+2")

    def is_refused() -> bool:
        return "ExitCode=96:0" in arena.cluster("scontrol", "show", "job", "-o", job).stdout

    eventually(is_refused, 90, "its second attendant refused")


def _judge_by_slurm(trial: Trial[SlurmArena]) -> None:
    """Slurm ends a job that it has forgotten when its node comes back, or calls it cancelled."""
    trial.may_be_killed = trial.may_be_lost = trial.may_be_stopped = True


def _attendants(submitter: SlurmSubmitter) -> list[int]:
    shown = subprocess.run(
        ["ps", "axww", "-o", "pid,args"], check=True, capture_output=True, text=True
    )
    wanted = f"{submitter.node_program} fleet attend"
    return [int(line.split()[0]) for line in shown.stdout.splitlines() if wanted in line]


def node_down(trial: Trial[SlurmArena]) -> None:
    """Its slurmd is killed, until Slurm calls the node down; beside it, jobs of Slurm alone."""
    arena = trial.arena
    cluster, requests = arena.cluster, arena.requests
    trial.may_be_killed = trial.may_be_lost = trial.may_be_stopped = True  # once slurmd is back
    run_id = trial.run()["id"]
    (node,) = [one.name for one in arena.node_homes() if (one / "runs" / run_id).is_dir()]
    (other,) = set(cluster.nodes) - {node}
    cluster("scontrol", "update", f"NodeName={other}", "State=DRAIN", "Reason=faults")
    for one in requests:
        script = one.marks.with_suffix(".sh")
        script.write_text(f"#!/bin/sh\n{one.script}")
        done = cluster("sbatch", "--output=/dev/null", "--chdir=/", str(script))
        assert done.returncode == 0, done.stderr
    for one in requests:
        eventually(lambda one=one: one.starts, 60, "it has begun")
    cluster("scontrol", "update", f"NodeName={other}", "State=RESUME")
    cluster.kill(node)
    arena.alone = count("Slurm", NODE_DOWN, requests, _BEGIN_SECONDS + 120)
    assert trial.begun == 1
