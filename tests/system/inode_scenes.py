"""A run on a small disk without an inode for its events. Played in a mount namespace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.recovery_scenes import holdfast


def starts_and_waits(path: str) -> dict[str, Any]:
    """Inodes for what a launcher makes, and none for what its shim needs."""
    options = "size=4m,nr_inodes=200,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    os.environ["HOLDFAST_HOME"] = path
    home = Path(path)
    ballast = home / "ballast"
    holdfast("run", "-F", "-n", "b", "true")
    ballast.mkdir()
    for spare in range(1, 9):  # the launcher's own share is not for a test to know
        _leave(ballast, spare)
        started = holdfast("run", "-n", "a", "sleep", "600", expect=None)
        if _events_are_missing(home):
            break
    else:
        raise AssertionError(f"never without its events: {started.stderr}")
    waited = holdfast("wait", "a", expect=None)
    for file in ballast.iterdir():
        file.unlink()
    later = holdfast("run", "-F", "-n", "a", "true", expect=None)
    return {
        "started": started.returncode,
        "said": started.stderr,
        "waited": waited.returncode,
        "waited_said": waited.stderr,
        "later": later.returncode,
        "later_said": later.stderr,
    }


def _events_are_missing(home: Path) -> bool:
    """Whether there is a run that has its spec and nothing else."""
    runs = list((home / "runs").iterdir())
    return any((run / "spec.json").exists() and not (run / "events.jsonl").exists() for run in runs)


def _leave(ballast: Path, inodes: int) -> None:
    """Use up all inodes of the disk, but for so many."""
    for file in ballast.iterdir():
        file.unlink()
    number = 0
    while os.statvfs(ballast).f_ffree > inodes:
        (ballast / str(number)).touch()
        number += 1
