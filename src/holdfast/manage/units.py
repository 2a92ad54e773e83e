"""Figures as people read them: sizes, times, durations, shares, money. Unknown is empty."""

from __future__ import annotations

from holdfast.process.clock import seconds_of

_SIZE_UNITS = ("B", "K", "M", "G", "T", "P", "E")
_COUNT_UNITS = ("", "k", "M", "G", "T")


def size(count: float | None) -> str:
    """Bytes as `412M`, `11.2G`; three digits are enough to act on."""
    if count is None:
        return ""
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{value:.1f}" if unit and value < 99.95 else f"{value:.0f}"
    return text.removesuffix(".0") + _SIZE_UNITS[unit]


def count(number: float | None) -> str:
    """How many: `812`, `6k`, `81k`, `1.2M`."""
    if number is None:
        return ""
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_COUNT_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    text = f"{value:.1f}" if unit and value < 9.95 else f"{value:.0f}"
    return text.removesuffix(".0") + _COUNT_UNITS[unit]


def percent(share: float | None) -> str:
    """Of one core: `38%`, `790%`."""
    return "" if share is None else f"{share:.0f}%"


def money(dollars: float | None) -> str:
    """`$0.31`; less than a cent is told from nothing."""
    if dollars is None:
        return ""
    return "<$0.01" if 0 < dollars < 0.005 else f"${dollars:.2f}"


def age(seconds: float | None) -> str:
    """How long ago, in its largest unit: `4s`, `12m`, `3h`, `5d`."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= length:
            return f"{whole // length}{unit}"
    return f"{whole}s"


def duration(seconds: float | None) -> str:
    """How long it took: `0.4s`, `3.1s`, `47s`, `1m40s`, `1h30m`, `2d4h`."""
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    whole = round(seconds)
    for unit, length, below, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length}{unit}" + (f"{rest}{below}" if rest else "")
    if whole >= 60:
        return f"{whole // 60}m" + (f"{whole % 60}s" if whole % 60 else "")
    return f"{whole}s"


def span(seconds: float) -> str:
    """A length that was asked for, as short as it was written: `15m`, `90s`, `1h30m`."""
    return duration(seconds).replace(".0s", "s")


def clock(at: str | None, now: float) -> str:
    """The time of day, local; with the date when that is not today's: `11-14 22:10:03`."""
    if at is None:
        return ""
    import time

    then, today = time.localtime(seconds_of(at)), time.localtime(now)
    date = "" if then[:3] == today[:3] else "%m-%d " if then[0] == today[0] else "%Y-%m-%d "
    return time.strftime(f"{date}%H:%M:%S", then)
