"""Which process holds a pid file or is named in it: the lock's holder, ourselves, a container's.

Sends no signal, takes no lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from holdfast.process import procfs, this_host
from holdfast.process.identity import ProcessIdentity


def lock_holder(fd: int) -> int | None:
    """The PID of the lock's holder; None: it can't be found; 0: the lock is free by now."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    layout = "hhqqi4x"
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return 0
    # -1 is an open file description lock, 0 a process of another PID namespace.
    return pid if pid > 0 else None


def is_our_number(recorded: ProcessIdentity, me: ProcessIdentity) -> bool:
    """Our own PID: we wrote it before an exec, or an earlier process had this PID."""
    is_here = recorded.host in (None, me.host) and recorded.pid_ns in (None, me.pid_ns)
    return recorded.pid == me.pid and is_here


def name_of(identity: ProcessIdentity) -> str:
    """A live process for people: its PID and what it calls itself."""
    if this_host.is_portable() or this_host.is_elsewhere(identity):
        return str(identity.pid)
    stat = procfs.stat_or_none(identity.pid)
    return str(identity.pid) if stat is None else f"{identity.pid} ({stat.comm})"


def what_to_do(identity: ProcessIdentity) -> str:
    """A hint for a caller that is refused because nothing proves whether it lives."""
    if identity.host is not None and identity.host != this_host.place().host:
        return f"look at {identity.pid} on that host; remove the file when it is gone"
    return f"check it with `ps {identity.pid}`; remove the file when that is something else"
