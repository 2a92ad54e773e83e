"""The one clock for deadlines: it goes on while the machine sleeps and ignores wall clock jumps."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, suspend included (where the system has such a clock)."""
    return time.clock_gettime(_CLOCK)


def wall_clock() -> str:
    """The time of day for people, as ISO 8601 in UTC with microseconds."""
    return iso_time(time.time())


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC."""
    whole = int(seconds // 1)
    micros = int((seconds - whole) * 1e6)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
