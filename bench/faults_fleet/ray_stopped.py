"""`ray stop` and `ray stop --force` of a Ray that is alone in its PID and network namespaces.

Ray looks for its processes by their command lines, among all of the machine: runs must not be hit.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.faults_fleet.engine import HOME, Fault, measure, play_one
from bench.faults_fleet.trial import Arena, Trial
from tests.fleet.fleet_world import Submitter
from tests.support.kernel_lab import Place, run_in
from tests.support.sshd import write_program
from tests.support.waiting import eventually

_PORT = 6379
_RAY = [sys.executable, "-m", "ray.scripts.scripts"]


class OneRay(Arena):
    """Head and node in one, as on a laptop."""

    engine = "Ray"
    on = "ray"

    def __init__(self, folder: Path) -> None:
        submitter = Submitter(folder, os.geteuid())
        super().__init__(submitter, HOME)
        self.folder = folder
        self.home = folder / "node"
        self.program = folder / "program"
        self.is_up = False
        write_program(self.program, os.geteuid())
        (folder / "user").mkdir()
        lines = ["[fleet.engine.ray]", 'kind = "ray"', f'host = "127.0.0.1:{_PORT}"']
        lines += [f'command = "env HOME={folder}/user {self.program}"', 'answer = "30s"']
        submitter.config.write_text("\n".join(lines) + "\n")
        self.heal()

    def node_homes(self) -> list[Path]:
        return [self.home]

    def heal(self) -> None:
        if self.is_up:
            return
        words = ["start", "--head", "--node-ip-address", "127.0.0.1", "--port", str(_PORT)]
        words += ["--num-cpus", "8", "--include-dashboard=false", "--disable-usage-stats"]
        words += ["--object-store-memory", "80000000", "--temp-dir", str(self.folder / "ray")]

        def begins() -> bool:
            self._ray(*words)
            return True

        # On a busy machine Ray gives its start up.
        eventually(begins, 240, "Ray starts", ignoring=(subprocess.SubprocessError,))
        self.is_up = True

    def stop(self, *options: str) -> None:
        self._ray("stop", *options)
        self.is_up = False

    def _ray(self, *words: str) -> None:
        with open(self.folder / "ray.out", "ab") as out:
            subprocess.run(
                [*_RAY, *words],
                check=True,
                env={**os.environ, "HOLDFAST_HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                timeout=120,
            )


def faults() -> Iterator[Fault]:
    """The laptop's way to end Ray."""
    yield Fault("ray stop under a run", under_run)
    yield Fault("ray stop --force under a run", lambda t: under_run(t, "--force"))
    yield Fault("ray stop --force in a start", in_start)


def under_run(trial: Trial[OneRay], *options: str) -> None:
    trial.run()
    trial.follow()
    trial.arena.stop(*options)


def in_start(trial: Trial[OneRay]) -> None:
    started = trial.begin()
    trial.pause()
    trial.arena.stop("--force")
    trial.end(started)


def scene(seed: int) -> list[dict[str, Any]]:
    """All of them; their results."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hfs"))
    folder.chmod(0o755)
    rng = random.Random(seed)
    arena = OneRay(folder)
    arena.start_seconds = measure(arena, rng)
    return [play_one(arena, fault, f"s{at}", rng) for at, fault in enumerate(faults())]


def main() -> None:
    from bench.faults_fleet import ray_stopped  # a scene is found by its module's name

    rows = run_in(Place(), ray_stopped.scene, timeout=1000, seed=int(sys.argv[1]))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
