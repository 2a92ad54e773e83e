"""Where this process stands: host, boot, PID namespace, clock offset, backend; its directories.

What names the place is read once: it can't change during a process's life, except by a fork into
new namespaces, after which a child reads it again. The current directory may have been removed, and
the user may have no home directory.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import ProcessGone, Unavailable, WrongUse
from holdfast.lean import sha256_hex
from holdfast.process import procfs
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import ProcessIdentity

# In the environment of all that a run starts.
STAMP = "HOLDFAST_RUN_ID"
STAMP_HOME = "HOLDFAST_RUN_HOME"  # where that run is: HOLDFAST_HOME may be set to another


class Place(Record):
    """What every identity that is captured or looked at here is compared with."""

    boot_id: str | None
    pid_ns: int | None
    is_portable: bool  # processes are seen through psutil: not Linux, or forced
    proc_is_ours: bool  # /proc shows our own PID namespace
    ticks_offset: int | None  # what our time namespace adds to shown start ticks; None: unknown

    @property
    def host(self) -> str:
        """8 hex digits that stand for this machine."""
        if not _hosts:
            _hosts.append(_host())
        return _hosts[0]


_places: list[Place] = []
_hosts: list[str] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_places.clear)
    os.register_at_fork(after_in_child=_hosts.clear)


def place() -> Place:
    """The answers, found at the first call."""
    if not _places:
        _places.append(_ask())
    return _places[0]


def take_host(host: str) -> None:
    """For a process whose parent has just found it out: what hashes it need not be loaded again."""
    _hosts[:] = [host]


def is_portable() -> bool:
    """Whether processes are seen through psutil."""
    return _places[0].is_portable if _places else _has_to_be_portable()


def is_elsewhere(identity: ProcessIdentity) -> bool:
    """Whether it was recorded in another PID namespace of this boot, such as a container's.

    Then nothing but the namespace keeps us from telling whether it is alive.
    """
    ours = (identity.host, identity.boot_id) == (place().host, place().boot_id)
    return ours and identity.pid_ns is not None and identity.pid_ns != place().pid_ns


def _has_to_be_portable() -> bool:
    forced = os.environ.get("HOLDFAST_PROCESS_BACKEND") == "portable"
    return forced or sys.platform != "linux" or not hasattr(os, "pidfd_open")


def _ask() -> Place:
    if _has_to_be_portable():
        return Place(None, None, True, False, None)
    try:
        return Place(
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
    return sha256_hex(name or os.uname().nodename.encode())[:8]


def absolute(path: str) -> str:
    """`os.path.abspath`; WrongUse where the path needs a current directory and there is none."""
    try:
        return os.path.abspath(path)
    except OSError as error:  # getcwd(2): ENOENT after an rmdir, EACCES below a closed directory
        raise WrongUse(
            f"the current directory can't be used: {error.strerror}; was it removed?",
            hint="go to one that exists, or use absolute paths (`run -C DIR`, cwd= in the library)",
        ) from error


def user_home() -> str | None:
    """The user's home directory; None where neither HOME nor the password database has one.

    Never a relative one: what is kept there would be somewhere else in each directory.
    """
    found = os.environ.get("HOME")
    if not found:
        import pwd

        try:
            found = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    return found if os.path.isabs(found) else None
