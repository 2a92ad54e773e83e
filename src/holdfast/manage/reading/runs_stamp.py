"""What `runs/` is known by while nothing comes into it or goes: its inode, times and links.

Each entry that is made, renamed or removed sets the directory's `ctime` to the time of that moment,
and nobody can set it to another. So the same stamp is the same entries, if a change now would have
got another time than the stamp has. That is so when

- the stamp was half a second old when the entries were listed, and the file system tells parts of a
  second: else a change right after the listing could have the same time;
- the machine has not been started since, and its clock was not set back: else a time may come
  again.
"""

from __future__ import annotations

import os
import time

from holdfast.process import this_host
from holdfast.process.clock import boottime
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

_QUIET_SECONDS = 0.5  # many ticks of any kernel
_SLEW_SECONDS = 1.0  # that a clock which is never set may have gone back by
_SECOND = 1_000_000_000


class RunsStamp(Record):
    """One look at the directory, and at the clock."""

    text: str
    changed_ns: int
    clock: float  # the time of day when this boot began, as the clock has it now

    @classmethod
    def of(cls, home: Home) -> RunsStamp | None:
        """None: there is no such directory, or nothing tells one boot from another."""
        boot_id = this_host.place().boot_id
        try:
            found = os.stat(home.runs_path)
        except OSError:
            return None
        parts = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink)
        text = ".".join(map(str, (boot_id, *parts)))
        clock = time.time() - boottime()
        return None if boot_id is None else cls(text, found.st_ctime_ns, clock)

    @property
    def is_quiet(self) -> bool:
        """Whether what is listed from now on stands for this stamp: a change gets another one."""
        is_long_ago = time.time() - self.changed_ns / _SECOND >= _QUIET_SECONDS
        return is_long_ago and self.changed_ns % _SECOND != 0

    def still_holds(self, home: Home) -> bool:
        """Whether the directory is as it was."""
        now = RunsStamp.of(home)
        return now is not None and now.text == self.text

    def goes_on_from(self, clock: float) -> bool:
        """Whether the clock was not set back since it was that."""
        return self.clock >= clock - _SLEW_SECONDS
