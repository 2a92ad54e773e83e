"""Writing files so that a death in the middle leaves the old or the new, never a half.

And opening those that another program could have replaced by something that is no file.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.errors import UnsafeFile
from holdfast.lean import json_text, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READ_BYTES = 64 * 1024
PLAIN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening waits for nothing, follows no link


def encode(document: Any) -> bytes:
    """Compact JSON in ASCII: arguments and paths may hold bytes that are not UTF-8."""
    return json_text(document).encode("ascii")


def write_all(fd: int, data: bytes) -> None:
    """Write everything, however many calls it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def atomic_write(path: str, data: bytes, *, sync: bool = False, mode: int = 0o600) -> None:
    """Replace the file as a whole. `sync`: it survives a power cut from here on."""
    temporary = f"{path}.{os.urandom(6).hex()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, mode)
    try:
        try:
            write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if sync:
        sync_directory(os.path.dirname(path))


def append_line(path: str, document: Any) -> None:
    """Add one JSON line with one write, so that writers need no lock."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        write_all(fd, encode(document) + b"\n")
    finally:
        os.close(fd)


def read_file(path: str, offset: int = 0) -> bytes:
    """All of a file from a byte on; cheaper than a file object where hundreds are read."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if offset:
            os.lseek(fd, offset, os.SEEK_SET)
        parts = [os.read(fd, _READ_BYTES)]
        while len(parts[-1]) == _READ_BYTES:
            parts.append(os.read(fd, _READ_BYTES))
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(fd)


def tail_of(path: str, size: int, most: int) -> bytes:
    """The last bytes of a file of that size."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, most, max(0, size - most))
    finally:
        os.close(fd)


def read_lines(path: str) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines; what a death or a full disk tore is left out."""
    try:
        with open(path, "rb") as file:
            return lines_in(file.read())
    except FileNotFoundError:
        return []


def lines_in(data: bytes) -> list[dict[str, Any]]:
    """The JSON objects among these lines; what a death or a full disk tore is left out."""
    documents = []
    for line in data.split(b"\n")[:-1]:
        try:
            document = read_json(str(line, "utf-8"))
        except ValueError:  # torn
            continue
        if isinstance(document, dict):
            documents.append(document)
    return documents


def open_plain(path: str, flags: int) -> int:
    """UnsafeFile for anything but a plain file. With PLAIN in `flags`, no FIFO is waited for."""
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _odd(path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _odd(path)
    return fd


def read_plain(path: str) -> bytes:
    """All of it, by `open_plain`; empty where there is no file."""
    try:
        fd = open_plain(path, os.O_RDONLY | PLAIN)
    except FileNotFoundError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _odd(path: str) -> UnsafeFile:
    return UnsafeFile(
        f"{path} is not a file that Holdfast wrote",
        hint=f"see who made it: ls -l {path}; then remove it",
        path=path,
    )


def make_directory(path: str) -> None:
    """Make a private directory, unless it is there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass


def remove_file(path: str) -> None:
    """Remove a file, unless it is gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync_directory(path: str) -> None:
    """Make the names in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
