"""The one clock for deadlines: it goes on while the machine sleeps and ignores wall clock jumps."""

from __future__ import annotations

import os
import time

from holdfast.process import procfs, this_host

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_offsets: list[float] = []  # found at the first call; a fork may be into another time namespace
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_offsets.clear)


def boottime() -> float:
    """Seconds since boot, suspend included (where the system has such a clock).

    The same in every time namespace: what one process recorded, another may read.
    """
    # A loop calls this a dozen times a turn: no call more than it takes.
    return time.clock_gettime(_CLOCK) - (_offsets[0] if _offsets else namespace_offset())


def namespace_offset() -> float:
    """What our time namespace adds to the seconds since boot."""
    if not _offsets:
        _offsets.append((this_host.place().ticks_offset or 0) / procfs.TICKS_PER_SECOND)
    return _offsets[0]


def wall_clock() -> str:
    """The time of day for people, as ISO 8601 in UTC with microseconds."""
    return iso_time(time.time())


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC."""
    whole = int(seconds // 1)
    micros = int((seconds - whole) * 1e6)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


def seconds_of(at: str) -> float:
    """Seconds since the epoch of a time that Holdfast wrote."""
    # Not strptime, which loads the locale: a listing reads hundreds of these.
    year, month, day = int(at[0:4]), int(at[5:7]), int(at[8:10])
    hours, minutes, seconds = int(at[11:13]), int(at[14:16]), float(at[17:].rstrip("Z"))
    return _days(year, month, day) * 86400 + hours * 3600 + minutes * 60 + seconds


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that leap days
    come last."""
    year -= month <= 2
    since_march = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + since_march - 719468
