"""A command looks at a run once before it acts, and once after: nothing is read again and again.

Counted in the command's own process by a profile function, and for every process, the shim's too,
by the kernel: each look at the record opens its file.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.run.directory import RunDirectory
from tests.support.running import info_of, run_of, wait_for_events
from tests.support.shims import kill_shim
from tests.support.waiting import eventually

FOLD = "holdfast.run.lifecycle.fold"
SPEC = "holdfast.run.directory.RunDirectory.read_spec"
LOOK = "holdfast.process.identity.ProcessIdentity.look"
COUNTED = """
import json, sys
counts = dict.fromkeys(json.loads(sys.argv[1]), 0)
def count(frame, event, _):
    if event == "call":
        name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
        if name in counts:
            counts[name] += 1
sys.setprofile(count)  # before: code from the bundle has no long names
from holdfast.cli import main
code = main(sys.argv[2:])
sys.setprofile(None)
print(json.dumps([code, *counts.values()]))
"""
IN_OPEN, IN_CLOSE = 0x20, 0x18
EVENT = struct.Struct("iIII")


def _counting(*words: str) -> subprocess.Popen[str]:
    names = json.dumps([FOLD, SPEC, LOOK])
    argv = [sys.executable, "-c", COUNTED, names, *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _counts(process: subprocess.Popen[str]) -> tuple[int, int, int]:
    """Folds of events, reads of a spec, looks at processes; of a command that does not fail."""
    out, err = process.communicate(timeout=60)
    code, *counts = json.loads(out.splitlines()[-1])
    assert code == 0, err
    return tuple(counts)


def counts(*words: str) -> tuple[int, int, int]:
    return _counts(_counting(*words))


@contextmanager
def opens_of(directory: RunDirectory) -> Iterator[Counter[str]]:
    """How often any process opens the events and the spec meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    assert fd >= 0
    found: Counter[str] = Counter()
    try:
        paths = (directory.events_path, directory.spec_path)
        numbers = {
            libc.inotify_add_watch(fd, os.fsencode(path), IN_OPEN | IN_CLOSE): path
            for path in paths
        }
        yield found
        while data := _read(fd):
            # Of a file, an event has no name. The kernel makes one of two that are alike and follow
            # each other: so it is asked for closes as well.
            for number, mask, _cookie, _length in EVENT.iter_unpack(data):
                found[os.path.basename(numbers[number])] += bool(mask & IN_OPEN)
    finally:
        os.close(fd)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""


@pytest.fixture
def running(holdfast) -> RunDirectory:
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    wait_for_events("a", "workload_resolved", why="its shim has looked")
    directory: RunDirectory = run_of("a").directory
    return directory


def test_a_clean_stop_folds_the_events_twice(running):
    with opens_of(running) as opens:
        folds, specs, looks = counts("stop", "a")
    assert (folds, specs) == (2, 1)
    assert looks <= 2  # at shim and workload, for what is printed about them
    # Neither does the shim read what it wrote.
    assert opens == {"events.jsonl": 2, "spec.json": 1}


@pytest.mark.usefixtures("running")
def test_a_stop_of_what_has_ended_folds_the_events_once(holdfast):
    holdfast("stop", "a", expect=0)
    folds, specs, _ = counts("stop", "a")
    assert (folds, specs) == (1, 1)


@pytest.mark.parametrize(
    "words", [("status", "a"), ("status", "a", "--json"), ("ls",), ("tree", "a")]
)
def test_a_reader_folds_the_events_once(running, holdfast, words):
    with opens_of(running) as opens:
        folds, specs, _ = counts(*words)
    assert (folds, specs) == (1, 1)
    assert opens == {"events.jsonl": 1, "spec.json": 1}
    holdfast("stop", "a", expect=0)
    folds, specs, _ = counts(*words)  # of an ended run
    assert folds == 1
    assert specs <= 1


@pytest.mark.usefixtures("running")
def test_a_wait_folds_the_events_when_the_shim_hangs_up_and_not_before(holdfast):
    waiting = _counting("wait", "a", "--json")
    eventually(lambda: _is_waiting(waiting.pid), why="it has a link to the shim")
    holdfast("signal", "TERM", "a", expect=0)
    out, _ = waiting.communicate(timeout=60)
    code, folds, specs, _ = json.loads(out.splitlines()[-1])
    assert code == 143
    assert (folds, specs) == (1, 1)


def _is_waiting(pid: int) -> bool:
    """Whether it has a socket, which is its link to the shim."""
    fds = f"/proc/{pid}/fd"
    return any(_target(f"{fds}/{fd}").startswith("socket:") for fd in os.listdir(fds))


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


@pytest.mark.usefixtures("running")
def test_a_removal_folds_the_events_once_under_the_lock(holdfast):
    holdfast("stop", "a", expect=0)
    assert counts("rm", "a")[:2] == (1, 1)


@pytest.mark.usefixtures("running")
def test_a_recovery_looks_before_it_adopts_and_after(holdfast):
    kill_shim(run_of("a"))
    folds, specs, _ = counts("recover")
    assert info_of("a").state == "running"
    assert folds <= 3  # the third names the processes that are known, among those with a stamp
    assert specs == 1
    holdfast("stop", "a", expect=0)
