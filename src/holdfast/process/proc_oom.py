"""Was it the kernel's out-of-memory killer? The counters that can tell.

The machine's counter proves that nobody was struck; a control group's counter, grown while the
run was in it, proves that somebody in it was. In between it is not known, and that is said.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.lean import signal
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity

_MOUNT = "/sys/fs/cgroup"


class OomWatch:
    """Counters from the start of a run."""

    def __init__(self) -> None:
        self.began_late = False  # whoever may have been struck was dead before
        self._machine = _machine_count()
        self._groups: dict[str, int] = {}
        # A child starts in our own group, and may be struck there before anybody looks at it.
        self._note(_counter_path("self"))

    def look(self, identity: ProcessIdentity) -> None:
        """Note the memory control group that a process is in; it may move."""
        self._note(_counter_path(identity.pid))

    def _note(self, path: str | None) -> None:
        if path is not None and path not in self._groups:
            count = _group_count(path)
            if count is not None:
                self._groups[path] = count

    def verdict(
        self, ended_by_signal: int | None, exit_code: int | None
    ) -> tuple[bool | None, str]:
        """Whether the OOM killer ended the run, and why that is believed."""
        afterwards = verdict_afterwards(ended_by_signal, exit_code)
        if afterwards is False or self.began_late or ended_by_signal is exit_code is None:
            return afterwards, ""
        for path, before in self._groups.items():
            now = _group_count(path)
            if now is not None and now > before:
                group = os.path.dirname(path).removeprefix(_MOUNT)
                return True, f"the kernel's OOM killer struck in control group {group}"
        machine = _machine_count()
        if machine is None or self._machine is None:
            return None, ""
        if machine == self._machine:
            return False, ""
        return None, "the kernel's OOM killer struck on this machine meanwhile; whom is not known"


def verdict_afterwards(ended_by_signal: int | None, exit_code: int | None) -> bool | None:
    """Without counters from before its end: only that it was not, by how it ended."""
    was_killed = ended_by_signal == signal.SIGKILL or exit_code == 128 + signal.SIGKILL
    return None if was_killed or ended_by_signal is exit_code is None else False


def own_score() -> int | None:
    """The score of this process: a child that uses as little has the same."""
    try:
        return int(procfs.read("self", "oom_score"))
    except (HoldfastError, ValueError):
        return None


def _machine_count() -> int | None:
    try:
        lines = procfs.read("vmstat", "").splitlines()
    except HoldfastError:
        return None
    counts = (line.split()[1] for line in lines if line.startswith(b"oom_kill "))
    return next((int(count) for count in counts), None)


def _counter_path(pid: int | str) -> str | None:
    """The file that counts OOM kills of the process's memory control group."""
    try:
        lines = procfs.read(pid, "cgroup").decode(errors="surrogateescape").splitlines()
    except HoldfastError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(","):
            return f"{_MOUNT}/memory{group.rstrip('/')}/memory.oom_control"
    unified = next((line[3:] for line in lines if line.startswith("0::")), None)
    return None if unified is None else f"{_MOUNT}{unified.rstrip('/')}/memory.events"


def _group_count(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            fields = (line.split() for line in file)
            return next((int(pair[1]) for pair in fields if pair[0] == "oom_kill"), None)
    except (OSError, ValueError, IndexError):
        return None
