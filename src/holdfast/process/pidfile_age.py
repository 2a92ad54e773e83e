"""Whether a pid file that names no boot was written in this one: decided by its own times.

Equal start ticks prove nothing across a reboot. A file that was written after the process it
names had started, by the clock of this boot, is of this boot. In doubt it is not.
"""

from __future__ import annotations

import os
import time

from holdfast.process import here
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import TICKS_PER_SECOND

SLACK_SECONDS = 2.0  # a leap second; the grain of ticks and of file times


def with_boot(recorded: ProcessIdentity, file: os.stat_result) -> ProcessIdentity:
    """The record, with this boot's id where the file's times say that it was written in it."""
    ticks, place = recorded.start_ticks, here.place()
    if ticks is None or recorded.boot_id is not None or place.ticks_offset is None:
        return recorded
    booted_at = time.time() - boottime()
    # Who changes owner or name of a file, or restores it, renews its change time alone.
    written_at = min(file.st_ctime, file.st_mtime)
    if not is_of_this_boot(ticks, written_at, booted_at=booted_at, now=time.time()):
        return recorded
    return recorded.replace(boot_id=place.boot_id)


def is_of_this_boot(ticks: int, written_at: float, *, booted_at: float, now: float) -> bool:
    """Whether a file that names a process of that start tick was written since it started.

    A clock that was set forward since makes the file look older than it is; one that was set
    back makes it a file of the future: neither is believed.
    """
    started_at = booted_at + ticks / TICKS_PER_SECOND
    return started_at - SLACK_SECONDS <= written_at <= now + SLACK_SECONDS
