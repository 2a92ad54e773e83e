"""Gives the terminal to `holdfast attach`, and waits until it is given back."""

from __future__ import annotations

import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def attach(run_id: str, home: str, environment: Mapping[str, str]) -> int:
    """Its exit code. What it refused stays on the terminal until it was read."""
    # -P: a module of the working directory must not stand in for one of ours.
    command = [sys.executable, "-P", "-m", "holdfast", "attach", run_id]
    done = subprocess.run(command, env={**environment, "HOLDFAST_HOME": home}, check=False)
    if done.returncode:
        print("press enter to go back to top ", end="", flush=True)
        sys.stdin.readline()
    return done.returncode
