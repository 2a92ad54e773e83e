"""Scenes of waiting work that are played in a place of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def _holdfast(home: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOLDFAST_HOME": home},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def submit_here(home: str, name: str, queue: str) -> dict[str, Any]:
    """A run in a queue, to its end if it was taken."""
    done = _holdfast(home, "run", "-F", "-n", name, "-Q", queue, "true")
    return {"code": done.returncode, "stderr": done.stderr}
