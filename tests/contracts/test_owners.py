"""One owner per hazard: what each file of the package may do, and that the check can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.owners import find_hazards

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"

OWNERS = {
    "/proc": {
        "process/procfs.py",
        "process/proc_details.py",  # kept descriptors of one process
        "process/libc.py",
    },
    "ctypes": {"process/libc.py"},
    "psutil": {"process/portable.py"},
    "sqlite3": {"manage/index.py"},
    "signals": {"process/signals.py"},
    "process creation": {
        "manage/launch.py",
        "shim/child.py",
        "shim/notify.py",  # the program of --notify
        "manage/git.py",  # git
        "cli/doctor.py",  # tries what this machine can do
        "agents/found.py",  # asks an agent for its version
    },
    "exec": {"manage/launch.py", "shim/child.py", "cli/guard.py"},
}

VIOLATIONS = [
    ("/proc", "open('/proc/1/stat')"),
    ("/proc", "base = '/proc'"),
    ("/proc", "path = f'/proc/{pid}/stat'"),
    ("/proc", "open(b'/proc/self/stat')"),
    ("ctypes", "import ctypes.util"),
    ("ctypes", "from ctypes import CDLL"),
    ("psutil", "import psutil"),
    ("psutil", "def f():\n    from psutil import Process"),
    ("sqlite3", "import sqlite3 as db"),
    ("signals", "import os\nos.kill(1, 9)"),
    ("signals", "import os as o\no.killpg(1, 9)"),
    ("signals", "from os import kill"),
    ("signals", "from posix import kill as end"),
    ("signals", "import signal\nsend = signal.pidfd_send_signal"),
    ("signals", "import _signal\n_signal.raise_signal(9)"),
    ("signals", "child.terminate()"),
    ("signals", "self.child.kill()"),
    ("signals", "start().send_signal(15)"),
    ("process creation", "import subprocess"),
    ("process creation", "from multiprocessing import Process"),
    ("process creation", "import os\nos.fork()"),
    ("process creation", "import os\nos.posix_spawn('a', [], {})"),
    ("process creation", "from os import system"),
    ("process creation", "import asyncio\nasyncio.create_subprocess_exec('a')"),
    ("process creation", "from concurrent import futures\nfutures.ProcessPoolExecutor()"),
    ("exec", "import os\nos.execvpe('a', [], {})"),
]

INNOCENT = [
    '"""Reads nothing from /proc/self."""',
    "hint = 'mount /proc first'",
    "path = '/processes'",
    "from holdfast.process import signals\nsignals.send_signal(identity, 15)",
    "from holdfast.process.signals import send_signal\nsend_signal(identity, 15)",
    "import os\nos.waitpid(1, 0)\nos.pidfd_open(1)",
    "import signal\nsignal.signal(15, handler)",
    "import os\nexecutable = os.X_OK",
]


def _sources() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", _sources())
def test_each_hazard_stays_with_its_owner(name):
    strays = [
        f"{name}:{found.line}: {found.what}: {found.hazard} belongs to {OWNERS[found.hazard]}"
        for found in find_hazards((PACKAGE / name).read_text())
        if name not in OWNERS[found.hazard]
    ]
    assert strays == []


@pytest.mark.parametrize(("hazard", "source"), VIOLATIONS)
def test_the_check_sees_a_planted_violation(hazard, source):
    assert {found.hazard for found in find_hazards(source)} == {hazard}


def test_every_hazard_has_a_planted_violation():
    assert {hazard for hazard, _ in VIOLATIONS} == set(OWNERS)


@pytest.mark.parametrize("source", INNOCENT)
def test_the_check_leaves_innocent_code_alone(source):
    assert list(find_hazards(source)) == []
