"""Which process becomes the parent of an orphan: on most machines PID 1.

A run's shim is such a process. Below a subreaper that ends what it inherits, no run would last.
"""

from __future__ import annotations

import os
import time

from holdfast.lean import json_text
from holdfast.process import procfs
from holdfast.process.cgroups import text_of
from holdfast.run.atomic_files import write_all

_LEAVING_SECONDS = 5.0


def main(fd: int) -> None:
    """Of this process, which was made as a shim is; the document is written to `fd`."""
    own = procfs.command_line(os.getpid())
    deadline = time.monotonic() + _LEAVING_SECONDS
    # The process between ends at once; until then it is our parent, with our own command line.
    while procfs.command_line(os.getppid()) == own and time.monotonic() < deadline:
        time.sleep(0.01)
    parent = os.getppid()
    stat = procfs.stat_or_none(parent)
    document = {
        "pid": parent,
        "comm": None if stat is None else stat.comm,
        "oom_score_adj": int(procfs.read("self", "oom_score_adj")),
        "cgroup": text_of("self").decode("utf-8", "replace"),
    }
    write_all(fd, json_text(document).encode("ascii"))
