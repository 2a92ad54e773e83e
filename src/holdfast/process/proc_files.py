"""The files of one process in /proc: some kept open, the others opened for one read.

A kept descriptor is bound to one process: it never follows a recycled PID, and gives ESRCH once
the process is reaped. What is opened by number is about the process if that has not ended after
the read: the caller, which holds it, proves that. What can't be read is None. No file that is read
here takes the process's memory lock, which a hung process may hold for ever, except for
`pss_bytes` and the command line: those are left alone while it is in disk sleep.
"""

from __future__ import annotations

import os

from holdfast.errors import ProcessUnreadable
from holdfast.process import procfs
from holdfast.process.procfs import ProcStat, parse_stat
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

WALKED = ("stat", "children")  # what a walk reads of each member
SAMPLED = ("status", "io", "oom_score")  # what a full sample reads on top
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_CLOEXEC
_STAT_BYTES, _STATUS_BYTES, _COMMAND_BYTES = 2048, 8192, 131072
_VFORK_CHANNELS = ("kernel_clone", "wait_for_vfork_done", "_do_fork", "do_fork")
_NEARLY_A_PAGE = 3800  # what one read gives for sure
_ESTABLISHED = b"01"
_STATUS = len(WALKED)  # its place among what is kept
_COMPARED = (len(WALKED), len(WALKED + SAMPLED))  # of a wrapper, and of what a full sample has read
_QUEUE_BYTES = 64  # the longest line of queued signals


