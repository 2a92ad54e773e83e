"""Which kind of file system a device is, as the mount table tells it: cheaper than statfs."""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import procfs


def file_system_of(device: int) -> str | None:
    """The type of the mounted file system with that st_dev; None: not in the table.

    A btrfs subvolume, and a mount outside a chroot, are not listed under their st_dev.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        table = procfs.read("self", "mountinfo")
    except HoldfastError:
        return None
    for line in table.splitlines():
        mount, _, kind = line.partition(b" - ")
        if mount.split(b" ", 3)[2] == wanted:
            return kind.split(b" ", 1)[0].decode(errors="replace")
    return None
