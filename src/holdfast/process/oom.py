"""Was it the kernel's out-of-memory killer? The counters that show it.

The machine's counter proves that it killed nothing; a control group's counter, grown while the run
was in it, proves that it killed something there. In between it is not known, and that is said.
"""

from __future__ import annotations

from holdfast.lean import signal
from holdfast.process import procfs
from holdfast.process.cgroups import ControlGroup, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.tree import Member


class OomWatch:
    """Counters from the start of a run."""

    def __init__(self) -> None:
        self.began_late = False  # the process in question was dead before
        self._machine = _machine_count()
        self._groups: dict[bytes, tuple[ControlGroup, int] | None] = {}  # each with its count
        # A child starts in our own group, and may be killed there before anything looks at it.
        self._note(text_of("self"))

    def look(self, member: Member) -> None:
        """Note the memory control group that a process is in; it may move."""
        text = member.files.control_groups()
        if not member.has_ended():
            self._note(text)

    def _note(self, text: bytes) -> None:
        if text not in self._groups:
            group = ControlGroup.of(text)
            count = None if group is None else group.oom_kills()
            self._groups[text] = None if group is None or count is None else (group, count)

    def verdict(
        self, ended_by_signal: int | None, exit_code: int | None
    ) -> tuple[bool | None, str]:
        """Whether the OOM killer ended the run, and why that is believed."""
        afterwards = verdict_afterwards(ended_by_signal, exit_code)
        if afterwards is False or self.began_late or ended_by_signal is exit_code is None:
            return afterwards, ""
        for group, before in filter(None, self._groups.values()):
            now = group.oom_kills()
            if now is not None and now > before:
                return True, f"the kernel's OOM killer struck in control group {group.path}"
        machine = _machine_count()
        if machine is None or self._machine is None:
            return None, ""
        if machine == self._machine:
            return False, ""
        return (
            None,
            "the kernel's OOM killer struck on this machine meanwhile; which process is not known",
        )


def verdict_afterwards(ended_by_signal: int | None, exit_code: int | None) -> bool | None:
    """Without counters from before its end: only that it was not, by how it ended."""
    was_killed = ended_by_signal == signal.SIGKILL or exit_code == 128 + signal.SIGKILL
    return None if was_killed or ended_by_signal is exit_code is None else False


def own_score() -> int | None:
    """The score of this process: a child that uses as little has the same."""
    text = (procfs.read_or_none("self", "oom_score") or b"").strip()
    return int(text) if text.isdigit() else None


def _machine_count() -> int | None:
    lines = (procfs.read_or_none("vmstat", "") or b"").splitlines()
    counts = (line.split()[1] for line in lines if line.startswith(b"oom_kill "))
    return next((int(count) for count in counts), None)
