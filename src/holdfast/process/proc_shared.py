"""What processes share, from /proc and /sys: connections of a network, control groups, zombies.

/proc/<pid>/net/tcp shows the whole network namespace, so a process's own connections are those
whose inode is among its descriptors.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.procfs import ProcessState
from holdfast.record import Record

_ESTABLISHED = b"01"
_NO_LIMIT_BYTES = 1 << 60  # cgroup v1 writes a number near 2**63 for "none"


def established_inodes(tables: list[bytes]) -> set[int]:
    """The sockets that have a peer."""
    found = set()
    for table in tables:
        for line in table.split(b"\n")[1:]:
            field = line.split(None, 10)
            if len(field) > 9 and field[3] == _ESTABLISHED:
                found.add(int(field[9]))
    return found


def zombies_among(pids: list[int], parent: int, most: int) -> int:
    """How many of these are ended children that their parent has not waited for; at most `most`."""
    count = 0
    for pid in pids:
        try:
            stat = procfs.read_stat(pid)
        except HoldfastError:
            continue
        # A leader whose threads live on shows Z too, but one of our members would be known.
        if stat.state is ProcessState.ZOMBIE and stat.ppid == parent:
            count += 1
            if count >= most:
                break
    return count


class GroupFigures(Record):
    """A control group's own numbers. Everything in the group counts, not one run alone."""

    memory_bytes: int | None
    memory_max_bytes: int | None  # None: unlimited or unknown
    processes: int | None
    oom_kills: int | None


class ControlGroup:
    """Where the memory (and pids) control group of a process keeps its figures."""

    def __init__(self, memory: str | None, pids: str | None, version: int) -> None:
        self._memory = memory
        self._pids = pids
        self._version = version

    @classmethod
    def of(cls, control_groups: bytes) -> ControlGroup | None:
        """From the text of /proc/<pid>/cgroup. None: no group below a root that has figures."""
        paths: dict[str, str] = {}
        for line in control_groups.decode(errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            paths.update(dict.fromkeys(controllers.split(","), path))
        if "memory" in paths:
            memory = _directory("memory", paths["memory"])
            return cls(memory, _directory("pids", paths.get("pids")), 1) if memory else None
        unified = _directory(None, paths.get(""))
        return cls(unified, unified, 2) if unified else None

    def figures(self) -> GroupFigures:
        """Read them now."""
        if self._version == 1:
            limit = _file_number(self._memory, "memory.limit_in_bytes")
            return GroupFigures(
                _file_number(self._memory, "memory.usage_in_bytes"),
                limit if limit is not None and limit < _NO_LIMIT_BYTES else None,
                _file_number(self._pids, "pids.current"),
                _counter(self._memory, "memory.oom_control", b"oom_kill "),
            )
        return GroupFigures(
            _file_number(self._memory, "memory.current"),
            _file_number(self._memory, "memory.max"),
            _file_number(self._pids, "pids.current"),
            _counter(self._memory, "memory.events", b"oom_kill "),
        )


def _directory(controller: str | None, path: str | None) -> str | None:
    """The group's directory, through the mount that shows it; the root group has no figures."""
    if not path or path == "/":
        return None
    for root, point, kind, options in _mounts():
        shows = controller in options if controller else kind == "cgroup2"
        if shows and (path + "/").startswith(root.rstrip("/") + "/"):
            found = point + path[len(root.rstrip("/")) :]
            return found if os.path.isdir(found) else None
    return None


def _mounts() -> list[tuple[str, str, str, list[str]]]:
    """Root, mount point, type and options of each control group file system."""
    try:
        lines = procfs.read("self", "mountinfo").decode(errors="surrogateescape").splitlines()
    except HoldfastError:
        return []
    found = []
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, ends = left.split(), right.split()
        if len(fields) > 4 and len(ends) > 2 and ends[0] in ("cgroup", "cgroup2"):
            found.append((fields[3], fields[4], ends[0], ends[2].split(",")))
    return found


def _file_number(directory: str | None, name: str) -> int | None:
    text = _file(directory, name).strip()
    return int(text) if text.isdigit() else None


def _counter(directory: str | None, name: str, field: bytes) -> int | None:
    for line in _file(directory, name).splitlines():
        if line.startswith(field):
            return int(line[len(field) :])
    return None


def _file(directory: str | None, name: str) -> bytes:
    if directory is None:
        return b""
    try:
        with open(f"{directory}/{name}", "rb", buffering=0) as file:
            return file.read(4096) or b""
    except OSError:
        return b""
