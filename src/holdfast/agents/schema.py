"""Turns values of a TOML file into the parts of a profile, or says exactly what is wrong.

Each reader takes a value and its place, and raises InvalidProfile naming file, key and what is
expected. Off the launch path: only the loader imports it.
"""

from __future__ import annotations

import re
import string

from holdfast.agents.profile import Match, When
from holdfast.errors import InvalidProfile
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from holdfast.agents.profile import Path

    Reader = Callable[[object, "KeyPath"], Any]


class KeyPath(Record):
    """Where in which file a value stands."""

    file: str
    key: str = ""

    def below(self, key: str) -> KeyPath:
        quoted = key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'
        return self.replace(key=f"{self.key}.{quoted}" if self.key else quoted)

    def item(self, number: int) -> KeyPath:
        return self.replace(key=f"{self.key}[{number}]")

    def fail(self, problem: str, expected: str) -> NoReturn:
        where = f"{self.file}: {self.key}" if self.key else self.file
        raise InvalidProfile(
            f"{where}: {problem}",
            hint=f"expected {expected}",
            file=self.file,
            key=self.key,
            expected=expected,
        )


def _named(value: object) -> str:
    names = {bool: "a flag", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "a table")


def _wrong(place: KeyPath, value: object, expected: str) -> NoReturn:
    place.fail(f"is {_named(value)}", expected)


def text(value: object, place: KeyPath) -> str:
    if not isinstance(value, str) or not value:
        _wrong(place, value, "a text that is not empty")
    return value


def texts_by_name(value: object, place: KeyPath) -> dict[str, str]:
    if not isinstance(value, dict):
        _wrong(place, value, "a table of texts")
    return {name: text(one, place.below(name)) for name, one in value.items()}


def flag(value: object, place: KeyPath) -> bool:
    if not isinstance(value, bool):
        _wrong(place, value, "true or false")
    return value


def seconds(value: object, place: KeyPath) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 86400:
        place.fail("is no number of seconds", "a number from 0 to 86400")
    return float(value)


def regex(value: object, place: KeyPath) -> re.Pattern[str]:
    source = text(value, place)
    try:
        return re.compile(source)
    except re.error as error:
        place.fail(f"is no regular expression: {error}", "a Python regular expression")


def regex_source(value: object, place: KeyPath) -> str:
    return regex(value, place).pattern


def path(value: object, place: KeyPath) -> Path:
    steps = tuple(text(value, place).split("."))
    if "" in steps:
        place.fail(f"is {value!r}", "a path such as usage.input_tokens")
    return steps


def one_of(*allowed: str) -> Reader:
    expected = "one of " + ", ".join(f'"{word}"' for word in allowed)

    def read(value: object, place: KeyPath) -> str:
        if value not in allowed:
            place.fail(f"is {value!r}", expected)
        return str(value)

    return read


class Each:
    """A list of what `reader` reads."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def __call__(self, value: object, place: KeyPath) -> tuple[Any, ...]:
        if not isinstance(value, list):
            _wrong(place, value, "a list")
        return tuple(self.reader(item, place.item(number)) for number, item in enumerate(value))


def template(*fields: str, needs: tuple[str, ...] = ()) -> Reader:
    """A text with {fields}; others are refused, and those of `needs` must be there."""
    known = "{" + "}, {".join(fields) + "}"

    def read(value: object, place: KeyPath) -> str:
        source = text(value, place)
        try:
            used = {name for _, name, _, _ in string.Formatter().parse(source) if name is not None}
        except ValueError as error:
            place.fail(f"is no template: {error}", f"a text with {known}")
        if strange := sorted(used - set(fields)):
            place.fail(f"uses {{{strange[0]}}}", f"only {known}")
        if missing := [name for name in needs if name not in used]:
            place.fail(f"lacks {{{missing[0]}}}", f"a text with {{{missing[0]}}}")
        return source

    return read


def sentence(value: object, place: KeyPath) -> str:
    """What a person reads: a text with {paths} into the record; {a|b}: the first that is there."""
    source = text(value, place)
    try:
        used = [name for _, name, _, _ in string.Formatter().parse(source) if name is not None]
    except ValueError as error:
        place.fail(f"is no template: {error}", "a text with {paths}")
    for name in used:
        for one in name.split("|"):
            path(one, place)
    return source


def words(*fields: str, needs: tuple[str, ...] = ()) -> Reader:
    """A command: a list of templates that together use all of `needs`."""

    def read(value: object, place: KeyPath) -> tuple[str, ...]:
        command: tuple[str, ...] = Each(template(*fields))(value, place)
        joined = " ".join(command)
        if missing := [name for name in needs if f"{{{name}}}" not in joined]:
            place.fail(f"lacks {{{missing[0]}}}", f"a command with {{{missing[0]}}}")
        return command

    return read


def match(value: object, place: KeyPath) -> Match:
    if not isinstance(value, dict) or not value:
        _wrong(place, value, 'a table of paths and values, such as { type = "result" }')
    return Match(needs=tuple(_need(key, value[key], place.below(key)) for key in value))


def _need(key: str, value: object, place: KeyPath) -> tuple[Path, tuple[object, ...] | None]:
    allowed = tuple(value) if isinstance(value, list) else (value,)
    if not allowed or not all(isinstance(one, (str, int, float, bool)) for one in allowed):
        place.fail(f"is {value!r}", 'a text, number or flag, a list of them, or "*"')
    return path(key, place), None if allowed == ("*",) else allowed


class Table:
    """Reads a TOML table into a record: unknown and missing keys are mistakes."""

    def __init__(
        self,
        make: Callable[..., Record],
        fields: Mapping[str, Reader],
        *,
        required: tuple[str, ...] = (),
        rule: bool = False,
    ) -> None:
        self._make = make
        self._required = required
        self._rule = rule
        self._fields = {**({"match": match, "line": regex} if rule else {}), **fields}

    def all_keys(self) -> set[str]:
        """Its keys and those of the tables in it."""
        readers = self._fields.values()
        inner = [reader.reader if isinstance(reader, Each) else reader for reader in readers]
        below = [reader.all_keys() for reader in inner if isinstance(reader, Table)]
        return set(self._fields).union(*below)

    def __call__(self, value: object, place: KeyPath) -> Any:
        if not isinstance(value, dict):
            _wrong(place, value, "a table")
        for key in value:
            if key not in self._fields:
                place.below(key).fail("is unknown", "one of " + ", ".join(sorted(self._fields)))
        for key in self._required:
            if key not in value:
                place.below(key).fail("is missing", f"a value for {key}")
        read = {key: self._fields[key](value[key], place.below(key)) for key in value}
        if self._rule:
            read["when"] = self._when(read, place)
        return self._make(**read)

    @staticmethod
    def _when(read: dict[str, Any], place: KeyPath) -> When:
        if ("match" in read) == ("line" in read):
            place.fail("does not say which lines it is about", "either match or line")
        return When(match=read.pop("match", None), line=read.pop("line", None))
