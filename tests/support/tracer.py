"""A debugger that does nothing about the process that it has seized.

It is a process of its own, since a trace belongs to one thread; its tracee is let go when it goes.
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
    """While this lasts, `pid` can be killed but does not go. Gives the tracer's PID.

    PTRACE_O_TRACEEXIT stops it on the way out, in state `t`, where even SIGKILL does not end it.
    """
    with seized(pid, PTRACE_O_TRACEEXIT) as tracer:
        yield tracer


@contextlib.contextmanager
def seized(pid: int, options: int = 0) -> Iterator[int]:
    """While this lasts, `pid` runs on, and only its tracer is told of its end. Gives its PID."""
    ready_read, ready_write = os.pipe()
    end_read, end_write = os.pipe()
    tracer = os.fork()
    if tracer == 0:
        os.close(end_write)
        _trace(pid, options, ready_write, end_read)
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


def _trace(pid: int, options: int, ready: int, end: int) -> NoReturn:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    failed = libc.ptrace(PTRACE_SEIZE, pid, None, options)
    os.write(ready, os.strerror(ctypes.get_errno()).encode() if failed else b"ok")
    os.read(end, 1)  # returns when the last copy of the other end is closed
    os._exit(0)
