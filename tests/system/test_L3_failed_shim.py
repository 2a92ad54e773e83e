"""A fault of Holdfast's own in a shim that has recorded nothing yet: it says what it failed of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.manage.runs import Runs
from tests.support.running import info_of, run_of

REASON = "RuntimeError: sabotaged for a test"
_START = "from holdfast import Runs; print(Runs().start(['true'], name='a').info().evidence)"
_FAILS_ONCE = """
import sys
from holdfast.shim import main

def fail(path, ready_fd):
    raise RuntimeError("sabotaged for a test")

main.launch = fail
from holdfast.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def sabotaged(tmp_path: Path) -> dict[str, str]:
    """The environment of a copy of the package whose shim can't be loaded."""
    package = tmp_path / "site" / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=_no_bytecode)
    (package / "shim" / "loop.py").write_text('raise RuntimeError("sabotaged for a test")\n')
    return {**os.environ, "PYTHONPATH": str(package.parent)}


_no_bytecode = shutil.ignore_patterns("__pycache__")


def _python(code: str, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_L3_what_a_forked_shim_failed_of_is_recorded_by_whoever_looks_next():
    # Forked from this process, so that what it runs is the patched function.
    words = ["run", "-n", "a", "true"]
    done = _python(_FAILS_ONCE, *words, env=dict(os.environ))
    assert done.returncode == 125
    assert REASON in done.stderr
    info = info_of("a")
    assert (info.state, info.outcome) == ("ended", "never_started")
    assert REASON in info.evidence
    note = Path(run_of("a").directory.path, "crash.txt")
    assert "Traceback" in note.read_text()
    assert note.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["words", "json"])
def test_L3_a_command_line_whose_shims_all_fail_says_why(sabotaged, flags):
    code = "import sys; from holdfast.cli import main; sys.exit(main(sys.argv[1:]))"
    done = _python(code, "run", *flags, "-n", "a", "true", env=sabotaged)
    assert done.returncode == 125
    told = json.loads(done.stdout)["error"]["message"] if flags else done.stderr
    assert REASON in told
    assert REASON in info_of("a").evidence


def test_L3_a_program_whose_shims_all_fail_can_read_why(sabotaged, holdfast):
    done = _python(_START, env=sabotaged)
    assert done.returncode == 0
    assert REASON in done.stdout
    # Whoever looks with a whole Holdfast records it, and the name is free.
    holdfast("recover", expect=0)
    assert REASON in Runs().get("a").info().evidence
    holdfast("run", "-F", "-n", "a", "true", expect=0)


_DIES_SLOWLY = """
import os, sys, time
from holdfast.run.directory import RunDirectory
from holdfast.run.last_words.crash_note import leave_note
from holdfast.shim import adopt, main

taken = []

def fail(path, ready, request=None):
    error = RuntimeError("sabotaged for a test")
    taken.append(RunDirectory.at(path).take_lock())
    leave_note(path, error)
    ready.failed(error)
    time.sleep(0.5)  # told, and not gone: a loaded machine
    os._exit(70)

main.launch = fail
if sys.argv.pop(1) == "all":
    adopt.adopt = fail
from holdfast.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("which", ["first", "all"])
def test_L1_a_shim_that_has_failed_and_is_not_gone_yet_is_no_started_run(which):
    """All: the one that was to record it failed as well."""
    done = _python(_DIES_SLOWLY, which, "run", "-n", "a", "true", env=dict(os.environ))
    assert done.returncode == 125
    assert REASON in done.stderr
    info = info_of("a")
    assert (info.state, info.outcome) == ("ended", "never_started")
    assert info.is_recorded is (which == "first")
