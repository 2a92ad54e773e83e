"""System calls that Python does not offer: the only file that uses ctypes.

Every function raises OSError as the os module would; ENOSYS where the system has no such call.
It knows numbers and structures of the kernel, and nothing of Holdfast.
"""

from __future__ import annotations

import errno
import os

# The core of ctypes without its package, whose import every launch and every shim would pay for.
from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_USE_ERRNO,
    CFuncPtr,
    _SimpleCData,
    dlopen,
    dlsym,
    get_errno,
)
from sys import byteorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    WatchEvent = tuple[int, str, bool]  # the watch's number, a name in it, whether it is gone

_libc = dlopen(None, 0)  # type: ignore[arg-type]  # this program and its libraries


class _Int(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Int64(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "q"


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Int


_PR_SET_CHILD_SUBREAPER = 36
_CLOCK_REALTIME = 0
_CLOCK_BOOTTIME = 7
_TFD_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK
_TFD_TIMER_ABSTIME = 1
_FILEID_KERNFS = 254  # the handle type that pidfs understands
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2
_IN_MODIFY = 0x2
_IN_CLOSE_WRITE = 0x8
_IN_MOVED_FROM = 0x40
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_DELETE = 0x200
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_OF_FILES = _IN_MODIFY | _IN_CLOSE_WRITE
_IN_OF_DIRECTORIES = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE
_INOTIFY_EVENT_BYTES = 16  # four numbers: watch, mask, cookie, length of the name
_IN_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK


_functions: dict[str, Any] = {}  # those that were called


def _call(name: str, *arguments: Any) -> int:
    function = _functions.get(name)
    if function is None:
        try:
            function = _functions[name] = _Function(dlsym(_libc, name))
        except OSError:
            raise OSError(errno.ENOSYS, f"{name} is not available on this system") from None
    while True:
        result = int(function(*arguments))
        if result >= 0:
            return result
        failed = get_errno()
        if failed != errno.EINTR:
            raise OSError(failed, os.strerror(failed))


def set_child_subreaper() -> None:
    """Orphaned descendants become children of this process instead of PID 1's."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pidfd_by_inode(any_pidfd: int, inode: int) -> int:
    """Open a pidfd from its inode alone; works across PID namespaces (Linux 6.14+).

    ESTALE: no process that *this namespace may see* has that inode any more.
    """
    head = (8).to_bytes(4, byteorder) + _FILEID_KERNFS.to_bytes(4, byteorder)
    flags = os.O_RDWR | os.O_CLOEXEC
    return _call("open_by_handle_at", any_pidfd, head + inode.to_bytes(8, byteorder), flags)


def boottime_timer() -> int:
    """A timer descriptor on CLOCK_BOOTTIME, which goes on while the machine sleeps."""
    return _call("timerfd_create", _CLOCK_BOOTTIME, _TFD_CLOEXEC_NONBLOCK)


def wall_timer() -> int:
    """A timer descriptor on CLOCK_REALTIME: a step of the clock brings its instant nearer."""
    return _call("timerfd_create", _CLOCK_REALTIME, _TFD_CLOEXEC_NONBLOCK)


def arm_timer(timer_fd: int, at: float | None) -> None:
    """Make the timer readable at that instant of its clock; None disarms it.

    Of CLOCK_BOOTTIME it is the instant of our namespace.
    """
    seconds, nanoseconds = 0, 0
    if at is not None:
        # All zero would disarm: an instant in the past must still fire at once.
        seconds, nanoseconds = divmod(max(1, int(at * 1e9)), 1_000_000_000)
    setting = bytes(16) + seconds.to_bytes(8, byteorder) + nanoseconds.to_bytes(8, byteorder)
    _call("timerfd_settime", timer_fd, _TFD_TIMER_ABSTIME, setting, None)


def watch_modifications(path: str) -> int:
    """A descriptor that becomes readable when the file is written to."""
    fd = open_watch()
    try:
        add_to_watch(fd, path)
    except OSError:
        os.close(fd)
        raise
    return fd


def open_watch() -> int:
    """A descriptor that becomes readable when any of the paths that are added to it changes."""
    return _call("inotify_init1", _IN_CLOEXEC_NONBLOCK)


def add_to_watch(fd: int, path: str) -> int:
    """Wake when the file is written to, or a writer closes it, as it does when it dies; when a name
    comes into the directory or goes. Its number."""
    wanted = _IN_OF_DIRECTORIES if os.path.isdir(path) else _IN_OF_FILES
    return _call("inotify_add_watch", fd, os.fsencode(path), wanted)


def remove_from_watch(fd: int, number: int) -> None:
    """Remove the watch with that number."""
    _call("inotify_rm_watch", fd, number)


def read_watch(data: bytes) -> list[WatchEvent] | None:
    """What was read from such a descriptor; None: the queue overflowed, events were lost."""
    events, at = [], 0
    while at < len(data):
        head = memoryview(data)[at : at + _INOTIFY_EVENT_BYTES]
        number, mask, _, length = head.cast("i")
        at += _INOTIFY_EVENT_BYTES + length
        if mask & _IN_Q_OVERFLOW:
            return None
        name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
        events.append((number, name, bool(mask & _IN_IGNORED)))
    return events


def reserve_room(fd: int, offset: int, length: int) -> None:
    """Reserve disk blocks beyond the end of a file without changing its size."""
    _call(
        "fallocate64",
        fd,
        _FALLOC_FL_KEEP_SIZE,
        _Int64(offset),
        _Int64(length),
    )


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Give a range's blocks back to the disk; byte offsets of the rest don't move."""
    mode = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    _call("fallocate64", fd, mode, _Int64(offset), _Int64(length))


def file_system_magic(path: str) -> int:
    """The file system's type number (f_type of statfs)."""
    import ctypes  # rarely needed, and takes a buffer to be written to

    buffer = ctypes.create_string_buffer(256)
    _call("statfs", os.fsencode(path), buffer)
    return int.from_bytes(buffer.raw[:8], byteorder) & 0xFFFFFFFF
