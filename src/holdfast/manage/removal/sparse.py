"""Puts a file with a hole at its head into a tar archive, without the hole.

The standard library reads such members and writes none: here is the header of GNU tar's format
(type `S`), which GNU tar, bsdtar and Python unpack with the hole in place.
"""

from __future__ import annotations

import os

from holdfast.run.output import first_byte

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile
    from typing import IO, Any

_SPARSE = b"S"
_CHECKSUM, _TYPE, _MAP, _REAL_SIZE = 148, 156, 386, 483  # where they are in the header
_CHUNK_BYTES = 256 << 10
_LARGEST = 8**11  # bytes: what a field of octal digits holds


def add_trimmed(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bool:
    """Add a regular file that begins with a hole; False: it does not, or is too long for this."""
    import tarfile

    if not member.isreg() or member.size >= _LARGEST:
        return False
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
        hole = first_byte(file.fileno())
        if hole == 0 or hole >= member.size:
            return False
        real_size, member.size, member.mode = member.size, member.size - hole, 0o600
        header = bytearray(member.tobuf(tarfile.GNU_FORMAT, archive.encoding or "utf-8"))
        if len(header) != tarfile.BLOCKSIZE:
            member.size = real_size
            return False
        _describe_hole(header, hole, real_size)
        file.seek(hole)
        assert archive.fileobj is not None
        archive.fileobj.write(bytes(header))
        _copy(file, archive.fileobj, member.size)
        _pad(archive, member.size, tarfile.BLOCKSIZE)
    return True


def _describe_hole(header: bytearray, hole: int, real_size: int) -> None:
    header[_TYPE : _TYPE + 1] = _SPARSE
    header[_MAP : _MAP + 24] = b"%011o\0%011o\0" % (hole, real_size - hole)
    header[_REAL_SIZE : _REAL_SIZE + 12] = b"%011o\0" % real_size
    header[_CHECKSUM : _CHECKSUM + 8] = b" " * 8
    header[_CHECKSUM : _CHECKSUM + 8] = b"%06o\0 " % sum(header)


def _copy(file: IO[bytes], target: Any, size: int) -> None:
    while size:
        data = file.read(min(size, _CHUNK_BYTES))
        if not data:
            raise OSError("the log became shorter while it was packed")
        target.write(data)
        size -= len(data)


def _pad(archive: tarfile.TarFile, size: int, block: int) -> None:
    assert archive.fileobj is not None
    rest = -size % block
    archive.fileobj.write(bytes(rest))
    archive.offset += block + size + rest
