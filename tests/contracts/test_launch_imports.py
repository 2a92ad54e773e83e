"""Modules on the launch path import nothing that costs a launch.

Each is imported alone, by an interpreter that has loaded nothing else (`-I -S`: no site, no
user packages), so what is in sys.modules was pulled in by the module. At the end, what the
processes of a real start have loaded when they leave.
"""

from __future__ import annotations

import compileall
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Runs
from tests.support.recovering import kill
from tests.support.running import run_of
from tests.support.waiting import eventually

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
    "holdfast.shim.watching.hooks",  # what its hooks report
    "holdfast.shim.watching.spending",  # what it says there about its tokens
    "holdfast.shim.pty.terminal",  # for --pty
}
LAUNCH_PATH = [
    "__init__",
    "errors",
    "importing",
    "lean",
    "option_type",
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
    "manage/words/views",
    "cli/__init__",
    "cli/run",
    "cli/ls",
]
LIST_LOADED = """
import os, sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
for module in sys.argv[2:]:
    if not os.fork():
        import_module(module)
        os.write(1, (" ".join([module, *sys.modules]) + "\\n").encode())
        os._exit(0)
    if os.wait()[1]:
        sys.exit(module + " was not imported")
"""


def _launch_modules() -> list[str]:
    files = {file for entry in LAUNCH_PATH for file in SOURCE.glob(f"holdfast/{entry}.py")}
    names = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files)
    return sorted(name.removesuffix(".__init__") for name in names)


def _loaded(source: Path, *modules: str) -> dict[str, set[str]]:
    """What each of them loads."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LIST_LOADED, str(source), *modules],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {module: set(loaded) for module, *loaded in rows}


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    return _loaded(SOURCE, *_launch_modules())


def _allowed(module: str) -> set[str]:
    """The shim opens its socket when the command already runs; its entry must not wait for it."""
    in_shim = module.startswith("holdfast.shim.") and module != "holdfast.shim.main"
    return {"socket"} if in_shim else set()


def _with_any(loaded: dict[str, set[str]], *parts: str, of: set[str]) -> dict[str, set[str]]:
    """Which modules of these parts load any of them."""
    found = {module: of & names for module, names in loaded.items() if module.startswith(parts)}
    return {module: names for module, names in found.items() if names}


def test_a_launch_module_imports_nothing_costly(loaded):
    found = _with_any(loaded, "holdfast", of=FORBIDDEN)
    assert {one: names for one, names in found.items() if not names <= _allowed(one)} == {}


def test_what_every_shim_loads_is_lean(loaded):
    found = _with_any(loaded, "holdfast.shim.", "holdfast.run.", of=NOT_LEAN)
    assert found.keys() == NEED_MORE, found


def test_no_shim_loads_what_reads_options(loaded):
    assert _with_any(loaded, "holdfast.shim.", of=OF_THE_ASKER) == {}


def test_the_launch_path_was_found(loaded):
    assert loaded.keys() == set(_launch_modules())
    assert {"holdfast.errors", "holdfast.process.identity"} <= loaded.keys()


def test_the_check_sees_a_planted_import(tmp_path):
    planted = {f"planted_{costly}": costly for costly in FORBIDDEN - {"psutil", "rich"}}
    for module, costly in planted.items():
        (tmp_path / f"{module}_inner.py").write_text(f"import {costly}\n")
        (tmp_path / f"{module}.py").write_text(f"import {module}_inner\n")
    found = _with_any(_loaded(tmp_path, *planted), "planted", of=FORBIDDEN)
    assert [module for module in planted if planted[module] not in found.get(module, ())] == []


# What a real start loads: the launcher, and the shim of a run that is looked at, then stopped.
DUMP_AT_EXIT = """
import os, sys
sys.path.insert(0, sys.argv[1])
folder, sys.argv[1:] = sys.argv[2], ["run", "-n", "one", *sys.argv[3:]]
leave = os._exit

def leave_a_list(code):
    who = "shim" if "holdfast.shim.main" in sys.modules else "launcher"
    if who == "launcher" and "holdfast.cli.text.start_text" not in sys.modules:
        leave(code)  # the process between the two
    loaded = "\\n".join(sorted(sys.modules))
    fd = os.open(f"{folder}/{who}.new", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, loaded.encode())
    os.rename(f"{folder}/{who}.new", f"{folder}/{who}")
    leave(code)

