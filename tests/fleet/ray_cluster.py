"""A Ray of a head and some nodes, each node in a network namespace with a name of its own.

The nodes hang on a bridge of this machine, where head and submitters are: `cut` takes a node's
cable away, `heal` brings it back. Each has a Holdfast home of its own. `close` ends every process
that it started.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fleet.fleet_world import Submitter
from tests.fleet.net_nodes import NetNodes
from tests.support.sshd import write_program
from tests.support.waiting import eventually

_QUICK = {  # Ray notices a dead node in seconds
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}
_MEMORY = "80000000"


class RayCluster:
    """A head without CPUs, and nodes by name.

    `letter` keeps two of one process apart; `settings` are more variables of Ray. `has_redis`: the
    head keeps what it knows there.
    """

    def __init__(
        self,
        *names: str,
        cpus: int = 8,
        letter: str = "r",
        settings: dict[str, str] | None = None,
        has_redis: bool = False,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hfr"))
        self._cpus = cpus
        self._rays: dict[str, int] = {}
        left_out = ("RAY_", "HOLDFAST_")  # of whoever starts it
        kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        self._shell = subprocess.Popen(
            ["sh"],
            env={**kept, **_QUICK, **(settings or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        (self.folder / "user").mkdir()
        self.program = self.folder / "holdfast"
        write_program(self.program, os.geteuid())
        # The same for all: there is a desk for each command that nodes are told.
        self.command = f"env HOME={self.folder}/user {self.program}"
        self._net = NetNodes(letter, *names)
        self.nodes = self._net.nodes
        self.port = _free_port(self._net.address)
        self._redis = self._start_redis() if has_redis else None

    def _start_redis(self) -> str:
        """Its address; it is one of our processes, as a Ray is."""
        port, address = _free_port(self._net.address), self._net.address
        words = ["redis-server", "--bind", address, "--port", str(port), "--appendonly", "yes"]
        words += ["--dir", str(self.folder), "--protected-mode", "no"]
        self._rays["redis"] = self._spawn(words, self.folder / "redis.out")
        return f"{address}:{port}"

    @property
    def address(self) -> str:
        return f"{self._net.address}:{self.port}"

    def start(self) -> None:
        self.start_one("head")
        for name in self.nodes:
            self.start_one(name)
        self.await_nodes()

    def home_of(self, name: str) -> Path:
        """The node's Holdfast home."""
        return self.folder / f"home-{name}"

    def start_one(self, name: str) -> None:
        """One Ray, in the foreground, as our child."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        ray += ["--disable-usage-stats", "--object-store-memory", _MEMORY]
        ray += ["--temp-dir", str(self.folder / f"ray-{name}")]
        if name == "head":
            place = self._net.address
            ray += ["--head", "--port", str(self.port), "--num-cpus", "0"]
            ray += ["--include-dashboard=false"]
            if self._redis is not None:
                # Ray refuses to start a head where it sees a raylet of that address: on machines of
                # their own it would not.
                alone = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child"]
                ray = [*alone, "env", f"RAY_REDIS_ADDRESS={self._redis}", *ray]
        else:
            place = self.nodes[name].address
            ray += ["--address", self.address, "--num-cpus", str(self._cpus)]
            ray = self.nodes[name].inside(*ray)
        ray = ["env", f"HOLDFAST_HOME={self.home_of(name)}", *ray, "--node-ip-address", place]
        self._rays[name] = self._spawn(ray, self.folder / f"{name}.out")
        if name == "head":
            eventually(self._listens, 180, "the head listens")

    def _spawn(self, words: list[str], out: Path) -> int:
        """A process of the shell's: a test that starts a Ray again leaves it to the others."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        line = f"setsid {shlex.join(words)} </dev/null >>{out} 2>&1 & echo $!\n"
        self._shell.stdin.write(line.encode())
        self._shell.stdin.flush()
        return int(self._shell.stdout.readline())

    def _listens(self) -> bool:
        if not _lives(self._rays["head"]):
            self.start_one("head")  # on a busy machine Ray gives its start up
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self._net.address, self.port), 1),
        ):
            return True
        return False

    def await_nodes(self) -> None:
        """Until Ray says that all of ours are alive."""
        not_yet = (AssertionError, subprocess.TimeoutExpired)  # Ray's library gives up by itself
        eventually(self._have_joined, 180, "all nodes have joined", ignoring=not_yet)

    def _have_joined(self) -> bool:
        for name in self.nodes:
            if name in self._rays and not _lives(self._rays[name]):
                self.start_one(name)  # on a busy machine Ray gives its start up
        return set(self.nodes) <= set(self.alive())

    def alive(self) -> list[str]:
        """The host names of the nodes that Ray calls alive."""
        return self.ask("[n['NodeManagerHostname'] for n in ray.nodes() if n['Alive']]")

    def groups(self) -> dict[str, str]:
        """Each group that Ray holds, and the host where."""
        hosts = "{n['NodeID']: n['NodeManagerHostname'] for n in ray.nodes()}"
        table = "__import__('ray.util.placement_group').util.placement_group_table()"
        return self.ask(
            f"(lambda hosts: {{g['name']: hosts.get(g['bundles_to_node_id'].get(0)) for g in"
            f" {table}.values() if g['state'] == 'CREATED'}})({hosts})"
        )

    def ask(self, expression: str) -> Any:
        """What Ray's own library says, in a program of its own."""
        import json

        code = (
            f"import json, ray; ray.init('{self.address}', log_to_driver=False,"
            f" logging_level='ERROR'); print('answer', json.dumps({expression}))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
        for line in done.stdout.splitlines():
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise AssertionError(done.stderr)

    def processes(self, name: str, words: str) -> list[int]:
        """The PIDs of a Ray's own processes whose command line has these words."""
        found = []
        for pid in _tree(self._rays[name]):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if words in line:
                    found.append(pid)
        return found

    def kill(self, name: str, words: str) -> None:
        """As `kill -9` of those processes."""
        for pid in self.processes(name, words):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self, name: str) -> None:
        """End one Ray with all of its processes, as a node that is switched off would."""
        ray = self._rays.pop(name, None)
        pids = [] if ray is None else [ray, *_tree(ray)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not any(map(_lives, pids)), 60, "its ports are free")

    def close(self) -> None:
        for name in [*self.nodes, "head", "redis"]:
            self.stop(name)
        for pipe in (self._shell.stdin, self._shell.stdout):
            if pipe is not None:
                pipe.close()
        self._shell.wait()
        self._net.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class RaySubmitter(Submitter):
    """One who places runs in that cluster, from the head's machine."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        super().__init__(folder, os.geteuid())
        self.cluster = cluster
        self.marks = folder / "marks"  # what workloads write
        self.marks.mkdir()
        self._before = set(self.run_ids())
        self.configure()

    def configure(self, *, answer: str = "60s", command: str = "") -> None:
        lines = ["[fleet.engine.ray]", 'kind = "ray"', f'host = "{self.cluster.address}"']
        lines += [f'command = "{command or self.cluster.command}"', f'answer = "{answer}"']
        self.config.write_text("\n".join(lines) + "\n")

    def run_ids(self) -> list[str]:
        """The runs that nodes have a record of."""
        return sorted(path.name for path in self.cluster.folder.glob("home-*/runs/*"))

    def new_ids(self) -> list[str]:
        """Those that were not there before."""
        return [one for one in self.run_ids() if one not in self._before]

    def on(self, name: str, *args: object) -> subprocess.CompletedProcess[str]:
        """A command of a node's own holdfast, without Ray."""
        env = {**self.env(), "HOLDFAST_HOME": str(self.cluster.home_of(name))}
        words = [str(self.cluster.program), *map(str, args)]
        command = self.cluster.nodes[name].inside(*words)
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env)

    def close(self) -> None:
        """Ends every run, and the bridge."""
        for name in self.cluster.nodes:
            if (self.cluster.home_of(name) / "runs").is_dir():
                self.on(name, "stop", "--all", "--grace", "0")
        folder = self.runtime / "holdfast-ray"
        words = "holdfast.fleet.ray.bridge"
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and _belongs(path, words, folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(path.name), signal.SIGKILL)


def _belongs(process: Path, words: str, folder: Path) -> bool:
    """Whether that is a bridge of this submitter."""
    try:
        if words.encode() not in (process / "cmdline").read_bytes():
            return False
        return str(folder.parent).encode() in (process / "environ").read_bytes()
    except OSError:
        return False


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _tree(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_tree(child)]
    return found


def _free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port
