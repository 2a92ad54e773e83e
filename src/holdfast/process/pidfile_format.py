"""What a pid file says: text and times to ProcessIdentity, and back. Opens nothing.

Reads Holdfast's own form, a bare integer, `<pid> <start ticks>`, `<pid> <create_time>` (seconds
since the epoch, as psutil has it), and JSON with `pid` and perhaps `startToken`. Anything else is
InvalidPidFile, never "not running": a zero or negative number would name a process group or
all processes.
"""

from __future__ import annotations

import os
import re
import time

from holdfast.errors import InvalidPid, InvalidPidFile, InvalidToken
from holdfast.process import this_host
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity, valid_pid
from holdfast.process.procfs import TICKS_PER_SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

LARGEST = 4096
SLACK_SECONDS = 2.0  # a leap second; the grain of ticks and of file times
_NUMBER = re.compile(r"[0-9]{1,20}")
_CREATE_TIME = re.compile(r"([0-9]{9,11})\.([0-9]{1,9})")
_SECONDS_SINCE_THE_EPOCH = range(10**9, 10**11)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LSTART = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +(" + "|".join(_MONTHS) + r") +(\d{1,2})"
    r" +(\d{2}):(\d{2}):(\d{2}) +(\d{4})",
    re.ASCII,
)


def write_record(identity: ProcessIdentity) -> bytes:
    """What Holdfast writes: the PID, so that any program can read it, and the token."""
    return f"{identity.pid} {identity.token}\n".encode("ascii")


def parse_record(content: bytes) -> ProcessIdentity:
    """The identity that the content names. Parts that an old form lacks are None."""
    if len(content) > LARGEST:
        _invalid(f"it is larger than {LARGEST} bytes")
    if b"\0" in content:
        _invalid("it holds zero bytes")
    try:
        text = content.decode("utf-8").strip(" \t\r\n")
    except UnicodeDecodeError:
        _invalid("it is not text")
    if not text:
        _invalid("it is empty")
    if text.startswith("{"):
        return _parse_json(text)
    words = text.split(" ")
    if len(words) == 1:
        return ProcessIdentity(_pid(words[0]))
    if len(words) == 2:
        return _parse_pair(_pid(words[0]), words[1])
    return _invalid(f"{text[:80]!r} is not a PID")


def with_boot(recorded: ProcessIdentity, file: os.stat_result) -> ProcessIdentity:
    """The record, with this boot's id where the file's times say that it was written in it.

    Equal start ticks prove nothing across a reboot. A file that was written after the process it
    names had started, by the clock of this boot, is of this boot. In doubt it is not.
    """
    ticks, place = recorded.start_ticks, this_host.place()
    if ticks is None or recorded.boot_id is not None or place.ticks_offset is None:
        return recorded
    booted_at = time.time() - boottime()
    # A change of a file's owner or name, or a restore, renews its change time alone.
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


def _parse_pair(pid: int, second: str) -> ProcessIdentity:
    if _NUMBER.fullmatch(second):
        return _with_number(pid, int(second))
    match = _CREATE_TIME.fullmatch(second)
    if match is not None:
        # The host says: a time of this clock, to the tick. Text of `ps` is of some time zone.
        micros = int(match[1]) * 1_000_000 + round(float(f"0.{match[2]}") * 1_000_000)
        return ProcessIdentity(pid, host=this_host.place().host, create_time=micros)
    try:
        identity = ProcessIdentity.parse(second)
    except InvalidToken as error:
        _invalid(error.message)
    if identity.pid != pid:
        _invalid(f"it says {pid}, but its token names {identity.pid}")
    return identity


def _with_number(pid: int, number: int) -> ProcessIdentity:
    """Start ticks; or seconds since the epoch, where the clock has not come to such a tick."""
    ticks_so_far = boottime() * TICKS_PER_SECOND
    if number > ticks_so_far and number in _SECONDS_SINCE_THE_EPOCH:
        return ProcessIdentity(pid, create_time=number * 1_000_000)
    return ProcessIdentity(pid, start_ticks=number or None)


def _parse_json(text: str) -> ProcessIdentity:
    import json

    try:
        document = json.loads(text, parse_constant=_not_a_number, object_pairs_hook=_unambiguous)
    except (ValueError, RecursionError):
        _invalid("its JSON can't be read")
    if not isinstance(document, dict) or "pid" not in document:
        _invalid("its JSON has no pid")
    pid = document["pid"]
    if type(pid) is not int:  # true is an int to Python
        _invalid(f"its pid is {str(pid)[:80]!r}")
    return _with_start(_in_range(pid), document.get("startToken"))


def _with_start(pid: int, start: object) -> ProcessIdentity:
    """`startToken`: ticks as number or text, or the local time that `ps -o lstart` prints."""
    if start is None:
        return ProcessIdentity(pid)
    if type(start) is int and 0 <= start < 10**20:
        return ProcessIdentity(pid, start_ticks=start or None)
    if isinstance(start, str):
        if _NUMBER.fullmatch(start):
            return ProcessIdentity(pid, start_ticks=int(start) or None)
        seconds = _parse_lstart(start.strip(" "))
        if seconds is not None:
            return ProcessIdentity(pid, create_time=seconds * 1_000_000)
    return _invalid(f"its startToken {str(start)[:80]!r} is neither ticks nor `ps lstart` text")


def _parse_lstart(text: str) -> int | None:
    match = _LSTART.fullmatch(text)
    if match is None:
        return None
    month = _MONTHS.index(match[1]) + 1
    day, hour, minute, second, year = (int(match[place]) for place in range(2, 7))
    if not (1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    try:
        seconds = time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
    return int(seconds) if seconds > 0 else None


def _pid(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        _invalid(f"{word[:80]!r} is not a PID")
    return _in_range(int(word))


def _in_range(pid: int) -> int:
    try:
        return valid_pid(pid)
    except InvalidPid:
        return _invalid(f"{str(pid)[:80]} is not a PID")


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(name)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _invalid(why: str) -> NoReturn:
    raise InvalidPidFile(
        f"the pid file names no process: {why}",
        hint="look at the file; when you are sure that nothing runs, remove it",
    )
