"""Control groups: which ones a process is in, where their files are, and what they count.

Knows v1 (a hierarchy for each controller), v2 (one for all) and both side by side. A controller is
in one hierarchy at a time: a process that is in a v1 group of it is counted there. Reads only.
"""

from __future__ import annotations

import errno
import os

from holdfast.process import procfs
from holdfast.record import Record

V2 = ""  # the name of the v2 hierarchy in /proc/<pid>/cgroup, where v1 names its controllers
_USUAL_MOUNT = "/sys/fs/cgroup"
_V1_USAGE, _V2_USAGE = "memory.usage_in_bytes", "memory.current"
_V1_DROPPABLE = (b"total_inactive_file", b"total_active_file")
_V2_DROPPABLE = (b"inactive_file", b"active_file", b"slab_reclaimable")
_NO_LIMIT_BYTES = 1 << 60  # v1 writes a number near 2**63 for "none"


class GroupFigures(Record):
    """A control group's own numbers. Everything in the group counts, not one run alone."""

    memory_bytes: int | None
    memory_max_bytes: int | None  # None: unlimited or unknown
    processes: int | None
    oom_kills: int | None


class GroupMemory(Record):
    """A limit of memory, of a group or of one that it is in, and what counts against it."""

    limit_bytes: int
    used_bytes: int  # less the caches that the kernel can drop, which it does before it kills


class ControlGroup:
    """The control groups that count a process's memory and its number of processes.

    In v2 that is one group, in v1 two, which may have different paths. `path` is that of the memory
    group in its hierarchy, as /proc/<pid>/cgroup has it.
    """

    def __init__(self, path: str, memory: str, pids: str | None, *, is_v1: bool) -> None:
        self.path = path
        self._memory = memory  # directories
        self._pids = pids
        self._is_v1 = is_v1

    @classmethod
    def of(cls, text: bytes) -> ControlGroup | None:
        """From the text of /proc/<pid>/cgroup; None where no mount shows the group."""
        paths = paths_of(text)
        memory = _directory("memory", paths)
        if memory is None:
            return None
        path = paths.get("memory", paths.get(V2, ""))
        return cls(path, memory, _directory("pids", paths), is_v1="memory" in paths)

    def figures(self) -> GroupFigures | None:
        """Read now; None for the root of a hierarchy, whose figures are the whole machine's.

        A container may see its own group as the root: that one has a limit, or is of no interest.
        """
        limit = self.memory_max_bytes()
        if self.path == "/" and limit is None:
            return None
        usage = _V1_USAGE if self._is_v1 else _V2_USAGE
        return GroupFigures(
            _number(self._memory, usage),
            limit,
            _number(self._pids, "pids.current"),
            self.oom_kills(),
        )

    def memory_max_bytes(self) -> int | None:
        """The limit that is set for this very group; None: unlimited or unknown."""
        limit = _number(self._memory, "memory.limit_in_bytes" if self._is_v1 else "memory.max")
        return limit if limit is not None and limit < _NO_LIMIT_BYTES else None

    def memory_limits(self) -> list[GroupMemory]:
        """Of this group and those above it, as far as a mount shows them. OSError: not known."""
        found, directory = [], self._memory
        while os.path.exists(f"{directory}/cgroup.procs"):
            limit = self._limit_of(directory)
            if limit is not None:
                found.append(GroupMemory(limit, self._used_in(directory)))
            directory = os.path.dirname(directory)
        return found

    def _limit_of(self, directory: str) -> int | None:
        """Above `memory.high` the kernel does not kill, but lets nothing go on."""
        names = ("memory.limit_in_bytes",) if self._is_v1 else ("memory.max", "memory.high")
        limits = [int(text) for name in names if (text := _read_or_fail(directory, name)).isdigit()]
        return min((limit for limit in limits if limit < _NO_LIMIT_BYTES), default=None)

    def _used_in(self, directory: str) -> int:
        used = _read_or_fail(directory, _V1_USAGE if self._is_v1 else _V2_USAGE)
        if not used.isdigit():
            raise OSError(errno.EIO, "it does not say how much it uses", directory)
        wanted = _V1_DROPPABLE if self._is_v1 else _V2_DROPPABLE
        fields = (line.split() for line in _read_or_fail(directory, "memory.stat").splitlines())
        return int(used) - sum(int(field[1]) for field in fields if field[0] in wanted)

    def processes_max(self) -> int | None:
        """How many processes and threads the group may have; None: unlimited or unknown."""
        return _number(self._pids, "pids.max")

    def oom_kills(self) -> int | None:
        """How many processes of the group the OOM killer has ended so far."""
        for line in _read(self._memory, "memory.oom_control" if self._is_v1 else "memory.events"):
            if line.startswith(b"oom_kill "):
                return int(line[9:])
        return None


def text_of(pid: int | str) -> bytes:
    """/proc/<pid>/cgroup; empty where it is gone, can't be read, or has no control groups."""
    return procfs.read_or_none(pid, "cgroup") or b""


def paths_of(text: bytes) -> dict[str, str]:
    """The group's path by v1 controller (`memory`, `name=systemd`), and that of V2."""
    paths: dict[str, str] = {}
    for line in text.decode(errors="surrogateescape").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _directory(controller: str, paths: dict[str, str]) -> str | None:
    """The directory of the group that a controller counts in, through the mount that shows it.

    The usual place first: the table of a machine with hundreds of mounts takes long to read.
    """
    hierarchy = controller if controller in paths else V2
    path = paths.get(hierarchy)
    if path is None:
        return None
    usual = f"{_USUAL_MOUNT}/{hierarchy}{path}".rstrip("/")
    if os.path.exists(f"{usual}/cgroup.procs"):
        return usual
    for mount in procfs.cgroup_mounts():
        root = mount.root.rstrip("/")
        is_it = mount.kind == "cgroup2" if hierarchy == V2 else hierarchy in mount.options
        found = (mount.point + path[len(root) :]).rstrip("/")
        if is_it and f"{path}/".startswith(f"{root}/") and os.path.isdir(found):
            return found  # else another mount covers this one
    return None


def _number(directory: str | None, name: str) -> int | None:
    text = b"".join(_read(directory, name)).strip()
    return int(text) if text.isdigit() else None


def _read(directory: str | None, name: str) -> list[bytes]:
    if directory is None:
        return []
    try:
        with open(f"{directory}/{name}", "rb", buffering=0) as file:
            return (file.read(4096) or b"").splitlines()
    except OSError:
        return []


def _read_or_fail(directory: str, name: str) -> bytes:
    """For what must not be guessed: empty only where there is no such file."""
    try:
        with open(f"{directory}/{name}", "rb", buffering=0) as file:
            return (file.read(1 << 16) or b"").strip()
    except FileNotFoundError:
        return b""
