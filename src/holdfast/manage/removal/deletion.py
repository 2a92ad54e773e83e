"""Deletes what was taken out of a home, and counts what it took of the disk. Follows no link.

Everything happens below one open directory, which is seen to be ours: a link that was put
somewhere on the way is removed, or stays, and nothing behind it is touched.
"""

from __future__ import annotations

import os
import stat

from holdfast.run.atomic_files import make_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def take_out(home: Home, path: str) -> str:
    """One rename: from here on it is not there. The name that it has in `removed`."""
    make_directory(home.removed_path)
    removed = f"{os.path.basename(path)}.{os.urandom(4).hex()}"
    os.rename(path, f"{home.removed_path}/{removed}")
    return removed


def delete(home: Home, name: str) -> None:
    """Delete what has that name in `removed`; what is left is swept up by the next one."""
    import shutil

    try:
        removed = os.open(home.removed_path, _FLAGS)
    except OSError:  # not there, or a link
        return
    try:
        if os.fstat(removed).st_uid != os.geteuid():
            return
        found = os.stat(name, dir_fd=removed, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=removed)
        else:
            os.unlink(name, dir_fd=removed)
    except OSError:  # the next removal tries again
        pass
    finally:
        os.close(removed)


def size_of(path: str) -> int:
    """How much of the disk a directory takes; a link to one takes nothing."""
    if os.path.islink(path):
        return 0
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(f"{folder}/{name}").st_blocks * 512
            except OSError:  # removed meanwhile
                continue
    return total
