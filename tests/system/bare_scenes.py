"""The command line where something that every system has is missing. Each in its own place."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

TOKEN = "hf1.1.1.1.1.00000000000000000000000000000000.00000000"


def without_proc(options: str) -> dict[str, Any]:
    """Something else is mounted over /proc."""
    subprocess.run(["mount", "-t", *options.split(), "none", "/proc"], check=True)
    commands = (["run", "true"], ["who", "1"], ["check", TOKEN], ["guard", "g", "true"])
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOLDFAST_HOME": home}
        return {words[0]: _said(words, env, home) for words in (*commands, ["doctor"], ["ls"])}


def _said(words: list[str], env: dict[str, str], cwd: str) -> list[Any]:
    command = [sys.executable, "-m", "holdfast", *words]
    done = subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return [done.returncode, done.stdout + done.stderr]
