"""Files of a project that are called like modules: neither command line nor shim runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as package
from tests.support.running import ended, run_of

# What Holdfast loads, early or late. Python itself loads a few others before any program of ours.
NAMES = [
    "argparse",
    "base64",
    "binascii",
    "copy",
    "datetime",
    "errno",
    "fcntl",
    "fractions",
    "gettext",
    "hashlib",
    "json",
    "logging",
    "pathlib",
    "platform",
    "pwd",
    "random",
    "resource",
    "select",
    "selectors",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "tomllib",
    "traceback",
    "typing",
    "uuid",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory full of traps: each leaves a mark when it is loaded, and fails."""
    path = tmp_path / "project"
    path.mkdir()
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write(__name__ + ' ')\nraise SystemExit(99)\n"
    for name in NAMES:
        (path / f"{name}.py").write_text(trap)
    return path


def _sprung(tmp_path: Path) -> str:
    mark = tmp_path / "sprung"
    return mark.read_text() if mark.exists() else ""


def test_the_command_line_and_its_shim_load_nothing_of_the_current_directory(
    holdfast, project, tmp_path
):
    words = ("run", "-n", "a", "--restart", "on-failure:1", "--timeout", "60", "false")
    holdfast(*words, cwd=project, expect=0)
    holdfast("wait", "a", cwd=project, expect=1)
    for verb in ("status", "tree", "logs", "events", "rerun", "stop"):
        holdfast(verb, "a", cwd=project, expect=0)
    holdfast("ls", "--all", "--json", cwd=project, expect=0)
    holdfast("recover", cwd=project, expect=0)
    assert _sprung(tmp_path) == ""
    assert not Path(run_of("a").directory.path, "crash.txt").exists()


def test_a_shim_of_the_library_loads_nothing_of_the_current_directory(project, tmp_path):
    # The program's own modules were loaded before it went there; its children are told to look.
    code = "\n".join(
        (
            "from holdfast import Runs",
            "import os",
            f"os.chdir({str(project)!r})",
            "os.environ['PYTHONPATH'] = os.getcwd()",
            "print(Runs().start(['sh', '-c', 'exit 3'], name='a').wait().exit_code)",
        )
    )
    done = _python(["-c", code], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert ended("a").exit_code == 3
    assert _sprung(tmp_path) == ""


def test_a_shim_loads_nothing_that_lies_beside_the_package(project, tmp_path):
    """A site directory may hold anything: what Python brings along comes first."""
    source = Path(package.__file__).parent
    shutil.copytree(source, project / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    code = "\n".join(
        (
            "import sys",
            f"sys.path.append({str(project)!r})",
            "from holdfast import Runs",
            "run = Runs().start(['sh', '-c', 'exit 3'], name='a')",
            "import holdfast",
            "print(holdfast.__file__, run.wait().exit_code)",
        )
    )
    done = _python(["-S", "-P", "-c", code], cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"{project}/holdfast/__init__.py 3\n", "")
    assert _sprung(tmp_path) == ""


def _python(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=dict(os.environ),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
