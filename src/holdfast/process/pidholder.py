"""Who holds a pid file or is named in it: the lock's holder, the caller itself, another container.

Sends no signal, takes no lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

from holdfast.errors import ProcessGone, ProcessUnreadable
from holdfast.process import here, procfs
from holdfast.process.identity import ProcessIdentity


def lock_holder(fd: int) -> int | None:
    """Who has the lock: its PID; None when that can't be told; 0 when nobody has it any more."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    layout = "hhqqi4x"
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return 0
    # -1 is an open file description lock, 0 a process of another PID namespace.
    return pid if pid > 0 else None


def is_elsewhere(identity: ProcessIdentity) -> bool:
    """Recorded by another PID namespace of this very boot, such as an earlier container."""
    place = here.place()
    if identity.host != place.host or identity.boot_id != place.boot_id:
        return False
    return identity.pid_ns is not None and identity.pid_ns != place.pid_ns


def is_our_number(recorded: ProcessIdentity, me: ProcessIdentity) -> bool:
    """The caller wrote it before it became us, or one before us had the PID that we have now."""
    is_here = recorded.host in (None, me.host) and recorded.pid_ns in (None, me.pid_ns)
    return recorded.pid == me.pid and is_here


def name_of(identity: ProcessIdentity) -> str:
    """A live process for people: its PID and what it calls itself."""
    if here.is_portable() or is_elsewhere(identity):
        return str(identity.pid)
    try:
        return f"{identity.pid} ({procfs.read_stat(identity.pid).comm})"
    except (ProcessGone, ProcessUnreadable):
        return str(identity.pid)


def what_to_do(identity: ProcessIdentity) -> str:
    """A hint for whoever is refused because nobody can tell."""
    if identity.host is not None and identity.host != here.place().host:
        return f"look at {identity.pid} on that host; remove the file when it is gone"
    return f"check it with `ps {identity.pid}`; remove the file when that is something else"
