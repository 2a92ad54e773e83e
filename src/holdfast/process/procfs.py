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
_LEADING_FIELDS = 26  # as far as startstack, field 28: the rest of a stat line is rarely split
_HIDDEN_STACK = 1  # the kernel shows 0 or 1 to readers that may not see the address
_READ_BYTES = 65536
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


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
    has_execed: bool  # since it was forked: it is a program of its own; a zombie shows it too
    cpu_ticks: int  # user and system time of all its threads, dead ones too
    waited_ticks: int  # the same of its children, once it has waited for them
    threads: int
    start_ticks: int  # in the reader's time namespace; see start_ticks_offset
    rss_bytes: int
    stack_start: int | None  # another one after each exec; None unless the kernel shows it
    exit_status: int | None  # wait status of a zombie; None unless the kernel shows it


def parse_stat(line: bytes) -> ProcStat:
    """Parse a stat line. The name is anything up to the *last* ')': it may hold any byte."""
    try:
        opening, closing = line.index(b"("), line.rindex(b")")
        field = line[closing + 2 :].split(b" ", _LEADING_FIELDS)  # field[0] is field 3 of proc(5)
        state, stack = STATES.get(field[0].decode(), ProcessState.UNKNOWN), int(field[25])
        return ProcStat(
            int(line[:opening]),
            line[opening + 1 : closing].decode(errors="backslashreplace"),
            state,
            int(field[1]),
            int(field[2]),
            int(field[3]),
            not int(field[6]) & _FORKED_WITHOUT_EXEC,
            int(field[11]) + int(field[12]),
            int(field[13]) + int(field[14]),
            int(field[17]),
            int(field[19]),
            int(field[21]) * PAGE_BYTES,
            stack if stack > _HIDDEN_STACK else None,
            _exit_status(field[26]) if state is ProcessState.ZOMBIE else None,
        )
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ProcessUnreadable(
            f"/proc gave a stat line that can't be read: {line[:80]!r}",
            hint="is /proc a real procfs? `holdfast doctor` looks at it",
        ) from error


def _exit_status(rest: bytes) -> int | None:
    """Field 52, from the fields after the leading ones; field 35 is 1 when it may be seen."""
    field = rest.split()
    return int(field[23]) if len(field) > 23 and int(field[6]) == 1 else None


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
    while part := os.read(fd, _READ_BYTES):
        parts.append(part)
    return b"".join(parts)


def raw_environment(pid: int) -> bytes:
    """Its environment; empty: it shows none, has ended, or is closed to us.

    For a look at every process: errors are not told apart, and one read is enough, since this file
    gives less than was asked for only at its end (environ_read in the kernel's fs/proc/base.c).
    """
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.read(fd, _READ_BYTES)
        return found if len(found) < _READ_BYTES else found + _read_all(fd)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_or_none(pid: int | str, name: str) -> bytes | None:
    """The contents of a file of /proc; None where it is gone or can't be read."""
    try:
        return read(pid, name)
    except (ProcessGone, ProcessUnreadable):
        return None


def read_stat(pid: int) -> ProcStat:
    """The stat of a process, as /proc shows it now."""
    return parse_stat(read(pid, "stat"))


def stat_or_none(pid: int) -> ProcStat | None:
    """The stat of a process, as /proc shows it now; None where it is gone or can't be read."""
    try:
        return read_stat(pid)
    except (ProcessGone, ProcessUnreadable):
        return None


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


def machine_memory() -> tuple[int, int]:
    """How much the machine has, and how much of it new programs could use without swap."""
    figures: dict[bytes, int] = {}
    for line in read("meminfo", "").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"MemTotal", b"MemAvailable"):
            figures[name] = int(rest.split()[0]) * 1024
    try:
        return figures[b"MemTotal"], figures[b"MemAvailable"]
    except KeyError:
        raise ProcessUnreadable("/proc does not say how much memory is available") from None


