"""The short forms of the fault campaign and of the bench of many runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.features import needs

ROOT = Path(__file__).resolve().parents[2]

# They do much: on a machine with other work they take minutes, which is no fault of theirs.
pytestmark = pytest.mark.timeout(400)


def _bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=380
    )


def test_D7_a_short_campaign_finds_no_violation():
    needs("root", "pid_namespace")
    done = _bench("bench.faults", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    table = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[1:])
    assert "faults" in done.stdout
    for row in ("wrong signals", "invented endings", "lost output", "names left blocked"):
        assert table[row] == "0"


def test_a_short_bench_of_scale_finds_nothing_wrong_and_nothing_left_over():
    done = _bench("bench.scale", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "no bar is judged; 0 wrong or left over"
    for part in ("ls --all -n 50", "usage --by day", "PSS of a shim among", "`stop` of"):
        assert part in done.stdout
