"""One owner per hazard: what each file of the package may do, and that the check can fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.sources import package_sources

ROOT = Path(__file__).parents[2]

OWNERS = {
    "/proc": {
        "process/procfs.py",
        "process/proc_files.py",  # the files of one process, some kept open
    },
    "control groups": {"process/cgroups.py"},
    "ctypes": {"process/libc.py"},
    "psutil": {"process/portable.py"},
    "sqlite3": {"manage/index.py", "manage/reading/index_tables.py"},
    "psycopg": {"fleet/postgres.py"},
    "signals": {
        "process/signals.py",
        "fleet/ray/desk.py",  # ends a child that it has not reaped; nothing of ours is there
    },
    "process creation": {
        "manage/starting/launch.py",
        "shim/rescue/spawn.py",
        "shim/child.py",
        "shim/setup.py",  # the setup of a worktree, below the child that becomes the command
        "shim/notify.py",  # the program of --notify
        "manage/worktrees/git.py",  # git
        "manage/doctor/checks.py",  # tries what this machine can do
        "agents/installed.py",  # asks an agent for its version
        "fleet/channel.py",  # ssh, and the programs of engines
        "cli/fleet/attaching.py",  # gives the terminal to ssh
        "tui/handing_over.py",  # gives the terminal to `holdfast attach`
        "fleet/programs.py",  # sbatch and the like, to their end
        "fleet/ray/desk.py",  # the node's holdfast, from a worker of Ray
        "fleet/ray/way.py",  # the bridge to Ray
    },
    "exec": {
        "shim/child.py",
        "shim/setup.py",
        "cli/identity/guard.py",
    },
}

VIOLATIONS = [
    ("/proc", "open('/proc/1/stat')"),
    ("/proc", "base = '/proc'"),
    ("/proc", "path = f'/proc/{pid}/stat'"),
    ("/proc", "open(b'/proc/self/stat')"),
    ("control groups", "root = '/sys/fs/cgroup/user.slice'"),
    ("control groups", "open(f'{path}/memory.current')"),
    ("control groups", "os.path.exists(path + '/cgroup.procs')"),
    ("ctypes", "import ctypes.util"),
    ("ctypes", "from ctypes import CDLL"),
    ("psutil", "import psutil"),
    ("psutil", "def f():\n    from psutil import Process"),
    ("sqlite3", "import sqlite3 as db"),
    ("psycopg", "def f():\n    import psycopg"),
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
    "hint = 'raise memory.max of its cgroup'",
    "from holdfast.process import signals\nsignals.send_signal(identity, 15)",
    "from holdfast.process.signals import send_signal\nsend_signal(identity, 15)",
    "import os\nos.waitpid(1, 0)\nos.pidfd_open(1)",
    "import signal\nsignal.signal(15, handler)",
    "import os\nexecutable = os.X_OK",
]


# What finds them. It reads the syntax tree, so a comment that speaks of a hazard is not one.


class Found(NamedTuple):
    hazard: str
    line: int
    what: str


MODULES = {
    "ctypes": "ctypes",
    "_ctypes": "ctypes",
    "cffi": "ctypes",
    "psutil": "psutil",
    "sqlite3": "sqlite3",
    "psycopg": "psycopg",
    "_sqlite3": "sqlite3",
    "subprocess": "process creation",
    "_posixsubprocess": "process creation",
    "multiprocessing": "process creation",
    "pty": "process creation",
}
SIGNAL_CALLS = r"(os|posix)\.(kill|killpg)|_?signal\.(pidfd_send_signal|raise_signal|pthread_kill)"
CREATION_CALLS = (
    r"(os|posix)\.(fork|forkpty|posix_spawnp?|spawn\w+|system|popen)"
    r"|asyncio\.create_subprocess_\w+|concurrent\.futures\.ProcessPoolExecutor"
)
NAMES = {
    "signals": re.compile(SIGNAL_CALLS),
    "process creation": re.compile(CREATION_CALLS),
    "exec": re.compile(r"(os|posix)\.exec[lv]p?e?"),
}
# Methods of Popen, psutil.Process and asyncio's Process. `signals.send_signal` is our own gate.
SIGNAL_METHODS = frozenset({"kill", "terminate", "send_signal"})
GATE = frozenset({"signals", "holdfast"})
# How a text that is a path begins, or ends.
PATHS = {
    "/proc": re.compile(r"/proc(/|$)"),
    "control groups": re.compile(r"/sys/fs/cgroup(/|$)|([^ ]*/)?(cgroup|memory)\.[a-z_.]+$"),
}


def find_hazards(source: str) -> Iterator[Found]:
    """Every hazard in the source, with its line."""
    tree = ast.parse(source)
    imported = _imported_names(tree)
    prose = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _in_import(node)
        elif isinstance(node, ast.Attribute):
            yield from _in_attribute(node, imported)
        elif isinstance(node, ast.Call):
            yield from _in_call(node)
        elif isinstance(node, ast.Constant) and id(node) not in prose:
            yield from _in_constant(node)


def _in_import(node: ast.Import | ast.ImportFrom) -> Iterator[Found]:
    if isinstance(node, ast.Import):
        modules, members = [alias.name for alias in node.names], []
    elif node.level == 0 and node.module:
        modules, members = [node.module], [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for module in modules:
        if hazard := MODULES.get(module.partition(".")[0]):
            yield Found(hazard, node.lineno, f"import {module}")
    for member in members:
        yield from _in_name(member, node.lineno)


def _in_attribute(node: ast.Attribute, imported: dict[str, str]) -> Iterator[Found]:
    # A mention is enough: `send = os.kill` is a signal as well.
    if dotted := _dotted(node):
        first, _, rest = dotted.partition(".")
        yield from _in_name(f"{imported.get(first, first)}.{rest}", node.lineno)


def _in_call(node: ast.Call) -> Iterator[Found]:
    method = node.func
    if not isinstance(method, ast.Attribute) or method.attr not in SIGNAL_METHODS:
        return
    receiver = _dotted(method.value) or "..."
    if receiver not in ("os", "posix") and receiver.rpartition(".")[2] not in GATE:
        yield Found("signals", node.lineno, f"{receiver}.{method.attr}()")


def _in_constant(node: ast.Constant) -> Iterator[Found]:
    text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    if not isinstance(text, str):
        return
    for hazard, pattern in PATHS.items():
        if pattern.match(text):
            yield Found(hazard, node.lineno, repr(node.value))


def _in_name(dotted: str, line: int) -> Iterator[Found]:
    for hazard, pattern in NAMES.items():
        if pattern.fullmatch(dotted):
            yield Found(hazard, line, dotted)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What `import os as o` and `from concurrent import futures` call things."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def _docstrings(tree: ast.Module) -> set[int]:
    """Strings that stand alone as statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_each_hazard_stays_with_its_owner():
    strays = [
        f"{name}:{found.line}: {found.what}: {found.hazard} belongs to {OWNERS[found.hazard]}"
        for name, text in package_sources().items()
        for found in find_hazards(text)
        if name not in OWNERS[found.hazard]
    ]
    assert strays == []


@pytest.mark.parametrize(("hazard", "source"), VIOLATIONS)
def test_the_check_sees_a_planted_violation(hazard, source):
    assert {found.hazard for found in find_hazards(source)} == {hazard}


def test_every_hazard_has_a_planted_violation():
    assert {hazard for hazard, _ in VIOLATIONS} == set(OWNERS)


def test_each_owner_still_needs_to_be_one():
    found = {
        (hazard.hazard, name)
        for name, text in package_sources().items()
        for hazard in find_hazards(text)
    }
    listed = {(hazard, name) for hazard, names in OWNERS.items() for name in names}
    assert listed - found == set(), "remove them from OWNERS"


def test_the_page_names_every_owner():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = page.partition("| hazard | owner |")[2].split("\n\n")[0].splitlines()[2:]
    told = {row.split("|")[1].strip(): set(re.findall(r"`([\w/]+\.py)`", row)) for row in rows}
    assert told == OWNERS, "the table of hazards in docs/architecture.md"


@pytest.mark.parametrize("source", INNOCENT)
def test_the_check_leaves_innocent_code_alone(source):
    assert list(find_hazards(source)) == []