class Budget:
    """The descriptors of one tree. A pidfd always finds room, and takes it from files if need be.

    A file that finds none is opened for each read instead.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self._keepers: dict[ProcessFiles, None] = {}  # in the order in which they began to keep

    def has_room_for(self, count: int) -> bool:
        """Whether that many files may be kept open."""
        return self._used + count <= self.most

    def count_files(self, files: ProcessFiles, more: int) -> None:
        """Count files that were opened (or, negative, closed)."""
        self._used += more
        if more > 0:
            self._keepers[files] = None
        else:
            self._keepers.pop(files, None)

    def count_pidfd(self, more: int) -> None:
        """One more is held, or one less."""
        self._used += more
        while self._used > self.most and self._keepers:
            next(reversed(self._keepers)).close()


class ProcStatus(Record):
    """From status."""

    swap_bytes: int | None
    peak_rss_bytes: int | None  # since its last exec
    pending: int | None  # SigPnd and ShdPnd: signals sent to the process are in the second
    blocked: int | None
    caught: int | None
    switches: int | None  # voluntary ones
    involuntary_switches: int | None


_MASKS = b"\nSigPnd:\t"
_NO_STATUS = ProcStatus(None, None, None, None, None, None, None)


class Transfer(Record):
    """From io. The kernel adds a child's numbers to its parent's when it is waited for."""

    chars: int  # through read and write calls, pipes and terminals too
    read_bytes: int  # from and to the storage
    write_bytes: int


def parse_status(text: bytes) -> ProcStatus:
    """The parts of a status file that are wanted."""
    at = text.find(_MASKS)
    if at < 0:
        return _NO_STATUS
    swap, peak = _number(text, b"\nVmSwap:"), _number(text, b"\nVmHWM:")
    # SigPnd, ShdPnd, SigBlk, SigIgn, SigCgt: five lines of one width, in this order.
    own, blocked, caught = at + 9, at + 59, at + 109
    pending = int(text[own : own + 16], 16) | int(text[own + 25 : own + 41], 16)
    return ProcStatus(
        None if swap is None else swap * 1024,
        None if peak is None else peak * 1024,
        pending,
        int(text[blocked : blocked + 16], 16),
        int(text[caught : caught + 16], 16),
        _number(text, b"\nvoluntary_ctxt_switches:", caught),
        _number(text, b"\nnonvoluntary_ctxt_switches:", caught),
    )


def established_inodes(tables: list[bytes]) -> set[int]:
    """The sockets that have a peer, from tables of connections (/proc/<pid>/net/tcp)."""
    found = set()
    for table in tables:
        for line in table.split(b"\n")[1:]:
            field = line.split(None, 10)
            if len(field) > 9 and field[3] == _ESTABLISHED:
                found.add(int(field[9]))
    return found


class ProcessFiles:
    """The files of the process with that number. No method raises because it is gone."""

    __slots__ = (
        "_budget",
        "_fd_limit",
        "_kept",
        "_line",
        "_network",
        "_pid",
        "_place",
        "_shown",
        "_stat",
        "_status",
        "_status_text",
    )

    def __init__(self, pid: int, budget: Budget | None = None) -> None:
        self._pid = pid
        self._place = f"/proc/{pid}/"
        self._budget = budget
        self._kept: dict[str, int] = {}
        # Most processes of a tree idle: the same text again needs no second parse.
        self._line = self._status_text = b""
        self._stat: ProcStat | None = None
        self._status = _NO_STATUS
        self._shown: list[object] | None = None  # at the last `shows_the_same`
        self._fd_limit: int | None = None
        self._network: int | None = None

    def keep(self, names: tuple[str, ...]) -> bool:
        """Keep these open, if there is room. True: the caller has to prove whose they are."""
        if self._budget is None or not self._budget.has_room_for(len(names)):
            return False
        before = len(self._kept)
        try:
            for name in names:
                self._kept[name] = os.open(self._path(name), _FILE)
        except OSError:
            pass  # another user's, an older kernel's, or gone: each read says None by itself
        opened = len(self._kept) - before
        self._budget.count_files(self, opened)
        return opened > 0

    def keeps(self, name: str) -> bool:
        """Whether that file is kept open."""
        return name in self._kept

    def close(self) -> None:
        """Give the kept descriptors back."""
        for fd in self._kept.values():
            os.close(fd)
        if self._budget is not None:
            self._budget.count_files(self, -len(self._kept))
        self._kept = {}

    def stat(self) -> ProcStat | None:
        """One read of stat; None when the process is gone or hidden."""
        line = self._read("stat", _STAT_BYTES)
        if line is None:
            return None
        if line != self._line:
            try:
                self._stat, self._line = parse_stat(line), line
            except ProcessUnreadable:
                return None
        return self._stat

    def threads(self) -> int | None:
        """How many it has; None when it is gone. To be proven: it is read by number."""
        try:
            return os.stat(self._place + "task").st_nlink - 2
        except OSError:
            return None

    def children(self, threads: int) -> list[int] | None:
        """Children of *every* one of its threads, zombies too; None: they could not be seen.

        A thread that ends hands its children to another one: those of a single thread are all.
        """
        if threads > 1 or "children" not in self._kept:
            return procfs.children(self._pid)
        text = self._read("children", 2 * _NEARLY_A_PAGE)
        if text is None:  # it was reaped: what it left has gone to another
            return []
        if len(text) >= _NEARLY_A_PAGE:
            return procfs.children(self._pid)
        return [int(child) for child in text.split()] if text else []

    def shows_the_same(self) -> bool:
        """Whether all that a sample takes from here is, byte for byte, as at the last call.

        False where a part is missing or too long. What is read by number comes first: as the kept
        files still answer after that, the number was its own.
        """
        before, self._shown = self._shown, None
        stat, kept = self._stat, self._kept
        if stat is None or len(kept) not in _COMPARED:
            return False
        try:
            # The kept file has the children of its first thread.
            shown: list[object] = [procfs.children(self._pid)] if stat.threads > 1 else []
            if len(kept) > len(WALKED):
                shown += (os.stat(self._place + "fd").st_size, os.readlink(self._place + "cwd"))
                if not shown[-2]:
                    return False  # before Linux 6.2: they would have to be listed
            texts = [os.pread(fd, _NEARLY_A_PAGE, 0) for fd in kept.values()]
        except OSError:
            return False
        if len(texts) > _STATUS:  # the queued signals in it are those of all the user's processes
            before_them, _, after = texts[_STATUS].partition(b"\nSigQ:")
            texts[_STATUS] = before_them + after[after.find(b"\n") :]
        if max(map(len, texts)) < _NEARLY_A_PAGE - _QUEUE_BYTES:
            shown += texts
            self._shown = shown
        return before is not None and before == self._shown

    def status(self) -> ProcStatus:
        """Swap, signals and context switches."""
        text = self._read("status", _STATUS_BYTES) or b""
        if text != self._status_text:
            self._status, self._status_text = parse_status(text), text
        return self._status

    def transfer(self) -> Transfer | None:
        """What it read and wrote; None for a process of another user."""
        text = self._read("io", 512)
        if text is None:
            return None
        word = text.split(None, 12)
        if len(word) < 12 or word[10] != b"write_bytes:":
            return None
        return Transfer(int(word[1]) + int(word[3]), int(word[9]), int(word[11]))

    def oom_score(self) -> int | None:
        """The kernel ends the process with the highest first."""
        text = self._read("oom_score", 32)
        return int(text) if text else None

    def wait_channel(self) -> str | None:
        """The kernel function that it sleeps in; None where that is hidden or it runs."""
        name = (self._read("wchan", 128) or b"").decode("ascii", "replace").strip()
        return name if name not in ("", "0") else None

    def waits_for_vfork(self) -> bool:
        """Whether it sleeps until its vfork child execs: harmless, though it looks like a hang."""
        return self.wait_channel() in _VFORK_CHANNELS

    def open_files(self) -> int | None:
        """How many descriptors it has; None for a zombie or another user's."""
        try:
            count = os.stat(self._path("fd")).st_size
            return count or len(os.listdir(self._path("fd")))  # before Linux 6.2 it was always 0
        except OSError:
            return None

    def fd_limit(self, *, again: bool = False) -> int | None:
        """The soft limit of descriptors. It changes rarely: read once, or `again`."""
        if again or self._fd_limit is None:
            text = self._read("limits", 4096) or b""
            at = text.find(b"Max open files")
            value = text[at + 14 :].split(None, 1)[0] if at >= 0 else b""
            self._fd_limit = int(value) if value.isdigit() else None
        return self._fd_limit

    def network_namespace(self) -> int | None:
        """The inode of its network namespace; read once."""
        if self._network is None:
            try:
                self._network = os.stat(self._path("ns/net")).st_ino
            except OSError:
                return None
        return self._network

    def socket_inodes(self, most: int) -> set[int] | None:
        """The sockets among its descriptors; None when there are too many to look at."""
        try:
            fd = os.open(self._path("fd"), _DIRECTORY)
        except OSError:
            return None
        try:
            names = os.listdir(fd)
            return _sockets(names, fd) if len(names) <= most else None
        except OSError:
            return None
        finally:
            os.close(fd)

    def connection_tables(self, most_bytes: int) -> list[bytes]:
        """/proc/net/tcp and tcp6 of its network namespace: of all its processes, not its own."""
        return [self._read(name, most_bytes) or b"" for name in ("net/tcp", "net/tcp6")]

    def pss_bytes(self) -> int | None:
        """Memory, a shared page split among the processes that share it. Takes 40 us and more."""
        pss = _number(self._read("smaps_rollup", 4096) or b"", b"\nPss:")
        return None if pss is None else pss * 1024

    def has_deleted_directory(self) -> bool | None:
        """Whether its working directory was removed; None where we may not look."""
        directory = self._path("cwd")
        path = _link(directory)
        if not path:
            return None
        if not path.endswith(" (deleted)"):
            return False
        try:
            # A directory may really be called that: a removed one has no link left.
            return os.stat(directory).st_nlink == 0 or not os.path.exists(path)
        except OSError:
            return None

    def executable(self) -> str | None:
        """The path of the program that it runs; None where we may not look."""
        return _link(self._path("exe")) or None

    def command_line(self) -> tuple[str, ...]:
        """Its argv; empty for a zombie. Takes the memory lock: not for one in disk sleep."""
        text = self._read("cmdline", _COMMAND_BYTES) or b""
        return tuple(w.decode(errors="surrogateescape") for w in text.split(b"\0")[:-1])

    def stdout(self) -> tuple[int, int] | None:
        """Device and inode of its stdout."""
        try:
            found = os.stat(self._path("fd/1"))
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def control_groups(self) -> bytes:
        """/proc/<pid>/cgroup."""
        return self._read("cgroup", 8192) or b""

    def _path(self, name: str) -> str:
        if name == "children":  # of its first thread
            name = f"task/{self._pid}/children"
        return self._place + name

    def _read(self, name: str, most: int) -> bytes | None:
        """A /proc file that goes on gives a page, less what did not fit: a shorter part ends it."""
        kept = self._kept.get(name)
        try:
            fd = os.open(self._path(name), _FILE) if kept is None else kept
            try:
                text = part = os.pread(fd, most, 0)
                while len(part) >= _NEARLY_A_PAGE and len(text) < most:
                    part = os.pread(fd, most - len(text), len(text))
                    text += part
                return text
            finally:
                if kept is None:
                    os.close(fd)
        except OSError:
            return None


def _sockets(names: Iterable[str], directory: int) -> set[int]:
    links = (_link(name, directory) for name in names)
    return {int(target[8:-1]) for target in links if target.startswith("socket:[")}


def _link(path: str, directory: int | None = None) -> str:
    try:
        return os.readlink(path, dir_fd=directory)
    except OSError:
        return ""


def _number(text: bytes, name: bytes, start: int = 0) -> int | None:
    at = text.find(name, start)
    if at < 0:
        return None
    value = text[at + len(name) : at + len(name) + 24].split(None, 1)[0]
    return int(value) if value.isdigit() else None
