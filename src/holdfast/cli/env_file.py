"""Files of environment variables: `KEY=VALUE` lines, `#` comments, quotes as in a shell.

`'...'` is taken as it is; in `"..."` a backslash escapes; without quotes a ` #` begins a comment.
Nothing is expanded and nothing is run.
"""

from __future__ import annotations

import re

from holdfast.errors import InvalidOption

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: str) -> dict[str, str]:
    """The variables in the file; InvalidOption with the line's number for a bad line."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().removeprefix("\ufeff").splitlines()
    except OSError as error:
        message = f"--env-file: {path} can't be read: {error.strerror}"
        raise InvalidOption(message, option="env-file", value=path) from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not text.startswith("#"):
            name, value = _read(text, f"--env-file: {path}:{number}")
            found[name] = value
    return found


def _read(text: str, where: str) -> tuple[str, str]:
    # The line itself is not shown: it may hold a secret.
    name, equals, value = text.removeprefix("export ").partition("=")
    name, value = name.strip(), value.strip()
    if not equals:
        raise InvalidOption(f"{where}: not KEY=VALUE", option="env-file")
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"{where}: {name!r} can't name a variable", option="env-file")
    if "\0" in value:
        raise InvalidOption(f"{where}: {name} has a zero byte in it", option="env-file")
    if value[:1] not in ("'", '"'):
        return name, re.split(r"(?:^|\s)#", value, maxsplit=1)[0].rstrip()
    quoted = (_SINGLE if value[0] == "'" else _DOUBLE).fullmatch(value)
    if quoted is None:
        raise InvalidOption(f"{where}: the quotes of {name} don't close", option="env-file")
    inner = quoted[1]
    return name, inner if value[0] == "'" else re.sub(r"\\(.)", _escaped, inner)


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
