"""Which processes of this machine hold one end of a TCP connection.

The kernel's table names the socket by its inode, and the descriptors of a process the sockets that
it holds. Those of other users, and of other network namespaces, are not found.
"""

from __future__ import annotations

import os
import socket

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.identity import hold_pid
from holdfast.process.proc_files import ProcessFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import ProcessIdentity

    Address = tuple[str, int]

_MOST_TABLE_BYTES = 16 << 20
_MOST_DESCRIPTORS = 100_000


def processes_at(local: Address, remote: Address) -> list[ProcessIdentity]:
    """Those that hold the socket whose own address is `local`; often one, or none that we see."""
    tables = ProcessFiles(os.getpid()).connection_tables(_MOST_TABLE_BYTES)
    ends = zip(_written(*local), _written(*remote), strict=True)
    inode = next((found for end in ends if (found := _inode(tables, *end))), None)
    if inode is None:
        return []
    return [one for pid in procfs.all_pids() if (one := _holder(pid, inode)) is not None]


def _holder(pid: int, inode: int) -> ProcessIdentity | None:
    if inode not in (ProcessFiles(pid).socket_inodes(_MOST_DESCRIPTORS) or ()):
        return None
    try:
        with hold_pid(pid) as held:
            # Looked at again: the number may have become another's before it was held.
            holds = inode in (ProcessFiles(pid).socket_inodes(_MOST_DESCRIPTORS) or ())
            return held.identity if holds and not held.has_exited() else None
    except HoldfastError:
        return None


def _written(host: str, port: int) -> tuple[bytes, bytes]:
    """An address as the tables have it: as IPv4 and as the same in IPv6; of IPv6 twice that."""
    if ":" not in host:
        plain = socket.inet_pton(socket.AF_INET, host)
        return _hex(plain, port), _hex(b"\0" * 10 + b"\xff\xff" + plain, port)
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    is_mapped = packed.startswith(b"\0" * 10 + b"\xff\xff")
    return _hex(packed[12:] if is_mapped else packed, port), _hex(packed, port)


def _hex(packed: bytes, port: int) -> bytes:
    words = (packed[at : at + 4][::-1] for at in range(0, len(packed), 4))  # the host's order
    return b"".join(words).hex().upper().encode() + b":%04X" % port


def _inode(tables: list[bytes], local: bytes, remote: bytes) -> int | None:
    """The socket with these addresses, as the tables write them; None: there is none."""
    for table in tables:
        for line in table.split(b"\n")[1:]:
            field = line.split(None, 10)
            if len(field) > 9 and field[1] == local and field[2] == remote:
                return int(field[9]) or None
    return None
