"""Lines of an agent's output as JSON records and values, whatever the bytes. Never raises.

Owns the distrust: an agent's output is input from outside, so numbers, texts and ids are checked
before they become facts, argv or part of a path.
"""

from __future__ import annotations

import json
import math
import re

from holdfast.agents.profile import value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.agents.profile import Json, Path, When

MAX_TEXT = 256 * 1024
_MAX_PLAIN_LINE = 64 * 1024
_MOST_NAMES = 100
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class JsonLine:
    """One whole line, parsed once and only when a rule asks."""

    def __init__(self, content: bytes) -> None:
        self._content = content.strip()
        self._records: list[Json] | None = None
        self.is_json = self._content[:1] in (b"{", b"[")

    def may_hold(self, needles: tuple[bytes, ...] | None) -> bool:
        """False when no rule can match: spares parsing most lines of a long stream."""
        return needles is None or any(needle in self._content for needle in needles)

    @property
    def records(self) -> list[Json]:
        """The JSON objects in it: one, or those of an array; none for anything else."""
        if self._records is None:
            self._records = _parse(self._content) if self.is_json else []
        return self._records

    def seen_by(self, when: When) -> list[Json]:
        """The records that the rule is about; the groups of a plain line's pattern are one."""
        if when.match is not None:
            return [record for record in self.records if when.match.holds(record)]
        if when.line is None or self.is_json or len(self._content) > _MAX_PLAIN_LINE:
            return []
        found = when.line.search(self._content.decode("utf-8", "replace"))
        return [dict(found.groupdict())] if found else []


def _parse(content: bytes) -> list[Json]:
    try:
        value = json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    values = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, dict)]


def needles(whens: Iterable[When]) -> tuple[bytes, ...] | None:
    """Bytes of which a line must hold one for any of the rules to match; None: unknown."""
    found: set[bytes] = set()
    for when in whens:
        values = _texts_needed(when)
        if not values:
            return None
        found.update(json.dumps(value, ensure_ascii=False).encode() for value in values)
    return tuple(sorted(found))


def _texts_needed(when: When) -> list[str]:
    for _, allowed in when.match.needs if when.match else ():
        texts = [value for value in allowed or () if isinstance(value, str) and value.isascii()]
        if allowed and len(texts) == len(allowed):
            return texts
    return []


def text_at(record: Json, paths: Iterable[Path]) -> str | None:
    """The first of the paths that holds a text that is not empty, cut to a sane length."""
    for path in paths:
        value = value_at(record, path)
        if isinstance(value, str) and value:
            # A lone surrogate ("\ud800" is legal JSON) can't be written as UTF-8.
            return value[:MAX_TEXT].encode("utf-8", "replace").decode()
    return None


def session_id_at(record: Json, path: Path) -> str | None:
    """An id that is safe as an argument and in a file name; None for anything else."""
    value = value_at(record, path)
    return value if isinstance(value, str) and _SESSION_ID.fullmatch(value) else None


def number_at(record: Json, path: Path) -> float | int | None:
    """A finite number that is not negative; a plain line's digits are one too."""
    value = value_at(record, path)
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 32 else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) and 0 <= value < 2**53 else None


def total_at(record: Json, paths: Iterable[Path]) -> int | None:
    """The sum over the paths that hold a number (`*`: every one there); None when none does.

    What a path that begins with `-` leads to is taken off.
    """
    found = []
    for path in paths:
        sign, plain = (-1, (path[0][1:], *path[1:])) if path[0][0] == "-" else (1, path)
        numbers = (number_at(record, place) for place in _places(record, plain))
        found += [sign * number for number in numbers if number is not None]
    total = int(sum(found))
    return total if found and total >= 0 else None


def _places(record: Json, path: Path) -> list[Path]:
    if "*" not in path:
        return [path]
    before, after = path[: path.index("*")], path[path.index("*") + 1 :]
    inside = value_at(record, before)
    names = list(inside)[:_MOST_NAMES] if isinstance(inside, dict) else []
    return [(*before, name, *after) for name in names if isinstance(name, str)]
