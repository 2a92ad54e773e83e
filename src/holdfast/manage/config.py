"""The user's `config.toml`: defaults and presets for `run`, and what retention keeps.

Read from the XDG configuration directory alone, never from the working directory: a repository
must not decide what is run. On the launch path: a file that is not there costs one failed open.
"""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, InvalidProfile
from holdfast.process.paths import user_home
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Options = dict[str, Any]

NEWEST_KEPT = 500

# Besides the limits and manners of `manage/request.py`: keys that a table may have, by type.
_PLAIN: dict[str, type] = {"agent": str, "cwd": str, "env_file": str, "pty": bool, "worktree": str}
_TABLES = ("env", "tags")


class Retention(Record):
    """What is kept of ended runs. None: no limit of that kind."""

    keep: int | None = NEWEST_KEPT
    older_than_seconds: float | None = None
    max_bytes: int | None = None


class Config(Record):
    """What the file says; every value is checked. Options have the library's names."""

    path: str
    defaults: Options = {}
    presets: dict[str, Options] = {}
    retention: Retention = Retention()

    def preset(self, name: str) -> Options:
        """The options of `-P NAME`; InvalidOption when there is no such preset."""
        if name not in self.presets:
            known = ", ".join(sorted(self.presets)) or "none"
            raise InvalidOption(
                f"-P: there is no preset {name!r} in {self.path}",
                hint=f"it has: {known}",
                option="preset",
                value=name,
            )
        return self.presets[name]


def config_path() -> str:
    """Where the file is looked for; nowhere, where there is no home directory."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the XDG standard: a relative one is to be ignored
        home = user_home()
        base = os.devnull if home is None else f"{home}/.config"
    return f"{base}/holdfast/config.toml"


def load_config(path: str | None = None) -> Config:
    """The checked configuration; the built-in one where there is no file."""
    path = config_path() if path is None else path
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return Config(path)
    except OSError as error:
        if not os.access(os.path.dirname(path), os.X_OK):  # the home of whom we were before `su`
            return Config(path)
        raise InvalidProfile(f"{path} can't be read: {error.strerror}", path=path) from None
    return _check(path, _parse(path, data))


def _parse(path: str, data: bytes) -> Options:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidProfile(f"{path} is not TOML: {error}", path=path) from None


def _check(path: str, document: Options) -> Config:
    known = ("defaults", "preset", "retention")
    for name, table in document.items():
        if name not in known:
            expected = "it may have [defaults], [preset.NAME] and [retention]"
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
    )


def _options(path: str, table: str, values: Mapping[str, Any]) -> Options:
    """A table's options under the library's names; `idle-timeout` and `idle_timeout` are one."""
    from holdfast.manage.request import OPTIONS

    options: Options = {}
    for key, value in values.items():
        name, where = key.replace("-", "_"), f"{table}.{key}"
        if name in options:
            raise _mistake(path, where, "is there twice", "write it with - or with _, once")
        if name in _TABLES:
            _expect_texts(path, where, value)
        elif name in _PLAIN:
            _expect(path, where, value, _PLAIN[name])
        elif name in OPTIONS:
            _check_wanted(path, where, name, value)
        else:
            known = sorted({*OPTIONS, *_PLAIN, *_TABLES})
            raise _mistake(path, where, "is not known", f"options are: {', '.join(known)}")
        options[name] = value
    return options


def _check_wanted(path: str, where: str, name: str, value: object) -> None:
    """By the same rules that a start would apply, but with the file and the key in the message."""
    from holdfast.manage.request import OPTIONS
    from holdfast.run.spec import Wanted

    field, read = OPTIONS[name]
    try:
        if isinstance(value, bool) and Wanted.__annotations__[field] != "bool":
            raise InvalidOption(f"{value} is neither a text nor a number")
        Wanted(**{field: read(value, key_of(where))}).check()
    except InvalidOption as error:
        raise _mistake(path, where, f"can't be used: {error.message}") from None
    except (TypeError, ValueError):
        raise _mistake(path, where, f"can't be a {type(value).__name__}") from None


def key_of(where: str) -> str:
    """The last part of a dotted key."""
    return where.rpartition(".")[2]


def _retention(path: str, values: Mapping[str, Any]) -> Retention:
    from holdfast.run.quantities import parse_duration, parse_size

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