def pid_namespace() -> int:
    """The inode of our PID namespace. The kernel reuses it: an equal one proves nothing."""
    return os.stat("/proc/self/ns/pid").st_ino


def namespaces() -> str:
    """The inodes of our namespaces, by name."""
    names = sorted(os.listdir("/proc/self/ns"))
    return " ".join(f"{name}:{os.stat(f'/proc/self/ns/{name}').st_ino}" for name in names)


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


def children(pid: int) -> list[int] | None:
    """Children of *every* thread: a child belongs to the thread that forked it.

    Only complete while the process stands still; callers walk until calm. A process that is gone
    has none. None: it could not be seen (no descriptor left, or hidden).
    """
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    except OSError:
        return None
    for thread in threads:
        try:
            found.extend(int(child) for child in read(pid, f"task/{thread}/children").split())
        except ProcessGone:
            if not has_children_files():
                return [stat.pid for stat in all_stats() if stat.ppid == pid]
        except ProcessUnreadable:
            return None
    return found


def has_children_files() -> bool:
    """Whether the kernel was built with CONFIG_PROC_CHILDREN."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def all_pids() -> Iterator[int]:
    """Every PID that /proc shows us."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def inotify_limits() -> tuple[int | None, int | None]:
    """How many instances, and watches, one user may have here; None: unknown."""
    return _least("max_user_instances", "max_inotify_instances"), _least(
        "max_user_watches", "max_inotify_watches"
    )


def _least(of_the_machine: str, of_the_namespace: str) -> int | None:
    found = []
    for name in (f"fs/inotify/{of_the_machine}", f"user/{of_the_namespace}"):
        text = (read_or_none("sys", name) or b"").strip()
        if text.isdigit():
            found.append(int(text))
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
    return (stat for pid in all_pids() if (stat := stat_or_none(pid)) is not None)


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
    name = (read_or_none(pid, "wchan") or b"").decode("ascii", "replace").strip()
    return name if name not in ("", "0") else None


class CgroupMount(Record):
    """A mounted hierarchy of control groups."""

    root: str  # the group that the mount shows as its top: a container may see a part
    point: str
    kind: str  # cgroup (v1) or cgroup2
    options: list[str]  # of v1: its controllers


def cgroup_mounts() -> Iterator[CgroupMount]:
    """Where control groups are mounted for this process."""
    for mount, kind, file_system in _mount_table():
        if kind in (b"cgroup", b"cgroup2"):
            field = mount.decode(errors="surrogateescape").split(" ")
            options = file_system.decode(errors="surrogateescape").rpartition(" ")[2].split(",")
            root, point = _unescape(field[3]), _unescape(field[4])
            yield CgroupMount(root, point, kind.decode(), options)


def file_system_of(device: int) -> str | None:
    """The type of the mounted file system with that st_dev; None: not in the table.

    A btrfs subvolume, and a mount outside a chroot, are not listed under their st_dev.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}".encode()
    for mount, kind, _ in _mount_table():
        if mount.split(b" ", 3)[2] == wanted:
            return kind.decode(errors="replace")
    return None


def _mount_table() -> Iterator[tuple[bytes, bytes, bytes]]:
    """Each mount: its own fields, the type of the file system, and that one's fields."""
    for line in (read_or_none("self", "mountinfo") or b"").splitlines():
        mount, _, file_system = line.partition(b" - ")
        kind, _, fields = file_system.partition(b" ")
        yield mount, kind, fields


def _unescape(path: str) -> str:
    """The table writes a space as \\040: else it would end the field."""
    if "\\" not in path:
        return path
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        path = path.replace(f"\\{code}", character)
    return path


def open_paths(pid: int) -> list[str]:
    """The files that a process has open; OSError when it may not be looked at."""
    base = f"/proc/{pid}/fd"
    return [os.readlink(f"{base}/{number}") for number in os.listdir(base)]


def short_path_to(fd: int, name: str) -> str:
    """A path below an open directory that fits the 108 bytes of a socket address."""
    return f"/proc/self/fd/{fd}/{name}"
