"""When a run last wrote, from the size and time of its output files: polled, never awaited.

An idle timeout needs one look when its time is due. Both streams count.
"""

from __future__ import annotations

import os
import time

from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.shim.supervisor import Supervisor

_CLOCK_STEP_SECONDS = 0.5
_ROOM_BYTES = 4096

_Marks = tuple[tuple[int, int], ...]


class LastOutput:
    """The output files of one run."""

    def __init__(self, supervisor: Supervisor) -> None:
        directory = supervisor.directory
        self._senses = supervisor.senses
        self._paths = [directory.output_path]
        if supervisor.spec.wanted.split_stderr:
            self._paths.append(directory.stderr_path)
        self._marks: _Marks | None = None
        self._ahead = 0.0
        self._looked = 0.0
        self._last = 0.0

    def begin(self) -> None:
        """Silence counts from now on."""
        self._marks = None
        self._last = boottime()
        self.written_at()

    def written_at(self) -> float | None:
        """When output was last written, at the earliest at `begin`; None: not known."""
        try:
            found = [os.stat(path) for path in self._paths]
        except OSError as error:
            self._senses.lose("output", error)
            return None
        self._senses.regain("output")
        marks = tuple((one.st_size, one.st_mtime_ns) for one in found)
        now = boottime()
        ahead = time.time() - now
        if self._marks is not None and marks != self._marks:
            # File times are of the wall clock: useless if it was set meanwhile.
            was_set = abs(ahead - self._ahead) > _CLOCK_STEP_SECONDS
            written = max(one.st_mtime for one in found) - ahead
            self._last = now if was_set else min(max(written, self._looked), now)
        self._marks, self._ahead, self._looked = marks, ahead, now
        return self._last

    def disk_is_full(self) -> bool:
        """Whether nothing can be written now: then silence proves nothing. True if not known."""
        try:
            found = os.statvfs(self._paths[0])
        except OSError as error:
            self._senses.lose("disk", error)
            return True
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
        if found.f_blocks and free * found.f_frsize < _ROOM_BYTES:
            self._senses.lose("disk", "it is full: output that could not be written is not silence")
            return True
        self._senses.regain("disk")
        return False
