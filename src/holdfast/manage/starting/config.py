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
    from collections.abc import Sequence
    from typing import Any

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
    worktree: Options = {}  # for runs with a worktree of their own: over `defaults`
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
    layers = []
    if with_defaults:
        layers = [("[defaults]", config.defaults), ("[worktree]", config.worktree)]
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
    """`~` is expanded; a relative path is relative to the directory of config.toml, not the cwd."""
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
    from holdfast.manage.starting.config_file import read_config

    return read_config(path, data)
