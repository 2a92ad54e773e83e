"""A disk that answers, late: a FUSE file system that passes reads on to the directory below it.

    python -m tests.support.slow_disk DIRECTORY HOLD COMMAND...

mounts it there, in the mount namespace that we are in, runs the command and takes it away again.
No request is answered while there is a file HOLD, and nothing is cached. It can't be written to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_LOCK = struct.Struct("<QQII")  # start, end, type, pid
_FLOCK = struct.Struct("hhqqi4x")  # the kernel's own: type, whence, start, length, pid
_FORGET, _RELEASE, _INTERRUPT, _BATCH_FORGET = 2, 18, 36, 42
_UNANSWERED = (_FORGET, _INTERRUPT, _BATCH_FORGET)
_POSIX_LOCKS, _DIRECT_IO = 2, 1


class SlowDisk:
    """Answers the kernel; `root` is the directory below, opened before it was covered."""

    def __init__(self, root: int, wait: Callable[[], None]) -> None:
        self._root, self._wait = root, wait
        self._paths = {1: "."}
        self._nodes = {".": 1}
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._look_up,
            3: lambda node, _: struct.pack("<QII", 0, 0, 0) + self._attributes(node),
            14: self._open,
            15: lambda _, body: os.pread(*_read_of(body)),
            _RELEASE: self._release,
            26: self._begin,
            27: self._open,
            28: self._list,
            29: self._release,
            31: self._lock,
        }

    def serve(self, device: int) -> None:
        """Until it is unmounted."""
        while True:
            try:
                request = os.read(device, 1 << 17)
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EINTR, errno.ENOENT):  # not mounted yet
                    time.sleep(0.01)
                    continue
                return
            _, opcode, unique, node, *_ = _HEADER.unpack_from(request)
            if opcode in _UNANSWERED:
                continue
            self._wait()
            code, body = self._answer(opcode, node, request[_HEADER.size :])
            with contextlib.suppress(OSError):  # the one who asked is gone
                os.write(device, struct.pack("<IiQ", 16 + len(body), -code, unique) + body)

    def _answer(self, opcode: int, node: int, body: bytes) -> tuple[int, bytes]:
        if opcode not in self._answers:
            return errno.ENOSYS, b""
        try:
            return 0, self._answers[opcode](node, body)
        except OSError as error:
            return error.errno or errno.EIO, b""

    def _begin(self, node: int, body: bytes) -> bytes:
        del node, body
        given = (7, 31, 4096, _POSIX_LOCKS, 16, 12, 4096, 1, 1, 0, 0)
        return struct.pack("<IIIIHHIIHHI28x", *given)

    def _stat(self, path: str) -> os.stat_result:
        return os.stat(path, dir_fd=self._root, follow_symlinks=False)

    def _attributes(self, node: int) -> bytes:
        found = self._stat(self._paths[node])
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        return _ATTRIBUTES.pack(
            *(found.st_ino, found.st_size, found.st_blocks),
            *(one // 10**9 for one in times),
            *(one % 10**9 for one in times),
            *(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0),
        )

    def _look_up(self, node: int, body: bytes) -> bytes:
        name = os.fsdecode(body.rstrip(b"\0"))
        path = f"{self._paths[node]}/{name}"
        self._stat(path)
        number = self._nodes.setdefault(path, len(self._nodes) + 1)
        self._paths[number] = path
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self._attributes(number)

    def _open(self, node: int, body: bytes) -> bytes:
        del body
        found = os.open(self._paths[node], os.O_RDONLY | os.O_NONBLOCK, dir_fd=self._root)
        return struct.pack("<QII", found, _DIRECT_IO, 0)

    def _release(self, node: int, body: bytes) -> bytes:
        del node
        os.close(struct.unpack_from("<Q", body)[0])
        return b""

    def _list(self, node: int, body: bytes) -> bytes:
        del node
        fd, size, offset = _read_of(body)
        listed = b""
        for place, entry in enumerate(sorted(os.scandir(fd), key=lambda one: one.name)):
            name = os.fsencode(entry.name)
            kind = (stat.S_IFDIR if entry.is_dir(follow_symlinks=False) else stat.S_IFREG) >> 12
            one = struct.pack("<QQII", entry.inode(), place + 1, len(name), kind) + name
            one += b"\0" * (-len(one) % 8)
            if place >= offset and len(listed) + len(one) <= size:
                listed += one
            elif place >= offset:
                break
        return listed

    def _lock(self, node: int, body: bytes) -> bytes:
        """Whether another process holds it, below."""
        del node
        fd, _, start, end, kind, _ = struct.unpack_from("<QQQQII", body)
        length = 0 if end >= 2**63 - 1 else end - start + 1
        asked = _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
        found, *_ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))
        return _LOCK.pack(start, end, found, 0)


def _read_of(body: bytes) -> tuple[int, int, int]:
    fd, offset, size = struct.unpack_from("<QQI", body)
    return fd, size, offset


@contextlib.contextmanager
def slow_disk(path: str, wait: Callable[[], None]) -> Iterator[None]:
    """That directory, read-only; each request waits first. Raises OSError without FUSE."""
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    server = os.fork()
    if server == 0:
        try:
            SlowDisk(root, wait).serve(device)
        finally:
            os._exit(0)
    os.close(root)
    options = f"fd={device},rootmode=40700,user_id={os.getuid()},group_id={os.getgid()},ro"
    command = ["mount", "-i", "-t", "fuse", "-o", options, "none", path]
    done = subprocess.run(command, check=False, capture_output=True, pass_fds=[device], timeout=30)
    os.close(device)
    try:
        if done.returncode:
            os.kill(server, signal.SIGKILL)
            raise OSError(errno.ENODEV, done.stderr.decode(errors="replace"))
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=False, capture_output=True, timeout=30)
        os.waitpid(server, 0)


def main(words: list[str]) -> int:
    path, hold, *command = words

    def wait() -> None:
        while os.path.exists(hold):
            time.sleep(0.01)

    with slow_disk(path, wait):
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
