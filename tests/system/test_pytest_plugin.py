"""The pytest fixture that comes with the package, in a project of somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys

from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict

PROJECT = """
import os
from holdfast import Outcome

def test_forgets_a_run(holdfast_runs):
    run = holdfast_runs.start(["sh", "-c", "trap '' TERM; sleep 600 & wait; sleep 600"])
    with open(os.environ["TOKEN_FILE"], "w") as file:
        file.write(run.info().workload["token"])

def test_has_its_own_home(holdfast_runs, tmp_path):
    assert holdfast_runs.list() == []
    assert holdfast_runs.start(["true"]).wait(20).outcome is Outcome.SUCCEEDED
    assert holdfast_runs.home.path.startswith(str(tmp_path))
"""


def test_runs_of_a_test_are_over_when_it_ends(tmp_path):
    (tmp_path / "test_theirs.py").write_text(PROJECT)
    token_file = tmp_path / "token"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        env={**os.environ, "TOKEN_FILE": str(token_file)},
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    forgotten = ProcessIdentity.parse(token_file.read_text())
    assert forgotten.verdict() in (Verdict.GONE, Verdict.RECYCLED)
