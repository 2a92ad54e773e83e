"""Where connections that commands share are kept: a private directory with a short name."""

from __future__ import annotations

import os
import stat

from holdfast.errors import Unavailable
from holdfast.run.atomic_files import make_directory

_LONGEST_SOCKET_PATH = 100


def socket_folder(engine: str) -> str:
    """A directory of our own with a short name: the path of a socket has little room."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base) and len(base) < _LONGEST_SOCKET_PATH // 2 and os.path.isdir(base):
        path = f"{base}/holdfast-{engine}"
    else:
        path = f"/tmp/holdfast-{engine}-{os.geteuid()}"
    make_directory(path)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Unavailable(
            f"{path} is not a private directory of ours", hint="see who made it, and remove it"
        )
    return path
