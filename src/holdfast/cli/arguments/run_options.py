"""The options of `run` and `rerun` as they were typed, and what they mean to the library.

Values are checked by the library, so that a mistake reads the same everywhere. The order of
precedence is: what was typed, then `-P`, then `[defaults]`.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import InvalidOption
from holdfast.manage.starting.config import layered
from holdfast.options import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

# What is typed for these has a form of its own: K=V, K, a path whose lines are K=V, `-`, `pipe`.
_OWN_FORM = ("env", "env_file", "preset", "stdin", "tags")


def read_options(args: Namespace, *, with_defaults: bool = True) -> dict[str, Any]:
    """The library's keywords: what was typed, over the presets, over the defaults."""
    options = layered(typed_options(args), args.preset or (), with_defaults=with_defaults)
    if with_defaults and args.notify_on is not None and "notify" not in options:
        raise InvalidOption(
            "--notify-on: there is no --notify to run",
            hint="give --notify CMD too",
            option="notify-on",
            value=args.notify_on,
        )
    return options


def typed_options(args: Namespace) -> dict[str, Any]:
    """What was typed, `-P` aside."""
    typed = {
        name: value
        for name in OPTIONS
        if name not in _OWN_FORM and (value := getattr(args, name)) is not None
    }
    typed["env"] = _environment(args)
    typed["tags"] = dict(_pair("--tag", text) for text in args.tags or ())
    if args.stdin is not None:
        typed["stdin"] = _stdin(args.stdin)
    return typed


def _environment(args: Namespace) -> dict[str, str]:
    environment: dict[str, str] = {}
    for path in args.env_file or ():
        from holdfast.env_file import read_env_file

        environment.update(read_env_file(path))
    for text in args.env or ():
        if "=" in text:
            name, value = _pair("-e", text)
            environment[name] = value
        elif text in os.environ:
            environment[text] = os.environ[text]
        else:
            from holdfast.cli.text import streams

            streams.warn(f"-e {text}: there is no such variable here")
    return environment


def _pair(option: str, text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name:
        raise InvalidOption(f"{option}: {text!r} is not K=V", option=option, value=text)
    return name, value


def _stdin(text: str) -> str | bytes:
    """`pipe`, the bytes of our own stdin, or a file that can be read now."""
    if text == "pipe":
        return text
    if text == "-":
        from holdfast.cli.text.streams import why_no_input

        if why := why_no_input():
            raise InvalidOption(
                f"--stdin -: {why}, and nothing was piped in",
                hint="`--stdin pipe`, then `holdfast send`; or --pty, then `holdfast attach`",
                option="stdin",
                value=text,
            )
        return sys.stdin.buffer.read()
    try:
        # Not read here: the run opens it. Only that it can be read is checked.
        os.close(os.open(text, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        message = f"--stdin: {text} can't be read: {error.strerror}"
        raise InvalidOption(message, option="stdin", value=text) from None
    return text
