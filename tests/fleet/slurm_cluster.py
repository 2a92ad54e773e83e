"""A Slurm of two nodes on this host: munged, slurmctld and two slurmd, in a directory of its own.

For cgroup v1. The nodes' names are unique, as are their control groups, which go with it. Each node
has a Holdfast home of its own. The daemons are children of this process; `close` ends them, and
the kernel does if this process is killed. What runs in jobs is then ended by a keeper.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fleet.fleet_world import Submitter
from tests.fleet.net_nodes import NetNode, NetNodes
from tests.support.features import needs
from tests.support.sshd import write_program
from tests.support.waiting import eventually

FREEZER = Path("/sys/fs/cgroup/freezer")
_CONFIG = """\
ClusterName={name}
SlurmctldHost={host}({addresses[0]})
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
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1
NodeName=DEFAULT CPUs=16 RealMemory=1000
NodeName={nodes[0]} NodeHostname={host} NodeAddr={addresses[1]} Port={ports[1]}
NodeName={nodes[1]} NodeHostname={host} NodeAddr={addresses[2]} Port={ports[2]}
PartitionName=p Nodes=ALL Default=YES State=UP
"""
# Reads until this process is gone, or has said that all is done.
_KEEPER = """\
read done && exit
conf=$1; shift
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  {
    grep -lzFx "SLURM_CONF=$conf" /proc/[0-9]*/environ | cut -d/ -f3
    find "$@" -name cgroup.procs -exec cat {} +
  } | xargs --no-run-if-empty kill -KILL
  find "$@" -depth -type d -exec rmdir {} + && exit
  sleep 0.5
done
"""
_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
_CGROUP = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"


class Cluster:
    """The daemons, by name: `munged`, `slurmctld`, and one for each of `nodes`."""

    def __init__(
        self, folder: Path, name: str = "", *, has_cables: bool = False, **settings: object
    ) -> None:
        """`has_cables`: each node is a machine of its own, as far as the network tells.

        `settings`: those of slurm.conf that are to be others.
        """
        self.folder = folder
        name = f"hf{os.getpid()}{name}"
        self.nodes = (f"{name}a", f"{name}b")
        self.net = NetNodes("s", *self.nodes) if has_cables else None
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._keeper: subprocess.Popen[bytes] | None = None
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
            addresses=self._addresses(),
            ports=_free_ports(3),
        )
        for setting, value in settings.items():
            config = re.sub(rf"(?m)^{setting}=.*$", f"{setting}={value}", config)
        (folder / "slurm.conf").write_text(config)
        (folder / "cgroup.conf").write_text(_CGROUP)

    def _addresses(self) -> list[str]:
        if self.net is None:
            return ["127.0.0.1"] * 3
        return [self.net.address, *(one.address for one in self.net.nodes.values())]

    def cable_of(self, node: str) -> NetNode:
        """Of a cluster that has cables."""
        assert self.net is not None
        return self.net.nodes[node]

    def start(self) -> None:
        """All of them, until both nodes are idle."""
        config = self.env["SLURM_CONF"]
        groups = [str(FREEZER / f"slurm_{one}") for one in self.nodes]
        self._keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, "keeper", config, *groups],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a ctrl-c is not for it
        )
        for name in ("munged", "slurmctld", *self.nodes):
            self.start_one(name)
        self.await_nodes()

    def start_one(self, name: str) -> None:
        """One daemon, in the foreground, as our child."""
        command = {
            "munged": self._munged(),
            "slurmctld": ["slurmctld", "-D"],
        }.get(name, ["slurmd", "-D", "-N", name])
        if self.net is not None and name in self.net.nodes:
            command = self.net.nodes[name].inside(*command)
        with open(self.folder / f"{name}.out", "ab") as out:
            started = subprocess.Popen(
                [*_WITH_US, *command],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
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
        if self._keeper is not None:
            self._keeper.communicate(b"done\n", timeout=60)
        if self.net is not None:
            self.net.close()

    def end_jobs(self) -> None:
        """Every job, at once."""
        if "slurmctld" in self._daemons:
            self("scancel", "--signal=KILL", "--full", "--me")
            self("scancel", "--me")
            # Also none that completes: its processes write until they are gone.
            eventually(lambda: not self("squeue", "--noheader").stdout, 60, "no job is left")


@contextlib.contextmanager
def running_cluster(name: str = "", **more: Any) -> Iterator[Cluster]:
    with made_cluster(name, **more) as made:
        made.start()
        yield made


@contextlib.contextmanager
def made_cluster(name: str, **more: Any) -> Iterator[Cluster]:
    """One whose daemons are started by the test."""
    needs("root", "slurmctld", "munged", "cgroup_v1")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="holdfast-slurm-") as folder:
        made = Cluster(Path(folder), name, **more)
        try:
            yield made
        finally:
            made.close()


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
        self.write_node_program()
        tag = os.environ.get("HOLDFAST_TEST_TAG", "")
        self.command = (
            f"env HOLDFAST_TEST_TAG={tag} HOME={self.user_home}"
            f" HOLDFAST_HOME={self.nodes_folder}/$SLURMD_NODENAME {self.node_program}"
        )
        self.configure(*options)

    def write_node_program(self, before: str = "") -> None:
        """The nodes' holdfast. `before`: what makes another of it, in Python."""
        write_program(self.node_program, os.geteuid())
        begins = "from holdfast.cli import program"
        text = self.node_program.read_text().replace(begins, f"{before}\n{begins}")
        self.node_program.write_text(text)

    def configure(
        self, *options: str, answer: str = "60s", command: str = "", ledger: str = "home"
    ) -> None:
        """`options` for sbatch. The nodes have the same ledger."""
        words = ", ".join(f'"{word}"' for word in options)
        head = ["[fleet]", f'ledger = "{ledger}"']
        of_nodes = self.user_home / ".config" / "holdfast" / "config.toml"
        of_nodes.parent.mkdir(parents=True, exist_ok=True)
        of_nodes.write_text("\n".join(head) + "\n")
        lines = [*head, "[fleet.engine.slurm]", 'kind = "slurm"', f"options = [{words}]"]
        lines += [f'command = "{command or self.command}"', f'answer = "{answer}"']
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
