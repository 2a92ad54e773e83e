"""Parses /proc: the only file that knows its paths and field numbers.

Turns the kernel's answers into typed records and OS errors into Holdfast's. What a file does
not say is None, never 0. ENOENT from /proc alone proves nothing (hidepid hides live processes):
callers that need proof hold a pidfd.
"""

from __future__ import annotations

import os

from holdfast.errors import ProcessGone, ProcessUnreadable
from holdfast.lean import StrEnum
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO: fixed in the kernel
_FORKED_WITHOUT_EXEC = 0x40  # PF_FORKNOEXEC in field 9
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ProcessState(StrEnum):
    """The kernel's state letter, spelled out."""

    RUNNING = "running"
    SLEEPING = "sleeping"
    DISK_SLEEP = "disk sleep"
    STOPPED = "stopped"
    TRACED = "traced"
    ZOMBIE = "zombie"
    DEAD = "dead"
    IDLE = "idle"
    UNKNOWN = "unknown"


STATES = {
    "R": ProcessState.RUNNING,
    "S": ProcessState.SLEEPING,
    "D": ProcessState.DISK_SLEEP,
    "T": ProcessState.STOPPED,
    "t": ProcessState.TRACED,
    "Z": ProcessState.ZOMBIE,
    "X": ProcessState.DEAD,
    "x": ProcessState.DEAD,
    "I": ProcessState.IDLE,
}


class ProcStat(Record):
    """What one read of /proc/<pid>/stat says."""

    pid: int
    comm: str
    state: ProcessState
    ppid: int
    pgrp: int
    session: int
    utime_ticks: int
    stime_ticks: int
    threads: int
    start_ticks: int  # in the reader's time namespace; see start_ticks_offset
    rss_pages: int
    exit_status: int | None  # wait status of a zombie; None unless the kernel shows it


def parse_stat(line: bytes) -> ProcStat:
    """Parse a stat line. The name is anything up to the *last* ')': it may hold any byte."""
    try:
        opening, closing = line.index(b"("), line.rindex(b")")
        rest = line[closing + 1 :].split()
        pid = int(line[:opening])
        # Field 3 (the state) is rest[0]. Field 35 is 1 exactly when the reader may see field 52.
        numbers = [int(field) for field in rest[1:]]
        readable = len(numbers) > 48 and numbers[31] == 1
        state = STATES.get(rest[0].decode(), ProcessState.UNKNOWN)
        return ProcStat(
            pid,
            line[opening + 1 : closing].decode(errors="backslashreplace"),
            state,
            numbers[0],
            numbers[1],
            numbers[2],
            numbers[10],
            numbers[11],
            numbers[16],
            numbers[18],
            numbers[20],
            numbers[48] if readable and state is ProcessState.ZOMBIE else None,
        )
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ProcessUnreadable(
            f"/proc gave a stat line that can't be read: {line[:80]!r}",
            hint="is /proc a real procfs? `holdfast doctor` looks at it",
        ) from error


