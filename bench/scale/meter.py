"""Runs one command and prints what it took: exit code, seconds, CPU seconds, peak bytes.

A program of its own that imports next to nothing: Linux counts into the peak of a process what its
parent had when it forked, and no command may look larger than it is.
"""

from __future__ import annotations

import os
import sys
import time


def measure(lines: int, argv: list[str]) -> tuple[int, float, float, int]:
    """With `lines`, its output is closed after so many of them; else it is thrown away."""
    null = os.open(os.devnull, os.O_RDWR)
    read_end, write_end = os.pipe() if lines else (-1, null)
    streams = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, write_end, 1)]
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=streams)
    if lines:
        os.close(write_end)
        _read_lines(read_end, lines)
        os.close(read_end)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    return code, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def _read_lines(fd: int, lines: int) -> None:
    while lines > 0 and (text := os.read(fd, 65536)):
        lines -= text.count(b"\n")


if __name__ == "__main__":
    print(*measure(int(sys.argv[1]), sys.argv[2:]))
