"""Which shim watches which: what the kernel shows of their descriptors."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

from tests.support.running import run_of, shim_pid
from tests.support.waiting import eventually


def watched_by(pid: int) -> set[int]:
    """The processes that one holds a pidfd of."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            lines = info.read_text().splitlines()
            found |= {int(line.split()[1]) for line in lines if line.startswith("Pid:")}
    return found


def wait_until_watched(*names: str) -> None:
    """Until each of these, all that are active, is watched by the shim of the next newer one."""
    ring = sorted(names, key=lambda name: run_of(name).id)  # within a second chance decides
    for name, newer in zip(ring, (*ring[1:], ring[0]), strict=True):
        is_watched = functools.partial(_watches, newer, name)
        eventually(is_watched, why=f"the shim of {newer} watches that of {name}")


def _watches(newer: str, name: str) -> bool:
    return shim_pid(name) in watched_by(shim_pid(newer))
