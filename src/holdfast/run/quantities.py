"""Durations and sizes as people write them: `1h30m`, `0.5s`, `512M`."""

from __future__ import annotations

from holdfast.errors import InvalidOption
from holdfast.run.spec import LARGEST_BYTES, LONGEST_SECONDS

_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"(\d{1,18}(?:\.\d{1,9})?)"
_DURATION = "".join(rf"(?:{_NUMBER}{unit})?" for unit in _SECONDS)
_SIZE = _NUMBER + r"([KMGTP]?)(?:i?B)?"


def parse_duration(text: str, option: str = "duration") -> float:
    """Seconds. A bare number is seconds; units go from large to small, each at most once."""
    import re

    if re.fullmatch(_NUMBER, text, re.ASCII):
        text += "s"
    match = re.fullmatch(_DURATION, text, re.ASCII)
    if not text or match is None:
        raise _unusable(option, text, "a duration such as 90, 90s, 10m, 1h30m or 2d")
    parts = zip(match.groups(), _SECONDS.values(), strict=True)
    seconds = sum(float(number) * unit for number, unit in parts if number is not None)
    if seconds > LONGEST_SECONDS:
        raise _unusable(option, text, "a duration of at most 36500d")
    return seconds


def parse_size(text: str, option: str = "size") -> int:
    """Bytes. Units are binary: K is 1024."""
    import re

    match = re.fullmatch(_SIZE, text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise _unusable(option, text, "a size such as 4096, 512M or 2G")
    number, unit = match.groups()
    power = " KMGTP".index(unit.upper() or " ")
    size = int(number) << 10 * power if number.isdigit() else int(float(number) * 1024**power)
    if size > LARGEST_BYTES:
        raise _unusable(option, text, "a size below 4096P")
    return size


def _unusable(option: str, value: str, expected: str) -> InvalidOption:
    return InvalidOption(
        f"{option}: {value!r} is not {expected}", option=option, value=value, expected=expected
    )
