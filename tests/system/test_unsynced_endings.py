"""A disk that does not sync, or has no inode left: whoever waits is told, and does not wait on."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import gated
from tests.support.running import events_of, info_of, shim_pid, wait_for_output
from tests.support.waiting import eventually
from tests.system import inode_scenes

_NUMBERS = {  # by machine
    "x86_64": {"fsync": 74},
    "aarch64": {"fsync": 82},
}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD_NUMBER, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
pytestmark = pytest.mark.skipif(
    platform.machine() not in _NUMBERS, reason="unknown system call numbers"
)
OWN_MOUNTS = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def refusing(call: str, error: int) -> Callable[[], None]:
    """For `preexec_fn`: the process and all that it starts get `error` from `call`, for good.

    By a seccomp filter, for faults that no healthy disk shows.
    """
    steps = (
        (_LOAD_NUMBER, 0, 0, 0),
        (_IF_EQUAL, 0, 1, _NUMBERS[platform.machine()][call]),
        (_RETURN, 0, 0, _ERRNO | error),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)

    def refuse() -> None:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
            raise OSError(ctypes.get_errno(), "no seccomp filter")
        assert code  # which the program points to

    return refuse


@contextlib.contextmanager
def _begun(words: list[str], refuse: bool) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=refusing("fsync", errno.EIO) if refuse else None,  # noqa: PLW1509
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _sockets(pid: int) -> int:
    """How many sockets a shim has open: the one that it listens at, and one for each client."""
    folder = f"/proc/{pid}/fd"
    found = 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
    return found


def test_a_wait_and_run_F_return_though_the_ending_can_not_be_synced(holdfast, tmp_path: Path):
    gate = tmp_path / "gate"
    with _begun(
        holdfast.argv("run", "-F", "-n", "a", *gated(gate, "exit 7")), refuse=True
    ) as foreground:
        eventually((tmp_path / "names/a").exists, 60, "the name is claimed")
        wait_for_output("a", b"tick", timeout=60)
        with _begun(holdfast.argv("wait", "a"), refuse=False) as waiting:
            eventually(lambda: _sockets(shim_pid("a")) == 3, 60, "both wait at its socket")
            gate.touch()
            assert waiting.wait(timeout=60) == 7
        assert foreground.wait(timeout=60) == 7
    assert (info_of("a").outcome, info_of("a").exit_code) == ("failed", 7)
    told = events_of("a", "fault")
    assert [one["where"] for one in told] == ["sync"]
    assert "Input/output error" in told[0]["error"]


def test_a_start_and_a_wait_without_an_inode_left_say_so(tmp_path: Path):
    needs("root")
    small = tmp_path / "small"
    small.mkdir()
    facts = run_in(OWN_MOUNTS, inode_scenes.starts_and_waits, timeout=100, path=str(small))
    assert facts["started"] in (6, 125)
    assert "No space left on device" in facts["said"]
    assert facts["waited"] == 125
    assert "No space left on device" in facts["waited_said"]
    assert facts["later"] == 0, "the name is free once there is room"
