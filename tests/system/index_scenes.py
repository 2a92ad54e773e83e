"""Listings where the index can't be written: a read-only home, a full disk."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from typing import Any

from holdfast.run.home import Home
from tests.support.disk_scenes import fill
from tests.support.history import make_history
from tests.support.recovery_scenes import holdfast
from tests.support.running import ended

Facts = dict[str, Any]


def _listed(*words: str) -> tuple[int, int]:
    done = holdfast("ls", "--json", *words, expect=None)
    return done.returncode, len(json.loads(done.stdout)["runs"])


def list_read_only(home: str) -> Facts:
    """The home can only be read."""
    subprocess.run(["mount", "--bind", home, home], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", home], check=True)
    os.environ["HOLDFAST_HOME"] = home
    plain, every = _listed(), _listed("--all")
    return {
        "plain": plain[1],
        "all": every[1],
        "codes": [plain[0], every[0]],
        "index": os.path.exists(f"{home}/index.sqlite3"),
    }


def list_on_a_full_disk(path: str, many: int) -> Facts:
    """A run ends, and runs are listed, while not a byte is free; later there is room again."""
    options = "size=4m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    os.environ["HOLDFAST_HOME"] = path
    home = Home.locate().prepare()
    make_history(home, many)
    holdfast("run", "-n", "a", "sh", "-c", f"while [ ! -e {path}/fill ]; do :; done; exit 7")
    fill(f"{path}/fill")
    info = ended("a")
    full = _listed("--all")[1]
    os.unlink(f"{path}/fill")
    later = _listed("--all")[1]
    connection = sqlite3.connect(home.index_path)
    (rows,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    connection.close()
    return {
        "exit_code": info.exit_code,
        "listed_full": full,
        "listed_later": later,
        "rows_later": rows,
    }
