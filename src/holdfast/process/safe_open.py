"""Opens files that others could have planted, so that nothing is read or replaced by mistake.

Refuses symbolic links, pipes and devices, files and directories of other users, and what any user
may write to. Opening never waits. Each refusal is UnsafeFile and says what to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from holdfast.errors import NotFound, Unavailable, UnsafeFile
from holdfast.process import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_LOOK_AT_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_OVERFLOW_UID = 65534  # /proc/sys/kernel/overflowuid; no system changes it
_BEYOND_SHELLS = 10  # scripts use descriptors 3 to 9 for their own redirections


def open_directory(path: str) -> int:
    """The directory, open: whatever is renamed meanwhile, all later steps happen in one place."""
    try:
        fd = os.open(path, _LOOK_AT_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no directory {path}", hint=f"mkdir -p {path}") from None
    except OSError as error:
        raise Unavailable(f"{path} can't be opened: {error.strerror}") from error
    try:
        _check_directory(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_plain_file(path: str, directory: int, mode: int) -> int | None:
    """An open descriptor of a file that no other user planted; None when there is no file.

    Looked at before, because opening a device can have effects, and again after the open.
    """
    name = os.path.basename(path)
    try:
        check_plain_file(path, os.stat(name, dir_fd=directory, follow_symlinks=False))
        return move_up(os.open(name, mode | OPEN_FLAGS, dir_fd=directory))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise unsafe(path, "is a symbolic link") from None
        unavailable(path, "can't be opened", error)


def create_file(path: str, directory: int, name: str) -> int:
    """A new file beside `path`; what has that name already is ours and is dropped."""
    try:
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            pass
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
        return move_up(os.open(name, flags, 0o644, dir_fd=directory))
    except OSError as error:
        unavailable(path, "can't be made", error)


def check_plain_file(path: str, found: os.stat_result) -> None:
    """UnsafeFile unless only we, or root, decide what the file says."""
    if stat.S_ISLNK(found.st_mode):
        raise unsafe(path, "is a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise unsafe(path, "is not a plain file")
    if found.st_uid not in (os.geteuid(), 0):
        raise unsafe(path, f"belongs to another user (uid {found.st_uid})")
    if found.st_mode & stat.S_IWOTH:
        raise unsafe(path, "can be written by everybody")


def move_up(fd: int) -> int:
    """The same file at a descriptor that no script uses. Before locking: closing would unlock."""
    try:
        higher = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _BEYOND_SHELLS)
    except OSError:  # a very low limit of descriptors
        return fd
    os.close(fd)
    return higher


def unsafe(path: str, what: str) -> UnsafeFile:
    """The error for a file that another user could have made."""
    return UnsafeFile(
        f"{path} {what}: somebody else could decide what it says",
        hint="look at it with `ls -l`; remove it, or use a path in a directory of your own",
        path=path,
    )


def unavailable(path: str, what: str, error: OSError) -> NoReturn:
    """The error for what the file system would not do."""
    raise Unavailable(
        f"{path} {what}: {error.strerror}",
        hint="use a directory that you can write to, on a local file system",
        path=path,
    ) from error


def _check_directory(path: str, found: os.stat_result) -> None:
    is_sticky = bool(found.st_mode & stat.S_ISVTX)
    is_trusted = found.st_uid in (os.geteuid(), 0) or (is_sticky and _is_nameless(found.st_uid))
    if not is_trusted:
        what = f"belongs to another user (uid {found.st_uid})"
    elif found.st_mode & stat.S_IWOTH and not is_sticky:
        what = "can be changed by everybody"
    else:
        return
    raise UnsafeFile(
        f"the directory {path} {what}: a pid file in it proves nothing",
        hint="use a directory of your own, such as $XDG_RUNTIME_DIR",
        path=path,
    )


def _is_nameless(uid: int) -> bool:
    """Whether that is the overflow uid: of every owner that our user namespace does not map.

    There the machine's root is nameless too, and so is the owner of /tmp.
    """
    if uid != _OVERFLOW_UID:
        return False
    table = procfs.read_or_none("self", "uid_map")
    if table is None:
        return False
    lines = map(bytes.split, table.splitlines())
    ranges = [(int(first), int(count)) for first, _, count in lines]
    return not any(first <= uid < first + count for first, count in ranges)
