"""The values of options: how each kind is read, which values are allowed, what completes it.

`options.py` says which option is of which kind. Only a launcher loads this, no shim.
"""

from __future__ import annotations

from holdfast import options
from holdfast.errors import InvalidOption, argument
from holdfast.record import Record
from holdfast.run.checked_json import mismatch
from holdfast.run.units import (
    LARGEST_BYTES,
    LONGEST_SECONDS,
    MOST_DOLLARS,
    MOST_TOKENS,
    parse_count,
    parse_duration,
    parse_money,
    parse_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.option_type import Option
    from holdfast.options import Wanted


class ValueKind(Record):
    """One kind of value. `completes` is the words, or the name of what to look up."""

    metavar: str
    read: Callable[[Any, str], Any] | None = None  # a text, for the option in the label
    fits: Callable[[Any], bool] | None = None
    expected: str = ""  # "X is not ...", of a value that does not fit
    completes: str | tuple[str, ...] = ()


def kind_of(option: Option) -> ValueKind:
    """How an option's value is read, checked and completed."""
    if isinstance(option.kind, str):
        return KINDS[option.kind]
    words = option.kind
    return ValueKind("WORD", None, words.__contains__, " or ".join(words), words)


def check_wanted(wanted: Wanted) -> Wanted:
    """The record itself, or InvalidOption that names the first option that can't be used."""
    for option in options.wanted_options():
        value = getattr(wanted, option.field)
        if value is option.default:
            continue  # not asked for
        expected = mismatch(wanted.__annotations__[option.field], value)
        if expected is None and value is not None:
            kind = kind_of(option)
            expected = kind.expected if kind.fits and not kind.fits(value) else None
        if expected is not None:
            raise unusable(option.name.replace("_", "-"), value, expected)
    return wanted


def unusable(
    option: str, value: object, expected: str, *, what: str | None = None
) -> InvalidOption:
    """The error for a value. `what` is shown instead of one that may be a secret."""
    shown = repr(value) if what is None else what
    return InvalidOption(
        f"{argument(option)}: {shown} is not {expected}",
        option=option,
        value=value,
        expected=expected,
    )


def _seconds(value: Any, label: str) -> Any:
    return parse_duration(value, label) if isinstance(value, str) else _as_float(value)


def _as_float(value: Any) -> Any:
    """What is no number, or too large for one, stays as it is: it is refused with the rest."""
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _path(value: Any, _label: str) -> Any:
    import os

    from holdfast.process.this_host import absolute

    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return absolute(path) if isinstance(path, str) and path else value


def _bytes(value: Any, label: str) -> Any:
    return parse_size(value, label) if isinstance(value, str) else value


def _count(value: Any, label: str) -> Any:
    return parse_count(value, label) if isinstance(value, str) else value


def _dollars(value: Any, label: str) -> Any:
    return parse_money(value, label) if isinstance(value, str) else _as_float(value)


def _read_queue(value: Any, label: str) -> str:
    from holdfast.manage.queueing.values import read_queue  # only a run that waits needs it

    return read_queue(value, label)


def _read_priority(value: Any, label: str) -> int:
    from holdfast.manage.queueing.values import read_priority

    return read_priority(value, label)


def _read_refs(value: Any, label: str) -> list[str]:
    from holdfast.manage.queueing.values import read_refs

    return read_refs(value, label)


def _read_moment(value: Any, label: str) -> str:
    from holdfast.manage.queueing.values import read_moment

    return read_moment(value, label)


def _read_need(value: Any, label: str) -> int | str:
    from holdfast.manage.queueing.values import read_need

    return read_need(value, label)


def _durations(value: Any, label: str) -> Any:
    """A text such as `15m,30m,1h`; a program may give a list, of texts or of seconds."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)):
        return value  # refused with the rest
    texts = [one.strip() if isinstance(one, str) else f"{one}s" for one in parts]
    for text in texts:
        parse_duration(text, label)
    return ",".join(texts)


def _is_limit(seconds: float) -> bool:
    return 0 < seconds <= LONGEST_SECONDS


def _is_duration(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_SECONDS


def _is_size(size: int) -> bool:
    return 0 < size <= LARGEST_BYTES


def _is_count(count: int) -> bool:
    return 0 < count <= MOST_TOKENS


def _is_money(dollars: float) -> bool:
    return 0 < dollars <= MOST_DOLLARS


def _is_pattern(text: str) -> bool:
    import re

    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_signal(text: str) -> bool:
    from holdfast.process.signals import parse_signal

    try:
        parse_signal(text)
    except InvalidOption:
        return False
    return True


def _amount(value: Any, _label: str) -> Any:
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10
    return int(value) if is_number else value


def _notices(value: Any, _label: str) -> Any:
    """A text such as `failed,anomaly`; a program may give a list."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) for one in texts):
        return value  # refused with the rest
    return ",".join(dict.fromkeys(one.strip() for one in texts))


def _are_notices(text: str) -> bool:
    return all(one in options.NOTICE_KINDS for one in text.split(","))


def _is_restart_policy(text: str) -> bool:
    policy, colon, count = text.partition(":")
    counted = count.isascii() and count.isdigit() and len(count) <= 9
    return text == "no" or (policy in ("on-failure", "always") and counted == bool(colon))


def _is_on_limit(text: str) -> bool:
    policy, colon, count = text.partition(":")
    counted = count.isascii() and count.isdigit() and len(count) <= 9 and int(count) > 0
    return text == "off" or (policy == "resume" and counted == bool(colon))


KINDS = {
    "flag": ValueKind(""),
    "text": ValueKind("TEXT"),
    "program": ValueKind("NAME", None, bool, "the name of a program"),
    "pattern": ValueKind("REGEX", None, _is_pattern, "a regular expression"),
    "duration": ValueKind("D", _seconds, _is_duration, "from 0 to 36500d"),
    "interval": ValueKind("D", _seconds, _is_duration, "from 0 (no samples) to 36500d"),
    "limit": ValueKind("D", _seconds, _is_limit, "more than 0 and at most 36500d"),
    "size": ValueKind("S", _bytes, _is_size, "more than 0 and below 4096P"),
    "count": ValueKind("N", _count, _is_count, "a whole number such as 200000 or 2M"),
    "money": ValueKind("USD", _dollars, _is_money, "an amount in US dollars such as 2.50"),
    "signal": ValueKind("SIG", None, _is_signal, "the name of a signal", "signals"),
    "restart": ValueKind(
        "POLICY",
        None,
        _is_restart_policy,
        "no, on-failure[:N] or always[:N]",
        ("no", "on-failure", "always"),
    ),
    "on_limit": ValueKind(
        "POLICY", None, _is_on_limit, "off, resume or resume:N", ("off", "resume")
    ),
    "durations": ValueKind("D,D...", _durations, bool, "a list such as 15m,30m,1h"),
    "notices": ValueKind(
        "KINDS",
        _notices,
        _are_notices,
        f"a list of {', '.join(options.NOTICE_KINDS)}",
        tuple(options.NOTICE_KINDS),
    ),
    "secrets": ValueKind("FILE", _path, bool, "the path of a file", "files"),
    "variables": ValueKind("K=V", completes="variables"),
    "tags": ValueKind("K=V", completes="tags"),
    "file": ValueKind("FILE", completes="files"),
    "files": ValueKind("FILE", completes="files"),
    "directory": ValueKind("DIR", completes="directories"),
    "agent": ValueKind("NAME", completes="agent choices"),
    "queue": ValueKind("Q", _read_queue, completes="queues"),
    "priority": ValueKind("N", _read_priority),
    "need": ValueKind("S|auto|off", _read_need, completes=("auto", "off")),
    "runs": ValueKind("RUN", _read_refs, completes="runs"),
    "moment": ValueKind("T", _read_moment),
    "preset": ValueKind("PRESET", completes="presets"),
    "where": ValueKind("WHERE", completes="engines"),
    "amount": ValueKind("N", _amount),
}
