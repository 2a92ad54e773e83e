"""Holds a process at its exit, in state `t`, where even SIGKILL does not end it.

A tracer that asked for PTRACE_O_TRACEEXIT stops its tracee on the way out; it is let go when the
tracer goes. The tracer is a process of its own, since a trace belongs to one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import NoReturn

PTRACE_SEIZE = 0x4206
PTRACE_O_TRACEEXIT = 0x40


@contextlib.contextmanager
def held_at_exit(pid: int) -> Iterator[int]:
    """While this lasts, `pid` can be killed but does not go. Gives the tracer's PID."""
    ready_read, ready_write = os.pipe()
    end_read, end_write = os.pipe()
    tracer = os.fork()
    if tracer == 0:
        os.close(end_write)
        _trace(pid, ready_write, end_read)
    os.close(ready_write)
    os.close(end_read)
    try:
        answer = os.read(ready_read, 100)
        if answer != b"ok":
            raise AssertionError(f"ptrace: {answer.decode() or 'the tracer died'}")
        yield tracer
    finally:
        os.close(end_write)
        os.close(ready_read)
        os.waitpid(tracer, 0)


def _trace(pid: int, ready: int, end: int) -> NoReturn:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    failed = libc.ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXIT)
    os.write(ready, os.strerror(ctypes.get_errno()).encode() if failed else b"ok")
    os.read(end, 1)  # returns when the last copy of the other end is closed
    os._exit(0)
