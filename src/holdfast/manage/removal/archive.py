"""Packs an ended run away: one tar.gz, then the run is removed as `rm` would remove it.

The archive holds the run's directory under its id. Unpacking it into `runs/` brings it back.
"""

from __future__ import annotations

import os
import stat

from holdfast.manage.removal.remove import Names, Removed, remove_run
from holdfast.manage.removal.sparse import add_trimmed
from holdfast.record import Record
from holdfast.run.atomic_files import make_directory, sync_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import Any

    from holdfast.manage.suspects import Suspects
    from holdfast.run.directory import RunDirectory

    Json = dict[str, Any]


class Archived(Record):
    """A run that is in an archive now."""

    removed: Removed
    path: str
    archive_bytes: int


def archive_run(
    directory: RunDirectory,
    *,
    suspects: Suspects | None = None,
    names: Names | None = None,
) -> Archived:
    """Pack the run and remove it; refused as a removal without `--force` would be."""
    path = archive_path(directory)

    def pack(checked: RunDirectory) -> None:
        _pack(checked, path)

    removed = remove_run(directory, suspects=suspects, names=names, before=pack)
    return Archived(removed, path, os.stat(path).st_size)


def archive_path(directory: RunDirectory) -> str:
    """Where the run's archive is, or will be."""
    return f"{directory.home.archive_path}/{directory.read_spec().name}-{directory.id}.tar.gz"


def _pack(directory: RunDirectory, path: str) -> None:
    import tarfile

    make_directory(directory.home.archive_path)
    temporary = f"{path}.{os.urandom(4).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                _add_all(archive, directory)
            file.flush()
            os.fsync(file.fileno())  # the original is about to go
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    sync_directory(directory.home.archive_path)


def _add_all(archive: tarfile.TarFile, directory: RunDirectory) -> None:
    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        # A trimmed log is stored without the hole at its head, and unpacked with it.
        trimmed = f"{directory.id}/output.log"
        if member.name == trimmed and add_trimmed(archive, member, directory.output_path):
            return None
        return _worth_keeping(member)

    archive.add(directory.path, arcname=directory.id, filter=keep)


def _worth_keeping(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and folders; a socket or pipe is of no use without its shim."""
    if not (member.isreg() or member.isdir()):
        return None
    member.mode = stat.S_IRWXU if member.isdir() else stat.S_IRUSR | stat.S_IWUSR
    return member