def read(pid: int | str, name: str) -> bytes:
    """One file of /proc/<pid>. ProcessGone or ProcessUnreadable instead of OS errors."""
    try:
        fd = os.open(f"/proc/{pid}/{name}".rstrip("/"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_all(fd)
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessGone(f"process {pid} is not in /proc", pid=pid) from error
    except OSError as error:
        raise ProcessUnreadable(
            f"/proc/{pid}/{name} can't be read: {error.strerror}",
            hint="it belongs to another user, or /proc is restricted",
            pid=pid,
        ) from error


def _read_all(fd: int) -> bytes:
    # A seq_file may give a short read in the middle: only an empty one is the end.
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts)


def read_stat(pid: int) -> ProcStat:
    """The stat of a process, as /proc shows it now."""
    return parse_stat(read(pid, "stat"))


def has_execed(pid: int) -> bool:
    """Whether a process has become a program of its own since it was forked; a zombie too."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    return not int(fields[6]) & _FORKED_WITHOUT_EXEC


def boot_id() -> str:
    """32 hex digits that differ for each boot; the same in every namespace."""
    text = read("sys", "kernel/random/boot_id").decode("ascii", "replace").strip()
    return text.replace("-", "").lower()


def boot_time() -> int:
    """When the machine booted, in whole seconds since the epoch, by the wall clock of now."""
    try:
        lines = read("stat", "").splitlines()
    except ProcessGone:  # /proc with subset=pid
        lines = []
    for line in lines:
        if line.startswith(b"btime "):
            return int(line.split()[1])
    raise ProcessUnreadable("/proc does not say when the machine booted")


def pid_namespace() -> int:
    """The inode of our PID namespace. Recycled by the kernel: it narrows, it never proves."""
    return os.stat("/proc/self/ns/pid").st_ino


def shows_our_namespace() -> bool:
    """Whether /proc was mounted for our PID namespace (not so after unshare without a mount)."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def start_ticks_offset() -> int | None:
    """What to take off a shown start tick so that all time namespaces agree.

    None when it can't be known: timens_offsets describes the namespace of our *children*, which
    after unshare(CLONE_NEWTIME) is not our own.
    """
    try:
        if os.readlink("/proc/self/ns/time") != os.readlink("/proc/self/ns/time_for_children"):
            return None
        lines = read("self", "timens_offsets").decode("ascii", "replace").splitlines()
    except (FileNotFoundError, ProcessGone):
        return 0  # a kernel without time namespaces
    except (OSError, ProcessUnreadable):
        return None
    for line in lines:
        name, seconds, *_ = line.split()
        if name in ("boottime", "7"):
            return int(seconds) * TICKS_PER_SECOND
    return 0


def children(pid: int) -> list[int]:
    """Children of *every* thread: a child belongs to the thread that forked it.

    Only complete while the process stands still; callers walk until calm.
    """
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            found.extend(int(child) for child in read(pid, f"task/{thread}/children").split())
        except ProcessGone:
            if not has_children_files():
                return [stat.pid for stat in all_stats() if stat.ppid == pid]
        except ProcessUnreadable:
            continue
    return found


def has_children_files() -> bool:
    """Whether the kernel was built with CONFIG_PROC_CHILDREN."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def all_pids() -> Iterator[int]:
    """Every PID that /proc shows us."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def inotify_limits() -> tuple[int | None, int | None]:
    """How many instances, and watches, one user may have here; None: it can't be told."""
    return _least("max_user_instances", "max_inotify_instances"), _least(
        "max_user_watches", "max_inotify_watches"
    )


def _least(of_the_machine: str, of_the_namespace: str) -> int | None:
    found = []
    for name in (f"fs/inotify/{of_the_machine}", f"user/{of_the_namespace}"):
        try:
            found.append(int(read("sys", name)))
        except (ProcessGone, ProcessUnreadable, ValueError):
            continue
    return min(found, default=None)


def inotify_instances(uid: int) -> int:
    """How many instances the user's processes have open, as far as we may look."""
    count = 0
    for pid in all_pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid != uid:
                continue
            for name in os.listdir(f"/proc/{pid}/fd"):
                count += os.readlink(f"/proc/{pid}/fd/{name}") == "anon_inode:inotify"
        except OSError:  # it ended, or is closed to us
            continue
    return count


def all_stats() -> Iterator[ProcStat]:
    """Every process that /proc shows us, skipping those that vanish."""
    for pid in all_pids():
        try:
            yield read_stat(pid)
        except (ProcessGone, ProcessUnreadable):
            continue


def environment(pid: int) -> dict[str, str]:
    """The environment that the process was exec'ed with."""
    pairs = read(pid, "environ").split(b"\0")
    decoded = (pair.decode(errors="surrogateescape").partition("=") for pair in pairs if pair)
    return {name: value for name, _, value in decoded}


def command_line(pid: int) -> list[str]:
    """The process's argv; empty for a zombie or kernel thread."""
    text = read(pid, "cmdline")
    return [word.decode(errors="surrogateescape") for word in text.split(b"\0")[:-1]]


def executable(pid: int) -> str | None:
    """The path of the running program; None where we may not look."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def wait_channel(pid: int) -> str | None:
    """The kernel function that the process sleeps in; None where it is hidden."""
    try:
        name = read(pid, "wchan").decode("ascii", "replace").strip()
    except (ProcessGone, ProcessUnreadable):
        return None
    return name if name not in ("", "0") else None


def open_paths(pid: int) -> list[str]:
    """The files that a process has open; OSError when it may not be looked at."""
    base = f"/proc/{pid}/fd"
    return [os.readlink(f"{base}/{number}") for number in os.listdir(base)]


def short_path_to(fd: int, name: str) -> str:
    """A path below an open directory that fits the 108 bytes of a socket address."""
    return f"/proc/self/fd/{fd}/{name}"
