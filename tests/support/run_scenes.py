"""Scenes with runs, played in a place of the kernel lab: another user, other file systems."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import fuse_server


def _holdfast(*words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def start_a_run(home: str) -> tuple[int, str]:
    """The exit code and stderr of a start in that home."""
    return _holdfast("run", "true", HOLDFAST_HOME=home)


def runs_on_tmpfs(path: str) -> list[tuple[int, str]]:
    """A start, and a wait for its end, on a tmpfs."""
    home = Path(path) / "tmpfs"
    home.mkdir()
    options = "size=16m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(home)], check=True)
    return [
        _holdfast(*words, HOLDFAST_HOME=str(home))
        for words in (("run", "-n", "a", "true"), ("wait", "a"))
    ]


def starts_on_fuse(path: str, kind: str) -> list[tuple[int, str]]:
    """A start on a FUSE file system, and one that says that this is wanted."""
    home = Path(path) / "fuse"
    home.mkdir()
    with fuse_server.mounted(str(home), kind):
        return [
            _holdfast("run", "true", HOLDFAST_HOME=str(home)),
            _holdfast("run", "true", HOLDFAST_HOME=str(home), HOLDFAST_ALLOW_REMOTE="1"),
        ]
