"""I7, I11: what the process is called and what it runs say nothing about which process it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from tests.support import identity_scenes
from tests.support.kernel_lab import run_in
from tests.support.places import USERS, namespace_of, sleeper
from tests.support.waiting import eventually

AWKWARD = [
    "a) R 1 (b",
    ") Z 0 0 0 0 0",
    "((((((((",
    "))))))))",
    "a b  c",
    "a\nb",
    ")\n1 (x) S 1",
    "\n",
    " ",
    "",
    "\t\r\x0b",
    "\xff\xfe)",
    "0123456789) R 1",
    "\xe2\x82",
]


@pytest.mark.parametrize("user", USERS)
def test_I7_token_is_right_under_any_name(user: str) -> None:
    scene = identity_scenes.tokens_under_names
    for name, facts in zip(AWKWARD, run_in(namespace_of(user), scene, names=AWKWARD), strict=True):
        assert facts["verdict"] == "SAME", name
        assert facts["differs"], name
        assert facts["ticks_right"], name
        assert facts["stat"]["ppid"] == facts["ppid"], name
        assert facts["stat"]["state"] in ("sleeping", "running"), name
        assert facts["fate"] == "delivered", name
        assert facts["ended_by"] == 15, name


@pytest.mark.parametrize("name", ["a) R 1 (b", "a\nb) S 2", "( ) x"])
def test_I7_program_file_with_such_a_name(tmp_path: Path, name: str) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    program = tmp_path / name
    shutil.copy(sleep, program)
    with sleeper(None, str(program), "600") as process:
        eventually(lambda: procfs.read_stat(process.pid).comm == name, why="it was exec'ed")
        stat = procfs.read_stat(process.pid)
        assert (stat.pid, stat.ppid) == (process.pid, os.getpid())
        identity = ProcessIdentity.of(process.pid)
        assert identity.start_ticks == stat.start_ticks
        assert str(identity.verdict()) == "SAME"
        assert str(identity.replace(pidfd_inode=None).verdict()) == "SAME"


def test_I11_forked_child_has_an_identity_of_its_own() -> None:
    parent = ProcessIdentity.current()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, ProcessIdentity.current().token.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        theirs = ProcessIdentity.parse(file.read())
    os.waitpid(child, 0)
    assert theirs.pid == child
    assert theirs.pidfd_inode != parent.pidfd_inode
    assert ProcessIdentity.current() == parent
    assert str(parent.verdict()) == "SAME"
    assert str(theirs.verdict()) in ("GONE", "RECYCLED")


def test_I11_exec_keeps_the_identity() -> None:
    command = ["sh", "-c", "read line; exec sleep 600"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        before = ProcessIdentity.of(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        eventually(lambda: procfs.read_stat(process.pid).comm == "sleep", why="it was exec'ed")
        assert ProcessIdentity.of(process.pid) == before
        assert str(before.verdict()) == "SAME"
        process.kill()


EXEC_FROM_A_THREAD = """
import os, sys, threading
sys.stdin.readline()
threading.Thread(target=os.execvp, args=("sleep", ["sleep", "600"])).start()
threading.Event().wait()
"""


def test_I11_exec_from_another_thread_keeps_the_identity() -> None:
    """The thread takes over the PID, the start time and the inode of the leader that it ends."""
    command = [sys.executable, "-c", EXEC_FROM_A_THREAD]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        before = ProcessIdentity.of(process.pid)
        with before.hold() as held:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            eventually(lambda: procfs.read_stat(process.pid).comm == "sleep", why="it was exec'ed")
            assert not held.has_exited()
        assert ProcessIdentity.of(process.pid) == before
        assert str(before.verdict()) == "SAME"
        process.kill()
