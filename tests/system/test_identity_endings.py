"""D1's ground: how a process that is not our child ended, read through a held pidfd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from holdfast.errors import IdentityUnproven
from holdfast.process.identity import HeldProcess, ProcessIdentity
from tests.support import identity_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.places import sleeper
from tests.support.waiting import eventually

GRANDCHILD = """
import os, signal, subprocess, sys
child = subprocess.Popen(["sh", "-c", sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.readline()
child.stdin.close()
child.wait()
print("reaped", flush=True)
sys.stdin.readline()
"""


def _status_of_a_grandchild(script: str) -> int | None:
    """The wait status of a process whose parent is another program, after that one reaped it."""
    command = [sys.executable, "-c", GRANDCHILD, script]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        with ProcessIdentity.of(int(parent.stdout.readline())).hold() as held:
            assert held.exit_status() is None
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "reaped\n"
            return held.exit_status()


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_D1_exit_code_of_a_stranger_is_true(code: int) -> None:
    status = _status_of_a_grandchild(f"read line; exit {code}")
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_D1_signal_that_ended_a_stranger_is_true(number: signal.Signals) -> None:
    status = _status_of_a_grandchild(f"read line; kill -{number.value} $$")
    assert status is not None
    assert os.waitstatus_to_exitcode(status) == -number


@pytest.mark.parametrize("code", [0, 42])
def test_D1_status_of_a_zombie_under_an_init_that_never_reaps(code: int) -> None:
    needs("root", "pid_namespace")
    scene = identity_scenes.status_of_a_strangers_zombie
    facts = run_in(Place(init_reaps=False), scene, code=code)
    assert facts["alive"] is None
    assert os.waitstatus_to_exitcode(facts["status"]) == code
    assert facts["verdict"] == "GONE"


def test_D1_own_child_before_and_after_the_reap() -> None:
    command = ["sh", "-c", "read line; exit 7"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as process,
        ProcessIdentity.of(process.pid).hold() as held,
    ):
        assert not held.has_exited()
        assert process.stdin is not None
        process.stdin.close()
        eventually(held.has_exited, why="it ended")
        assert _exit_code(held) == 7, "a zombie"
        process.wait()
        assert _exit_code(held) == 7, "reaped"


def _exit_code(held: HeldProcess) -> int | None:
    status = held.exit_status()
    return None if status is None else os.waitstatus_to_exitcode(status)


def test_wait_returns_when_the_process_ends_and_not_before() -> None:
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity.wait(timeout=0) is False
        assert identity.wait(timeout=0.05) is False
        process.kill()
        assert identity.wait(timeout=20) is True
        assert identity.wait() is True, "also for a zombie"
    assert identity.wait() is True, "and after the reap"


def test_wait_for_what_can_not_be_told_apart_says_so() -> None:
    with sleeper() as process, pytest.raises(IdentityUnproven):
        ProcessIdentity(process.pid).wait(timeout=0)
