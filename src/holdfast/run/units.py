"""Durations, sizes and other figures: parsed as people write them, written as people read them.

`1h30m`, `0.5s`, `512M` in; `412M`, `6k`, `38%`, `$0.31`, `1m40s` out. Unknown is empty.
"""

from __future__ import annotations

from holdfast.errors import InvalidOption
from holdfast.process.clock import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

LONGEST_SECONDS = 36500 * 86400.0  # a century: beyond it a timer's arithmetic means nothing
LARGEST_BYTES = 2**62
MOST_TOKENS = 10**15
MOST_DOLLARS = 1e9
_ENDLESS = float("inf")

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = "a duration such as 90, 90s, 10m, 1h30m or 2d"
_DIGITS = "0123456789"
_SIZE_UNITS = ("B", "K", "M", "G", "T", "P", "E")
_COUNT_UNITS = ("", "k", "M", "G", "T")


def parse_duration(text: str, option: str = "duration") -> float:
    """Seconds. A bare number is seconds; units go from large to small, each at most once."""
    seconds = _read_duration(text)
    if seconds is None:
        raise _unusable(option, text, _DURATION, hint=_meant(text))
    if seconds > LONGEST_SECONDS:
        raise _unusable(option, text, "a duration of at most 36500d")
    return seconds


def _read_duration(text: str) -> float | None:
    # By hand: the import of `re` alone would take a third of the time of a launch.
    seconds, units, rest = 0.0, tuple(_SECONDS), text
    while rest or not text:
        number, rest = _take_number(rest)
        after = rest.lstrip("dhms")
        unit, rest = rest[: len(rest) - len(after)], after
        if number == text:
            unit = "s"
        if not number or unit not in units:
            return None
        units = units[units.index(unit) + 1 :]
        seconds += float(number) * _SECONDS[unit]
    return seconds


def seconds_given(value: object, argument: str) -> float:
    """Seconds, from a number or a text such as `90s`; InvalidOption that names the argument."""
    if isinstance(value, str):
        return parse_duration(value, argument)
    if not is_number(value):
        raise _unusable(argument, value, "a number of seconds, or a text such as '90s'")
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is one, and none of those that compare with nothing."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= _ENDLESS


def parse_size(text: str, option: str = "size") -> int:
    """Bytes. Units are binary: K is 1024."""
    number, rest = _take_number(text)
    suffix = rest.upper() if rest.isascii() else "?"
    unit = suffix[:1] if suffix[:1] in tuple("KMGTP") else ""
    if not number or suffix.removeprefix(unit) not in ("", "B", "IB"):
        raise _unusable(option, text, "a size such as 4096, 512M or 2G")
    power = " KMGTP".index(unit or " ")
    size = int(number) << 10 * power if number.isdigit() else int(float(number) * 1024**power)
    if size > LARGEST_BYTES:
        raise _unusable(option, text, "a size below 4096P")
    return size


def parse_count(text: str, option: str = "") -> int:
    """`200000`, `500k`, `2M`."""
    number, rest = _take_number(text)
    power = {"": 0, "k": 1, "m": 2, "g": 3}.get(rest.lower() if rest.isascii() else "?")
    if not number or power is None or (power == 0 and not number.isdigit()):
        raise _unusable(option, text, "a whole number such as 200000, 500k or 2M")
    count: float = int(number) if number.isdigit() else float(number)
    scale: int = 10 ** (3 * power)
    return round(count * scale)


def parse_money(text: str, option: str = "") -> float:
    """`2.50`, `$2.50`."""
    number, rest = _take_number(text.removeprefix("$"))
    if not number or rest:
        raise _unusable(option, text, "an amount in US dollars such as 2.50")
    return float(number)


def _take_number(text: str) -> tuple[str, str]:
    """The number that a text begins with, such as 90 or 0.5, or "", and what follows it."""
    rest = text.lstrip(f"{_DIGITS}.")
    number = text[: len(text) - len(rest)]
    whole, point, fraction = number.partition(".")
    is_number = 1 <= len(whole) <= 18 and (not point or (fraction.isdigit() and len(fraction) <= 9))
    return (number, rest) if is_number else ("", text)


def _meant(text: str) -> str | None:
    """`5min`, `2 hours` or `1 day` as it is written here; None: not understood."""
    import re

    part = (
        r"([\d.]+)\s*(d(?:ays?)?|h(?:(?:ou)?rs?)?|ms|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)[\s,]*"
    )
    spelled = text.strip().lower()
    if not re.fullmatch(f"(?:{part})+", spelled):
        return None
    found = re.findall(part, spelled)
    meant = "".join(number + ("ms" if unit == "ms" else unit[0]) for number, unit in found)
    return None if _read_duration(meant) is None else f"did you mean {meant}?"


def _unusable(option: str, value: object, expected: str, hint: str | None = None) -> InvalidOption:
    return InvalidOption(
        f"{option}: {value!r} is not {expected}",
        hint=hint,
        option=option,
        value=value,
        expected=expected,
    )


def size(count: float | None) -> str:
    """Bytes as `412M`, `11.2G`; three digits are enough to act on."""
    return _scaled(count, 1024, _SIZE_UNITS, 99.95)


def count(number: float | None) -> str:
    """How many: `812`, `6k`, `81k`, `1.2M`."""
    return _scaled(number, 1000, _COUNT_UNITS, 9.95)


def _scaled(number: float | None, step: int, units: tuple[str, ...], fine_below: float) -> str:
    """At most three digits before the unit; a small number of a larger unit has one decimal."""
    if number is None:
        return ""
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(units) - 1:
        value, unit = value / step, unit + 1
    text = f"{value:.1f}" if unit and value < fine_below else f"{value:.0f}"
    return text.removesuffix(".0") + units[unit]


def percent(share: float | None) -> str:
    """Of one core: `38%`, `790%`."""
    return "" if share is None else f"{share:.0f}%"


def money(dollars: float | None) -> str:
    """`$0.31`; less than a cent is not shown as 0."""
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


def in_its_unit(field: str, value: object) -> str:
    """The value of an option as people write it: the end of its field's name says the unit."""
    if isinstance(value, (int, float)) and field.endswith("_seconds"):
        return span(value)
    if isinstance(value, int) and field.endswith("_bytes"):
        return size(value)
    return f"{value}"
