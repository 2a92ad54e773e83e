"""One machine with a Ray of its own, in namespaces of its own: as a person would try it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

_ADDRESS = "127.0.0.1"
_SUBREAPER = "RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper"


class _Machine:
    """Commands of one user, whose home is a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        left_out = ("RAY_", "HOLDFAST_HOME")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        beside = os.path.dirname(sys.executable)
        homes = {"HOME": folder, "HOLDFAST_HOME": f"{folder}/home", "XDG_RUNTIME_DIR": folder}
        homes["XDG_CONFIG_HOME"] = f"{folder}/config"
        self.env = {**kept, **homes, "PATH": f"{beside}:{os.environ['PATH']}"}
        # Other Rays of this computer have ports, too.
        script = "ip link set lo up && echo ready && exec sleep infinity"
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        self._inside = ("nsenter", "-t", str(holder.pid), "--net", "--")
        self._config = self.folder / "config" / "holdfast" / "config.toml"
        self._config.parent.mkdir(parents=True)
        self.configure("60s")

    def configure(self, answer: str) -> None:
        table = '[fleet.engine.ray]\nkind = "ray"\nhost = "127.0.0.1:6379"\n'
        self._config.write_text(f'{table}answer = "{answer}"\n')

    def __call__(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._inside, *words],
            check=False,
            capture_output=True,
            text=True,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            timeout=200,
            cwd="/",
        )

    def ray(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        done = self(sys.executable, "-m", "ray.scripts.scripts", *words, **env)
        if done.returncode:
            raise AssertionError(f"ray {words}: {done.stdout}{done.stderr}")
        return done

    def start_ray(self, **env: str) -> None:
        self.ray(
            *("start", "--head", "--num-cpus", "2", "--include-dashboard=false"),
            *("--object-store-memory", "80000000", "--disable-usage-stats"),
            *("--temp-dir", f"{self.folder}/ray", "--node-ip-address", _ADDRESS),
            **env,
        )

    def info(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("holdfast", "status", "a", "--json").stdout)
        return document


def _harm(machine: _Machine) -> list[dict[str, Any]]:
    """What `check` calls wrong about runs; none: Ray itself was not reached."""
    checked = json.loads(machine("holdfast", "fleet", "check", "ray", "--json").stdout)
    failed = [one for one in checked["findings"] if one["status"] == "fail"]
    return [] if any(one["name"] in ("ray", "reach") for one in failed) else failed


def stop_with_force(folder: str) -> dict[str, Any]:
    """A run, `ray stop --force`, Ray again; then a Ray whose raylet is a subreaper."""
    machine, facts = _Machine(folder), dict[str, Any]()
    there = {"HOLDFAST_HOME": f"{folder}/there"}  # the node's; the submitter's is another
    machine.start_ray(**there)
    run = ("run", "--on", "ray", "-n", "a", "--stdin", "pipe", "sh", "-c", "read x; exit 7")
    started = machine("holdfast", *run)
    if started.returncode:
        raise AssertionError(started.stderr)
    facts["started"] = started.returncode
    facts["stopped"] = "Stopped" in machine.ray("stop", "--force").stdout
    own = machine("holdfast", "status", "a", "--json", **there)
    facts["node"] = json.loads(own.stdout)["state"]
    machine.configure("5s")
    far = machine.info()
    facts["afar"] = [far["state"], far["outcome"]]
    machine.configure("60s")
    machine.start_ray(**there)
    eventually(lambda: machine.info()["state"] == "running", 90, "it is found again")
    facts["again"] = machine.info()["state"]
    machine("holdfast", "send", "a", "go")
    facts["wait"] = machine("holdfast", "wait", "a").returncode
    machine.ray("stop", "--force")
    machine.start_ray(**there, **{_SUBREAPER: "true"})
    # Our side notices by its first command that the Ray which it knew is gone.
    failed = eventually(lambda: _harm(machine), 90, "a Ray that would harm runs")
    facts["harmful"] = [one["name"] for one in failed]
    facts["why"] = all(_SUBREAPER in str(one["fix"]) for one in failed)
    machine.ray("stop", "--force")
    return facts
