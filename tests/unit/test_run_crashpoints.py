from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import Bug
from holdfast.run import crashpoints
from holdfast.run.crashpoints import POINTS, ROLES, crash_point, set_role
from tests.support.waiting import open_for_reader

POINT = "shim.locked"
PROGRAM = f"""
from holdfast.run.crashpoints import crash_point, set_role
set_role("shim")
crash_point("shim.started")
crash_point({POINT!r})
print("went on", flush=True)
"""


def start(**environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_point_is_one_of_a_role_and_declared_once():
    assert all(name.split(".")[0] in ROLES for name in POINTS)
    assert len(set(POINTS)) == len(POINTS)


def test_every_point_is_passed_somewhere_and_every_passed_point_is_declared():
    source = Path(crashpoints.__file__).parents[1]
    passed = [
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())
    ]
    assert sorted(set(passed)) == sorted(POINTS)


def test_points_do_nothing_by_themselves():
    for name in POINTS:
        crash_point(name)


def test_undeclared_points_and_roles_are_bugs():
    with pytest.raises(Bug):
        crash_point("shim.somewhere")
    with pytest.raises(Bug):
        set_role("visitor")


@pytest.mark.parametrize("where", [POINT, f"{POINT}@shim"])
def test_the_process_dies_where_it_was_told_to(where: str):
    with start(HOLDFAST_CRASH_AT=where) as process:
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (-signal.SIGKILL, "")


@pytest.mark.parametrize("where", [f"{POINT}@adopter", "shim.running"])
def test_others_go_on(where: str):
    with start(HOLDFAST_CRASH_AT=where) as process:
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "went on\n")


@pytest.mark.parametrize("where", ["shim.loked", f"{POINT}@shimm"])
def test_a_harness_that_means_no_point_is_told_so(where: str):
    with start(HOLDFAST_CRASH_AT=where) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "does not exist" in said


def test_a_process_can_be_held_and_let_go(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with start(HOLDFAST_HOLD_AT=POINT, HOLDFAST_HOLD_FIFO=str(fifo)) as process:
        fd = open_for_reader(fifo)
        assert process.poll() is None
        os.close(fd)
        said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "went on\n")