os._exit = leave_a_list
from holdfast.cli import program
program()
"""
OF_OTHER_LAUNCHES = {
    *("argparse", "heapq", "json", "re", "signal", "socket", "tomllib"),
    "holdfast.manage.index",
    "holdfast.manage.listing",
    "holdfast.manage.starting.added_words",
    "holdfast.manage.starting.batch",
    "holdfast.manage.starting.config_file",
    "holdfast.manage.starting.option_values",
    "holdfast.manage.together",
    "holdfast.process.proc_files",
    "holdfast.process.tree",
}
# Of options that few runs have, and of what happens to few.
OF_OTHER_RUNS = (
    *("_sha2", "_sha256", "binascii", "heapq", "json", "signal", "socket", "struct"),
    *("collections", "enum", "functools", "re"),
    "holdfast.agents",
    "holdfast.cli",
    "holdfast.fleet",
    "holdfast.manage",
    "holdfast.run.queueing",
    "holdfast.run.trace_rows",
    "holdfast.run.units",
    "holdfast.run.usage.budget",
    "holdfast.shim.adjusting",
    "holdfast.shim.adopt",
    "holdfast.shim.notify",
    "holdfast.shim.passing",
    "holdfast.shim.pausing",
    "holdfast.shim.pty",
    "holdfast.shim.rescue.rescue",
    "holdfast.shim.rescue.spawn",
    "holdfast.shim.setup",
    "holdfast.shim.survivors",
    "holdfast.shim.takeover",
    "holdfast.shim.waiting",
    "holdfast.shim.watching",
)
MOST_MODULES = 90  # of our own, that a shim of an ordinary run has in memory
MOST_KB = 3200  # that a sampled shim has for itself, over a bare interpreter
MOST_KB_OF_ADOPTION = 1500  # more, where `recover` has forked it: of what that had loaded
OF_SAMPLES = ("holdfast.process.sampling.sampler", "holdfast.run.anomalies", "holdfast.run.trace")


def _start(tmp_path: Path, *words: str) -> None:
    command = [sys.executable, "-I", "-S", "-c", DUMP_AT_EXIT, str(SOURCE), str(tmp_path), *words]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _modules(tmp_path: Path, who: str) -> set[str]:
    eventually((tmp_path / who).exists, why=f"the {who} has told what it loaded")
    return set((tmp_path / who).read_text().splitlines())


def _below(modules: set[str], names: tuple[str, ...]) -> set[str]:
    return {one for one in modules if one in names or one.startswith(tuple(f"{n}." for n in names))}


def test_a_launcher_and_an_ordinary_shim_load_what_they_need(tmp_path):
    _start(tmp_path, "sleep", "60")
    trace = Path(run_of("one").directory.trace_path)
    eventually(trace.exists, why="it is sampled")
    Runs().get("one").stop()
    assert not OF_OTHER_LAUNCHES & _modules(tmp_path, "launcher")
    shim = _modules(tmp_path, "shim")
    assert _below(shim, OF_SAMPLES)
    assert not _below(shim, OF_OTHER_RUNS)
    assert len(_below(shim, ("holdfast",))) <= MOST_MODULES


def test_the_shim_of_a_run_that_failed_loads_no_patterns_for_its_last_words(tmp_path):
    _start(tmp_path, "sh", "-c", "echo why; exit 3")
    shim = _modules(tmp_path, "shim")
    assert run_of("one").output() == b"why\n"
    assert not {"enum", "functools", "re"} & shim


def test_what_measures_is_not_loaded_for_a_run_that_was_never_seen_alive(tmp_path):
    _start(tmp_path, "true")
    shim = _modules(tmp_path, "shim")
    was_seen = Path(run_of("one").directory.trace_path).exists()
    assert bool(_below(shim, OF_SAMPLES)) == was_seen


def _own_kilobytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty:"))


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each interpreter has other sizes")
def test_a_sampled_shim_has_little_memory_of_its_own(tmp_path):
    compileall.compile_dir(SOURCE, quiet=2)  # a shim that compiles keeps what that took
    _start(tmp_path, "--sample-interval", "1", "sleep", "60")
    trace = Path(run_of("one").directory.trace_path)
    eventually(trace.exists, why="it is sampled")
    eventually(lambda: trace.read_bytes().count(b"\n") > 1, why="it is sampled again, and settled")
    shim = Runs().get("one").info().shim
    assert shim is not None
    command = [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bare:
        assert bare.stdout is not None
        bare.stdout.readline()
        over = _own_kilobytes(shim["pid"]) - _own_kilobytes(bare.pid)
        bare.communicate()
    Runs().get("one").stop()
    assert over <= MOST_KB


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each interpreter has other sizes")
def test_an_adopter_has_little_more_memory_than_the_shim_before_it(holdfast):
    compileall.compile_dir(SOURCE, quiet=2)
    holdfast("run", "-n", "one", "--sample-interval", "1", "sleep", "60", expect=0)
    before = _settled_shim()
    of_the_shim = _own_kilobytes(before["pid"])
    kill(before)
    eventually(lambda: not run_of("one").directory.lock_is_held(), why="its shim is gone")
    holdfast("recover", expect=0)
    adopter = _settled_shim()
    assert adopter["pid"] != before["pid"]
    assert _own_kilobytes(adopter["pid"]) - of_the_shim <= MOST_KB_OF_ADOPTION
    holdfast("stop", "one", expect=0)


def _settled_shim() -> dict[str, Any]:
    """The run's shim, when it has written two more rows."""
    trace = Path(run_of("one").directory.trace_path)
    eventually(trace.exists, why="it is sampled")
    rows = trace.read_bytes().count(b"\n")
    eventually(lambda: trace.read_bytes().count(b"\n") > rows + 1, why="it is sampled again")
    shim = run_of("one").info().shim
    assert shim is not None
    return shim
