"""Where this process stands: host, boot, PID namespace, clock offset, backend. Each asked once.

The answers can't change during a process's life, except by a fork into new namespaces: a child
asks again.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import ProcessGone, Unavailable
from holdfast.process import procfs
from holdfast.record import Record


class Place(Record):
    """What every identity that is captured or looked at here is compared with."""

    host: str  # 8 hex digits that stand for this machine
    boot_id: str | None
    pid_ns: int | None
    is_portable: bool  # processes are seen through psutil: not Linux, or forced
    proc_is_ours: bool  # /proc shows our own PID namespace
    ticks_offset: int | None  # what our time namespace adds to shown start ticks; None: unknown


_places: list[Place] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_places.clear)


def place() -> Place:
    """The answers, found at the first call."""
    if not _places:
        _places.append(_ask())
    return _places[0]


def is_portable() -> bool:
    """Whether processes are seen through psutil."""
    return _places[0].is_portable if _places else _has_to_be_portable()


def _has_to_be_portable() -> bool:
    forced = os.environ.get("HOLDFAST_PROCESS_BACKEND") == "portable"
    return forced or sys.platform != "linux" or not hasattr(os, "pidfd_open")


def _ask() -> Place:
    if _has_to_be_portable():
        return Place(_host(), None, None, True, False, None)
    try:
        return Place(
            _host(),
            procfs.boot_id(),
            procfs.pid_namespace(),
            False,
            procfs.shows_our_namespace(),
            procfs.start_ticks_offset(),
        )
    except ProcessGone as error:
        raise Unavailable(
            "/proc is not mounted here, or shows too little: no process can be told from another",
            hint="mount it (`mount -t proc proc /proc`), without subset=pid",
        ) from error


def _host() -> str:
    try:
        with open("/etc/machine-id", "rb") as file:
            name = file.read().strip()
    except OSError:
        name = b""
    return _sha256(name or os.uname().nodename.encode())[:8]


def _sha256(data: bytes) -> str:
    """hashlib loads OpenSSL, which costs every launch as much as `setsid -f` as a whole."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]  # 3.12+
        except ImportError:
            from hashlib import sha256
    return str(sha256(data).hexdigest())
