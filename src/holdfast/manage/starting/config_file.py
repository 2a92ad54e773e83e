"""Reads and checks the user's `config.toml`. Loaded where there is one."""

from __future__ import annotations

import tomllib

from holdfast.errors import InvalidOption, InvalidProfile
from holdfast.manage.starting.config import Config, Retention
from holdfast.manage.starting.option_values import check_wanted
from holdfast.manage.starting.request import read_value
from holdfast.option_type import PAIRS
from holdfast.options import OPTIONS, Wanted
from holdfast.run.units import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.option_type import Option

    Options = dict[str, Any]


def _parse(path: str, data: bytes) -> Options:
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidProfile(f"{path} is not TOML: {error}", path=path) from None


def read_config(path: str, data: bytes) -> Config:
    """What the file says; InvalidProfile names the file, the key and the mistake."""
    document = _parse(path, data)
    known = ("defaults", "preset", "retention", "worktree", "fleet")
    for name, table in document.items():
        if name not in known:
            expected = "it may have [defaults], [preset.NAME], [retention], [worktree] and [fleet]"
            raise _mistake(path, name, "is not known", expected)
        _expect_table(path, name, table)
    presets = document.get("preset", {})
    for name, table in presets.items():
        _expect_table(path, f"preset.{name}", table)
    return Config(
        path,
        _options(path, "defaults", document.get("defaults", {})),
        {name: _options(path, f"preset.{name}", table) for name, table in presets.items()},
        _retention(path, document.get("retention", {})),
        _worktree(path, document.get("worktree", {})),
        document.get("fleet", {}),
    )


def _options(path: str, table: str, values: Mapping[str, Any]) -> Options:
    """A table's options under the library's names; `idle-timeout` and `idle_timeout` are one."""
    options: Options = {}
    for key, value in values.items():
        name, where = key.replace("-", "_"), f"{table}.{key}"
        if name in options:
            raise _mistake(path, where, "is there twice", "write it with - or with _, once")
        option = OPTIONS.get(name)
        if option is None or not option.in_config:
            known = sorted(name for name, option in OPTIONS.items() if option.in_config)
            raise _mistake(path, where, "is not known", f"options are: {', '.join(known)}")
        _check_option(path, where, option, value)
        options[name] = value
    return options


def _check_option(path: str, where: str, option: Option, value: object) -> None:
    if option.kind in PAIRS:
        _expect_texts(path, where, value)
    elif option.field:
        _check_wanted(path, where, option, value)
    else:
        _expect(path, where, value, bool if option.is_flag else str)


def _check_wanted(path: str, where: str, option: Option, value: object) -> None:
    """By the same rules that a start would apply, but with the file and the key in the message."""
    try:
        if isinstance(value, bool) and not option.is_flag:
            raise InvalidOption(f"{value} is neither a text nor a number")
        check_wanted(Wanted(**{option.field: read_value(option, value, key_of(where))}))
    except InvalidOption as error:
        raise _mistake(path, where, f"can't be used: {error.message}") from None
    except (TypeError, ValueError):
        raise _mistake(path, where, f"can't be a {type(value).__name__}") from None


def key_of(where: str) -> str:
    """The last part of a dotted key."""
    return where.rpartition(".")[2]


def _retention(path: str, values: Mapping[str, Any]) -> Retention:
    readers: dict[str, tuple[str, Any]] = {
        "keep": ("keep", int),
        "older_than": ("older_than_seconds", parse_duration),
        "max_bytes": ("max_bytes", parse_size),
    }
    found: Options = {}
    for key, value in values.items():
        where = f"retention.{key}"
        if key.replace("-", "_") not in readers:
            raise _mistake(path, where, "is not known", f"keys are: {', '.join(readers)}")
        field, read = readers[key.replace("-", "_")]
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not whole and (field == "keep" or not isinstance(value, str)):
            raise _mistake(path, where, f"can't be {value!r}")
        try:
            found[field] = value if whole else read(value, key)
        except InvalidOption as error:
            raise _mistake(path, where, f"can't be used: {error.message}") from None
    return Retention(**found)


def _worktree(path: str, values: Mapping[str, Any]) -> Options:
    for key, value in values.items():
        if key != "setup":
            raise _mistake(path, f"worktree.{key}", "is not known", "its one key is: setup")
        _expect(path, "worktree.setup", value, str)
    return {"worktree_setup": values["setup"]} if values else {}


def _expect_table(path: str, where: str, value: object) -> None:
    if not isinstance(value, dict):
        raise _mistake(path, where, "is not a table", f"write [{where}] above its keys")


def _expect_texts(path: str, where: str, value: object) -> None:
    _expect_table(path, where, value)
    assert isinstance(value, dict)
    for name, text in value.items():
        _expect(path, f"{where}.{name}", text, str)


def _expect(path: str, where: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        expected = "true or false" if kind is bool else "a text in quotes"
        raise _mistake(path, where, f"is a {type(value).__name__}", f"it should be {expected}")


def _mistake(path: str, where: str, what: str, hint: str | None = None) -> InvalidProfile:
    return InvalidProfile(f"{path}: {where} {what}", hint=hint, path=path, key=where)
