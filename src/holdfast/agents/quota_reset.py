"""When a used-up quota comes back, out of the many ways in which agents say it.

Imported only when a limit was hit: it needs datetime.
"""

from __future__ import annotations

import datetime as dt
import re

from holdfast.agents.json_lines import number_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.profile import Json, LimitRule

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_FAR = 366 * 86400  # a time further away than a year is a misreading


def retry_at(rule: LimitRule, record: Json, text: str, now: float) -> str | None:
    """The UTC time as ISO text; None when it is not said or makes no sense."""
    at: float | None = None
    if rule.retry_epoch is not None:
        at = _epoch(number_at(record, rule.retry_epoch))
    if at is None and rule.retry_seconds is not None:
        seconds = number_at(record, rule.retry_seconds)
        at = None if seconds is None else now + seconds
    if at is None and rule.retry_text is not None and (found := rule.retry_text.search(text)):
        at = _from_groups(found.groupdict(), now)
    if at is None or abs(at - now) > _FAR:
        return None
    return dt.datetime.fromtimestamp(int(at), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _epoch(value: float | None) -> float | None:
    return value / 1000 if value is not None and value > 1e11 else value


def _from_groups(groups: dict[str, str | None], now: float) -> float | None:
    """The named groups of a pattern: clock (with zone), duration, seconds or epoch."""
    if clock := groups.get("clock"):
        return _clock(clock, groups.get("zone"), now)
    if duration := groups.get("duration"):
        parts = re.findall(r"([\d.]+) ?([hms])", duration)
        return now + sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds := number_at(dict(groups), ("seconds",)):
        return now + seconds
    return _epoch(number_at(dict(groups), ("epoch",)))


def _clock(text: str, zone: str | None, now: float) -> float | None:
    """`11:43pm`, `3 PM`, `Nov 16th, 2026 9:05 AM`: of that zone, else of this machine."""
    here = _zone(zone)
    today = dt.datetime.fromtimestamp(now, here)
    plain = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text).upper().replace(" AM", "AM")
    plain = plain.replace(" PM", "PM")
    for form in ("%b %d, %Y %I:%M%p", "%I:%M%p", "%I%p", "%H:%M"):
        try:
            read = dt.datetime.strptime(plain, form)  # noqa: DTZ007  the zone is set below
        except ValueError:  # not of this form
            continue
        if "%Y" in form:
            return read.replace(tzinfo=today.tzinfo).timestamp()
        at = today.replace(hour=read.hour, minute=read.minute, second=0, microsecond=0)
        # A minute is said, not a second: 11:43pm may be the minute that has just begun.
        if at < today - dt.timedelta(minutes=1):
            at += dt.timedelta(days=1)
        return at.timestamp()
    return None


def _zone(name: str | None) -> dt.tzinfo | None:
    if not name:
        return None
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown here, or a name that is no name
        return None
