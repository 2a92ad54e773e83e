"""A Slurm of two nodes on this host: munged, slurmctld and two slurmd, in a directory of its own.

For cgroup v1. The nodes' names are unique, as are their control groups, which go with it. Each node
has a Holdfast home of its own. The daemons are children of this process; `close` ends them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.fleet.fleet_world import Submitter
from tests.support.sshd import write_program
from tests.support.waiting import eventually

FREEZER = Path("/sys/fs/cgroup/freezer")
_CONFIG = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=300
KillWait=20
MpiDefault=none
MessageTimeout=5
DefMemPerCPU=10
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
NodeName={nodes[0]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=16 RealMemory=1000
NodeName={nodes[1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=16 RealMemory=1000
PartitionName=p Nodes=ALL Default=YES State=UP
"""
_CGROUP = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"


class Cluster:
    """The daemons, by name: `munged`, `slurmctld`, and one for each of `nodes`."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder = folder
        name = f"hf{os.getpid()}{name}"
        self.nodes = (f"{name}a", f"{name}b")
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for path in ("state", "spool"):
            (folder / path).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        config = _CONFIG.format(
            name=name,
            host=os.uname().nodename.partition(".")[0],
            folder=folder,
            nodes=self.nodes,
            ports=_free_ports(3),
        )
        (folder / "slurm.conf").write_text(config)
        (folder / "cgroup.conf").write_text(_CGROUP)

    def start(self) -> None:
        """All of them, until both nodes are idle."""
        for name in ("munged", "slurmctld", *self.nodes):
            self.start_one(name)
        self.await_nodes()

    def start_one(self, name: str) -> None:
        """One daemon, in the foreground, as our child."""
        command = {
            "munged": self._munged(),
            "slurmctld": ["slurmctld", "-D"],
        }.get(name, ["slurmd", "-D", "-N", name])
        with open(self.folder / f"{name}.out", "ab") as out:
            started = subprocess.Popen(
                command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self._daemons[name] = started
        if name == "munged":
            eventually((self.folder / "munge.sock").exists, 60, "munged listens")

    def await_nodes(self) -> None:
        """Until Slurm says that both can be used."""
        eventually(lambda: self.states() <= {"idle", "mixed"}, 90, "both nodes can be used")

    def states(self) -> set[str]:
        """Of the nodes."""
        shown = self("sinfo", "--noheader", "--Node", "-o%T")
        return set(shown.stdout.split()) or {"none"}

    def _munged(self) -> list[str]:
        places = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "munged.pid"}
        places |= {"log-file": "munged.log", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / place}" for name, place in places.items()]
        return ["munged", "--foreground", "--force", "--num-threads=2", *options]

    def kill(self, name: str) -> None:
        """As `kill -9` of that daemon."""
        self._daemons[name].kill()
        self._daemons.pop(name).wait()

    def __call__(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A program of Slurm."""
        return subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=60, check=False
        )

    def jobs(self) -> dict[str, str]:
        """Each job that waits or runs, and its state."""
        shown = self("squeue", "--noheader", "-t", "PD,R,CF,S", "-o%i %T").stdout
        return dict(line.split() for line in shown.splitlines())

    def close(self) -> None:
        """End every job and daemon; remove the control groups."""
        self.end_jobs()
        for name in (*self.nodes, "slurmctld", "munged"):
            daemon = self._daemons.pop(name, None)
            if daemon is not None:
                daemon.terminate()
                daemon.wait(60)
        for node in self.nodes:
            for path, _, _ in os.walk(FREEZER / f"slurm_{node}", topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    def end_jobs(self) -> None:
        """Every job, at once."""
        if "slurmctld" in self._daemons:
            self("scancel", "--signal=KILL", "--full", "--me")
            self("scancel", "--me")
            # Also none that completes: its processes write until they are gone.
            eventually(lambda: not self("squeue", "--noheader").stdout, 60, "no job is left")


class SlurmSubmitter(Submitter):
    """One who places runs in a cluster whose nodes have homes in this folder."""

    def __init__(self, folder: Path, cluster: Cluster, *options: str) -> None:
        super().__init__(folder, os.geteuid())
        self.cluster = cluster
        self.nodes_folder = folder / "nodes"
        self.user_home = folder / "user"
        for path in (self.nodes_folder, self.user_home):
            path.mkdir()
        self.node_program = folder / "holdfast"
        write_program(self.node_program, os.geteuid())
        tag = os.environ.get("HOLDFAST_TEST_TAG", "")
        self.command = (
            f"env HOLDFAST_TEST_TAG={tag} HOME={self.user_home}"
            f" HOLDFAST_HOME={self.nodes_folder}/$SLURMD_NODENAME {self.node_program}"
        )
        self.configure(*options)

    def configure(self, *options: str, answer: str = "60s") -> None:
        """`options` for sbatch."""
        words = ", ".join(f'"{word}"' for word in options)
        lines = ["[fleet.engine.slurm]", 'kind = "slurm"', f"options = [{words}]"]
        lines += [f'command = "{self.command}"', f'answer = "{answer}"']
        self.config.write_text("\n".join(lines) + "\n")

    def env(self, **more: str) -> dict[str, str]:
        return super().env(**{"SLURM_CONF": self.cluster.env["SLURM_CONF"], **more})

    def run_ids(self) -> list[str]:
        """The runs that nodes have a record of."""
        return sorted(path.name for path in self.nodes_folder.glob("*/runs/*"))

    def job_of(self, run_id: str) -> str:
        """The job that the ledger names."""
        path = self.home / "fleet" / "placements" / f"{run_id}.json"
        return str(json.loads(path.read_text())["reservation"]["job"])

    def await_running(self, run_id: str) -> dict[str, Any]:
        """Until its node says that it runs."""
        info: dict[str, Any] = {}

        def runs() -> bool:
            info.update(self.info(run_id))
            return bool(info["state"] == "running")

        eventually(runs, 90, f"{run_id} runs")
        return info


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
