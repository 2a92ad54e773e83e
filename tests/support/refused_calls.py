"""Has the kernel refuse a system call, by a seccomp filter: for faults that no healthy disk shows.

`refusing("fsync", errno.EIO)` is for `preexec_fn`: the process and all that it starts get that
error from that call, for good.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable

_NUMBERS = {  # by machine
    "x86_64": {"fsync": 74},
    "aarch64": {"fsync": 82},
}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD_NUMBER, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def can_refuse() -> bool:
    """Whether this machine's system calls are known here."""
    return platform.machine() in _NUMBERS


def refusing(call: str, error: int) -> Callable[[], None]:
    """What makes the calling process get `error` from `call`."""
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
