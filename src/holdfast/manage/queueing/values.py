"""The values of the options of a run that waits: queue, priority, other runs, a time."""

from __future__ import annotations

from holdfast.errors import InvalidOption
from holdfast.process.clock import iso_time
from holdfast.run.names import valid_name
from holdfast.run.queueing.disk import AUTO
from holdfast.run.queueing.plan import MOST_PRIORITY
from holdfast.run.units import LARGEST_BYTES, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OFF = "off"  # no need of memory, whatever the queue's runs need otherwise


def read_queue(value: Any, label: str) -> str:
    """A queue's name."""
    if not isinstance(value, str) or not valid_name(value):
        expected = "a queue's name: 1 to 64 of A-Z a-z 0-9 . _ - and a letter or digit first"
        raise InvalidOption(f"{label}: {value!r} is not {expected}", option="queue", value=value)
    return value


def read_priority(value: Any, label: str) -> int:
    """From -1000 to 1000; the highest starts first."""
    text = value.strip() if isinstance(value, str) else value
    try:
        number = int(text) if not isinstance(text, (bool, float)) else None
    except (TypeError, ValueError):
        number = None
    if number is None or abs(number) > MOST_PRIORITY:
        expected = f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
        raise InvalidOption(f"{label}: {value!r} is not {expected}", option="priority", value=value)
    return number


def read_need(value: Any, label: str) -> int | str:
    """Memory: bytes, `auto` or `off`."""
    if value in (AUTO, OFF):
        return str(value)
    if isinstance(value, str) and value[:1].isdigit():
        value = parse_size(value, label)
    if type(value) is not int or not 0 < value <= LARGEST_BYTES:
        expected = f"a size such as 300M, {AUTO} or {OFF}"
        message = f"{label}: {value!r} is not {expected}"
        raise InvalidOption(message, option="needs-memory", value=value, expected=expected)
    return value


def read_refs(value: Any, label: str) -> list[str]:
    """Runs: names, ids, or objects of the library."""
    given = [value] if isinstance(value, str) or hasattr(value, "id") else value
    try:
        refs = [ref if isinstance(ref, str) else ref.id for ref in given]
    except (TypeError, AttributeError):
        expected = "a run, or a list of runs"
        raise InvalidOption(f"{label}: {value!r} is not {expected}", option=label) from None
    return refs


def read_moment(value: Any, label: str) -> str:
    """An instant: `03:00` (the next one), or a date and time; local unless it names a zone."""
    from datetime import datetime, time, timedelta

    now = datetime.now().astimezone()
    try:
        if isinstance(value, datetime):
            moment = value.astimezone()
        elif len(value) <= 8 and ":" in value:
            clock = time.fromisoformat(value)
            moment = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second)
            moment = moment.replace(microsecond=0)
            if moment <= now:
                moment = (moment.replace(tzinfo=None) + timedelta(days=1)).astimezone()
        else:
            moment = datetime.fromisoformat(value).astimezone()
        return iso_time(moment.timestamp())
    except (TypeError, ValueError, OverflowError, OSError):
        expected = "a time: 03:00, or 2026-11-18T03:00"
        raise InvalidOption(f"{label}: {value!r} is not {expected}", option="at") from None
