"""Modules on the launch path import nothing that costs a launch.

Each is imported alone, by an interpreter that has loaded nothing else (`-I -S`: no site, no
user packages), so what is in sys.modules was pulled in by the module.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

FORBIDDEN = {
    "asyncio",
    "dataclasses",
    "datetime",
    "hashlib",
    "inspect",
    "logging",
    "pathlib",
    "psutil",
    "rich",
    "shlex",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "tomllib",
    "typing",
}
# Every shim has memory of its own for what it loads: these are for the runs that need them.
NOT_LEAN = {"collections", "enum", "functools", "json", "re", "signal"}
# How options are read and checked: for the process that asks, not for the shim.
OF_THE_ASKER = {"holdfast.manage.starting.option_values", "holdfast.run.units"}
NEED_MORE = {
    "holdfast.shim.watching.agent_watch",  # reads the agent's stream
    "holdfast.shim.watching.spending",  # what it says there about its tokens
    "holdfast.shim.pty.terminal",  # for --pty
}
LAUNCH_PATH = [
    "__init__",
    "errors",
    "lean",
    "options",
    "record",
    "process/libc",
    "process/procfs",
    "process/pidfd",
    "process/identity",
    "process/signals",
    "process/tree",
    "process/tree_stop",
    "process/sampling/*",
    "process/workload/*",
    "run/*",
    "run/anomalies/*",
    "shim/*",
    "shim/watching/*",
    "shim/pty/*",
    "manage/run",
    "manage/runs",
    "manage/starting/launch",
    "manage/views",
    "cli/__init__",
    "cli/run",
    "cli/ls",
]
LIST_LOADED = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module(sys.argv[2])
loaded = sorted(sys.modules)
import json
print(json.dumps(loaded))
"""


def _launch_modules() -> list[str]:
    files = {file for entry in LAUNCH_PATH for file in SOURCE.glob(f"holdfast/{entry}.py")}
    names = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files)
    return sorted(name.removesuffix(".__init__") for name in names)


def _loaded(source: Path, module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIST_LOADED, str(source), module],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def _costly_imports(source: Path, module: str) -> set[str]:
    return FORBIDDEN & _loaded(source, module)


def _allowed(module: str) -> set[str]:
    """The shim opens its socket when the command already runs; its entry must not wait for it."""
    in_shim = module.startswith("holdfast.shim.") and module != "holdfast.shim.main"
    return {"socket"} if in_shim else set()


@pytest.mark.parametrize("module", _launch_modules())
def test_a_launch_module_imports_nothing_costly(module):
    assert _costly_imports(SOURCE, module) <= _allowed(module)


@pytest.mark.parametrize(
    "module",
    [name for name in _launch_modules() if name.startswith(("holdfast.shim.", "holdfast.run."))],
)
def test_what_every_shim_loads_is_lean(module):
    loaded = NOT_LEAN & _loaded(SOURCE, module)
    assert bool(loaded) == (module in NEED_MORE), loaded


@pytest.mark.parametrize(
    "module", [name for name in _launch_modules() if name.startswith("holdfast.shim.")]
)
def test_no_shim_loads_what_reads_options(module):
    assert not OF_THE_ASKER & _loaded(SOURCE, module)


def test_the_launch_path_was_found():
    assert {"holdfast.errors", "holdfast.process.identity"} <= set(_launch_modules())


@pytest.mark.parametrize("costly", sorted(FORBIDDEN - {"psutil", "rich"}))
def test_the_check_sees_a_planted_import(costly, tmp_path):
    (tmp_path / "planted_inner.py").write_text(f"import {costly}\n")
    (tmp_path / "planted.py").write_text("import planted_inner\n")
    assert costly in _costly_imports(tmp_path, "planted")
