"""The user's `config.toml`: defaults and presets for `run`, and what retention keeps.

Read from the XDG configuration directory alone, never from the working directory: a repository
must not decide what is run. On the launch path: a file that is not there costs one failed open.
"""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, InvalidProfile
from holdfast.process.this_host import user_home
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.options import Option

    Options = dict[str, Any]

NEWEST_KEPT = 500


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
    fleet: Options = {}  # not checked here, but by the code that places runs elsewhere

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


def preset_names(given: Any) -> list[str]:
    """One preset or several, as a caller of the library gives them."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
        from holdfast.manage.starting.option_values import unusable

        raise unusable("preset", given, "the name of a preset, or a list of them")
    return list(names)


def layered(given: Options, presets: Sequence[str] = (), *, with_defaults: bool = False) -> Options:
    """The options of a start: those given, over the presets (a later one wins), over [defaults].

    `env` and `tags` are merged by name. `given_by` says which option is not the caller's own.
    """
    config = load_config()
    layers = [("[defaults]", config.defaults)] if with_defaults else []
    layers += [(f"preset {name}", config.preset(name)) for name in presets]
    options: Options = {}
    origins: dict[str, str] = {}
    for origin, found in layers:
        layer = _with_paths(found, config.path)
        options = _over(options, layer)
        origins.update(dict.fromkeys(layer.keys() - {"env", "tags"}, origin))
    options = {name: value for name, value in _over(options, given).items() if value is not None}
    for mine, other in (("pty", "split_stderr"), ("split_stderr", "pty")):
        if given.get(mine) and not given.get(other):
            options.pop(other, None)  # a terminal has one stream: what the caller asked for wins
    given_by = {name: origins[name] for name in options if name in origins and name not in given}
    return {**options, "given_by": given_by} if given_by else options


def _over(below: Options, above: Options) -> Options:
    both = {**below, **above}
    for table in ("env", "tags"):
        if table in below and table in above:
            both[table] = {**below[table], **(above[table] or {})}
    return both


def _with_paths(layer: Options, config_path: str) -> Options:
    """A path in the file is the user's own, or beside the file; never below the cwd."""
    layer = dict(layer)
    for name in ("cwd", "env_file", "secret_env_file"):
        if name in layer:
            path = os.path.expanduser(layer[name])
            layer[name] = os.path.join(os.path.dirname(config_path), path)
    if "env_file" in layer:
        from holdfast.env_file import read_env_file

        layer["env"] = {**read_env_file(layer.pop("env_file")), **layer.get("env", {})}
    return layer


def config_path() -> str:
    """Where the file is looked for; below /dev/null without a home directory."""
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
        if not os.access(os.path.dirname(path), os.X_OK):  # HOME of the user before `su`
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
    known = ("defaults", "preset", "retention", "fleet")
    for name, table in document.items():
        if name not in known:
            expected = "it may have [defaults], [preset.NAME], [retention] and [fleet]"
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
        document.get("fleet", {}),
    )


def _options(path: str, table: str, values: Mapping[str, Any]) -> Options:
    """A table's options under the library's names; `idle-timeout` and `idle_timeout` are one."""
    from holdfast.options import OPTIONS

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
    from holdfast.options import PAIRS

    if option.kind in PAIRS:
        _expect_texts(path, where, value)
    elif option.field:
        _check_wanted(path, where, option, value)
    else:
        _expect(path, where, value, bool if option.is_flag else str)


def _check_wanted(path: str, where: str, option: Option, value: object) -> None:
    """By the same rules that a start would apply, but with the file and the key in the message."""
    from holdfast.manage.starting.option_values import check_wanted
    from holdfast.manage.starting.request import read_value
    from holdfast.options import Wanted

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
    from holdfast.run.units import parse_duration, parse_size

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
