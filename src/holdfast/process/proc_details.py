"""What one process uses, read from /proc through descriptors that are kept open.

A descriptor of a /proc file is bound to one process: it never follows a recycled PID, and says
ESRCH once the process is reaped. Knows paths and field names; what can't be read is None. None
of the files read here takes the process's memory lock, which a hung process may hold for ever,
except `pss_bytes` and the command line: those are left alone while it is in disk sleep.
"""

from __future__ import annotations

import os

from holdfast.process.procfs import STATES, ProcessState
from holdfast.record import Record

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_CLOEXEC
_KEPT = ("status", "io", "oom_score")  # beside stat: read for every full sample
_STAT_BYTES, _STATUS_BYTES, _COMMAND_BYTES = 2048, 8192, 131072
_VFORK_CHANNELS = ("kernel_clone", "wait_for_vfork_done", "_do_fork", "do_fork")
_NEARLY_A_PAGE = 3800
_LEADING_FIELDS = 26  # as far as startstack; the rest of a stat line is not split
_SHOWN_STACK = 1  # the kernel shows 0 or 1 to those who may not see the address

DESCRIPTORS_EACH = 3 + len(_KEPT)  # with the directory, stat and the children


class Basics(Record):
    """The cheap part: one read of stat."""

    comm: str
    state: ProcessState
    ppid: int
    start_ticks: int  # as shown in the reader's time namespace
    cpu_ticks: int  # user and system time of all its threads, dead ones too
    waited_ticks: int  # the same of its children, once it has waited for them
    threads: int
    rss_bytes: int
    stack_start: int | None


class Memory(Record):
    """From status."""

    swap_bytes: int | None
    peak_rss_bytes: int | None  # since its last exec
    signals_pending: int | None  # SigPnd and ShdPnd: those sent to the process are in the second
    signals_blocked: int | None
    signals_caught: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None


_MASKS = b"\nSigPnd:\t"
_NO_MEMORY = Memory(None, None, None, None, None, None, None)


class Transfer(Record):
    """From io. The kernel adds a child's numbers to its parent's when it is waited for."""

    chars: int  # through read and write calls, pipes and terminals too
    read_bytes: int  # from and to the storage
    write_bytes: int


def parse_basics(line: bytes) -> Basics:
    """A stat line. The name is anything up to the *last* ')': it may hold any byte."""
    opening, closing = line.index(b"("), line.rindex(b")")
    field = line[closing + 2 :].split(b" ", _LEADING_FIELDS)
    stack = int(field[25])
    return Basics(
        line[opening + 1 : closing].decode(errors="backslashreplace"),
        STATES.get(field[0].decode(), ProcessState.UNKNOWN),
        int(field[1]),
        int(field[19]),
        int(field[11]) + int(field[12]),
        int(field[13]) + int(field[14]),
        int(field[17]),
        int(field[21]) * PAGE_BYTES,
        stack if stack > _SHOWN_STACK else None,
    )


def parse_memory(text: bytes) -> Memory:
    """The parts of a status file that are wanted."""
    at = text.find(_MASKS)
    if at < 0:
        return _NO_MEMORY
    swap, peak = _number(text, b"\nVmSwap:"), _number(text, b"\nVmHWM:")
    # SigPnd, ShdPnd, SigBlk, SigIgn, SigCgt: five lines of one width, in this order.
    own, blocked, caught = at + 9, at + 59, at + 109
    pending = int(text[own : own + 16], 16) | int(text[own + 25 : own + 41], 16)
    return Memory(
        None if swap is None else swap * 1024,
        None if peak is None else peak * 1024,
        pending,
        int(text[blocked : blocked + 16], 16),
        int(text[caught : caught + 16], 16),
        _number(text, b"\nvoluntary_ctxt_switches:", caught),
        _number(text, b"\nnonvoluntary_ctxt_switches:", caught),
    )


