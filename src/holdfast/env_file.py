"""Files of environment variables: `KEY=VALUE` lines, `#` comments, quotes as in a shell.

`'...'` is taken as it is; in `"..."` a backslash escapes; without quotes a ` #` begins a comment.
Nothing is expanded and nothing is run.
"""

from __future__ import annotations

import os
import re
import stat

from holdfast.errors import InvalidOption

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: str) -> dict[str, str]:
    """The variables in the file; InvalidOption with the line's number for a bad line."""
    option = "env-file"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return _variables(file.read(), path, option)
    except OSError as error:
        raise _unreadable(path, option, error.strerror) from None


def read_secret_env_file(path: str) -> dict[str, str]:
    """The variables of a `--secret-env-file`. The caller must not store them."""
    option = "secret-env-file"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _unreadable(path, option, "it is no regular file")
            return _variables(file.read(), path, option)
    except OSError as error:
        raise _unreadable(path, option, error.strerror) from None


def who_else_reads(path: str) -> str:
    """A warning, where others than the owner may read a file of secrets; else ""."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    if not mode & (stat.S_IRGRP | stat.S_IROTH):
        return ""
    return f"--secret-env-file: others than you may read {path}: chmod 600 {path}"


def _unreadable(path: str, option: str, why: str | None) -> InvalidOption:
    return InvalidOption(f"--{option}: {path} can't be read: {why}", option=option, value=path)


def _variables(text: str, path: str, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = text.removeprefix("\ufeff").splitlines()
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line and not line.startswith("#"):
            name, value = _read(line, f"--{option}: {path}:{number}", option)
            found[name] = value
    return found


def _read(text: str, where: str, option: str) -> tuple[str, str]:
    # The line itself is not shown: it may hold a secret.
    name, equals, value = text.removeprefix("export ").partition("=")
    name, value = name.strip(), value.strip()
    if not equals:
        raise InvalidOption(f"{where}: not KEY=VALUE", option=option)
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"{where}: {name!r} can't name a variable", option=option)
    if "\0" in value:
        raise InvalidOption(f"{where}: {name} has a zero byte in it", option=option)
    if value[:1] not in ("'", '"'):
        return name, re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
    quoted = (_SINGLE if value[0] == "'" else _DOUBLE).fullmatch(value)
    if quoted is None:
        raise InvalidOption(f"{where}: the quotes of {name} don't close", option=option)
    inner = quoted[1]
    return name, inner if value[0] == "'" else re.sub(r"\\(.)", _escaped, inner)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