class KeptProcess:
    """The open files of one process. Close it; no method raises because the process is gone."""

    __slots__ = (
        "_basics",
        "_directory",
        "_kept",
        "_line",
        "_memory",
        "_pid",
        "_stat",
        "_status",
        "fd_limit",
        "network",
    )

    def __init__(self, pid: int, *, keep_all: bool) -> None:
        """Raises OSError when the process can't be opened. The caller proves whose PID it is."""
        self._pid = pid
        self._directory = os.open(f"/proc/{pid}", _DIRECTORY)
        self._stat = -1
        self._kept: dict[str, int] = {}
        # Most processes of a tree idle: the same text again needs no second parse.
        self._line = self._status = b""
        self._basics: Basics | None = None
        self._memory = _NO_MEMORY
        self.fd_limit: int | None = None
        self.network: int | None = None
        try:
            self._stat = os.open("stat", _FILE, dir_fd=self._directory)
            if keep_all:
                for name in (*_KEPT, f"task/{pid}/children"):
                    self._kept[name] = os.open(name, _FILE, dir_fd=self._directory)
        except (PermissionError, FileNotFoundError):
            pass  # another user's, or an older kernel's: each read says None by itself
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in (self._stat, *self._kept.values(), self._directory):
            if fd >= 0:
                os.close(fd)
        self._stat = self._directory = -1
        self._kept = {}

    def basics(self) -> Basics | None:
        """One read of stat; None when the process is gone or hidden."""
        try:
            line = os.pread(self._stat, _STAT_BYTES, 0)
            if line != self._line:
                self._basics = parse_basics(line)
                self._line = line
            return self._basics
        except (OSError, ValueError, IndexError):
            return None

    def fingerprint(self) -> tuple[object, ...] | None:
        """All that a full sample is made of, unread; None where a part is missing or too long."""
        if len(self._kept) < DESCRIPTORS_EACH - 2:
            return None
        try:
            texts = [os.pread(fd, _NEARLY_A_PAGE, 0) for fd in (self._stat, *self._kept.values())]
            count = os.stat("fd", dir_fd=self._directory).st_size
            link = os.readlink("cwd", dir_fd=self._directory)
        except OSError:
            return None
        if count == 0 or max(map(len, texts)) >= _NEARLY_A_PAGE:
            return None
        # The queued signals in status are those of all processes of the user.
        stat, status, *others = texts
        before, _, after = status.partition(b"\nSigQ:")
        return (stat, before, after.partition(b"\n")[2], *others, count, link)

    def memory(self) -> Memory:
        """Swap, signals and context switches."""
        text = self._read("status", _STATUS_BYTES) or b""
        if text != self._status:
            self._memory, self._status = parse_memory(text), text
        return self._memory

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
        """How gladly the kernel would end it: higher goes first."""
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
            count = os.stat("fd", dir_fd=self._directory).st_size
            return count or len(self._list("fd"))  # before Linux 6.2 the size was always 0
        except OSError:
            return None

    def read_fd_limit(self) -> int | None:
        """The soft limit of descriptors. Changes rarely; kept in `fd_limit` too."""
        text = self._read("limits", 4096) or b""
        at = text.find(b"Max open files")
        value = text[at + 14 :].split(None, 1)[0] if at >= 0 else b""
        self.fd_limit = int(value) if value.isdigit() else None
        return self.fd_limit

    def network_namespace(self) -> int | None:
        """The inode of its network namespace; asked once."""
        if self.network is None:
            try:
                self.network = os.stat("ns/net", dir_fd=self._directory).st_ino
            except OSError:
                return None
        return self.network

    def socket_inodes(self, most: int) -> set[int] | None:
        """The sockets among its descriptors; None when there are too many to look at."""
        try:
            fd = os.open("fd", _DIRECTORY, dir_fd=self._directory)
        except OSError:
            return None
        try:
            found = set()
            names = os.listdir(fd)
            for name in names if len(names) <= most else ():
                target = _link(name, fd)
                if target.startswith("socket:["):
                    found.add(int(target[8:-1]))
            return found if len(names) <= most else None
        except OSError:
            return None
        finally:
            os.close(fd)

    def connection_tables(self, most_bytes: int) -> list[bytes]:
        """/proc/net/tcp and tcp6 of its network namespace: of all its processes, not its own."""
        return [self._read(name, most_bytes) or b"" for name in ("net/tcp", "net/tcp6")]

    def pss_bytes(self) -> int | None:
        """Memory with shared pages split among those who share. Takes 40 us and more."""
        pss = _number(self._read("smaps_rollup", 4096) or b"", b"\nPss:")
        return None if pss is None else pss * 1024

    def has_deleted_directory(self) -> bool | None:
        """Whether its working directory was removed; None where we may not look."""
        path = _link("cwd", self._directory)
        if not path:
            return None
        if not path.endswith(" (deleted)"):
            return False
        try:
            # A directory may really be called that: a removed one has no link left.
            return os.stat("cwd", dir_fd=self._directory).st_nlink == 0 or not os.path.exists(path)
        except OSError:
            return None

    def children(self) -> list[int]:
        """Children of its first thread, zombies too."""
        text = self._read(f"task/{self._pid}/children", 65536)
        return [int(child) for child in text.split()] if text else []

    def executable(self) -> str | None:
        """The path of the program that it runs; None where we may not look."""
        return _link("exe", self._directory) or None

    def command_line(self) -> tuple[str, ...]:
        """Its argv; empty for a zombie. Takes the memory lock: not for one in disk sleep."""
        text = self._read("cmdline", _COMMAND_BYTES) or b""
        return tuple(w.decode(errors="surrogateescape") for w in text.split(b"\0")[:-1])

    def stdout(self) -> tuple[int, int] | None:
        """Device and inode of its stdout."""
        try:
            found = os.stat("fd/1", dir_fd=self._directory)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def control_groups(self) -> bytes:
        """/proc/<pid>/cgroup."""
        return self._read("cgroup", 8192) or b""

    def _read(self, name: str, most: int) -> bytes | None:
        try:
            kept = self._kept.get(name)
            if kept is not None:
                return _read_kept(kept, most)
            fd = os.open(name, _FILE, dir_fd=self._directory)
            try:
                return _read_up_to(fd, most)
            finally:
                os.close(fd)
        except OSError:
            return None

    def _list(self, name: str) -> list[str]:
        fd = os.open(name, _DIRECTORY, dir_fd=self._directory)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)


def open_file(pid: int, name: str) -> int:
    """A descriptor of a process's file. The caller proves whose PID it is."""
    return os.open(f"/proc/{pid}/{name}", _FILE)


def _read_kept(fd: int, most: int) -> bytes:
    text = part = os.pread(fd, most, 0)
    while len(part) >= _NEARLY_A_PAGE and len(text) < most:
        part = os.pread(fd, most - len(text), len(text))
        text += part
    return text


def _read_up_to(fd: int, most: int) -> bytes:
    """A /proc file that goes on gives a page, less what did not fit: a shorter part is the end."""
    text = part = os.read(fd, most)
    while len(part) >= _NEARLY_A_PAGE and len(text) < most:
        part = os.read(fd, most - len(text))
        text += part
    return text


def _link(name: str, directory: int) -> str:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return ""


def _number(text: bytes, name: bytes, start: int = 0) -> int | None:
    at = text.find(name, start)
    if at < 0:
        return None
    value = text[at + len(name) : at + len(name) + 24].split(None, 1)[0]
    return int(value) if value.isdigit() else None
