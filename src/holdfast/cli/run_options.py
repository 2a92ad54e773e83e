"""The options of `run` and `rerun`: what they are called, and what they mean to the library.

Values are checked by the library, so that a mistake reads the same everywhere. The order of
precedence is: what was typed, then `-P`, then `[defaults]`.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import InvalidOption
from holdfast.manage.config import load_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from holdfast.cli.parser import Parser

# option, metavar (None: a flag), help. The library's keyword is the option with underscores.
_START = (
    ("--key", "K", "a second start with the same key returns the first run, even when ended"),
    ("--replace", None, "stop a live run of that name first; its PID and fate are printed"),
    ("--pty", None, "give it a terminal of its own, for attach and send"),
    ("--worktree", "BRANCH", "run in a git worktree of that branch"),
    ("--agent", "NAME", "which agent it is: a name, auto (default) or none"),
)
_LIMITS = (
    ("--timeout", "D", "stop the run after this long, restarts included"),
    ("--idle-timeout", "D", "stop it when it neither writes nor works for this long"),
    ("--memory-max", "S", "stop it when its whole tree uses more memory than this"),
    (
        "--done-when",
        "REGEX",
        "a whole line of output that proves completion; of stdout alone with --split-stderr",
    ),
    ("--drain", "D", "how long it may take to end by itself after that (5s, or the agent's)"),
    ("--grace", "D", "from the polite signal to SIGKILL, in every stop (10s)"),
    ("--stop-signal", "SIG", "the polite signal (SIGTERM)"),
    ("--restart", "POLICY", "no (default), on-failure or on-failure:N"),
    ("--leftovers", "WHAT", "what becomes of processes that outlive it: stop (default) or keep"),
    ("--independent", None, "not stopped with the run it was started in"),
)
_WATCHING = (
    ("--workload", "NAME", "the program that is meant, behind wrappers"),
    ("--require-workload", None, "fail when that program does not appear"),
    ("--workload-within", "D", "how long it may take to appear, then (2s)"),
    ("--sample-interval", "D", "how often to measure (5s); 0: never"),
    ("--split-stderr", None, "keep stderr in a file of its own; not with --pty"),
    ("--log-max", "S", "keep roughly the last S bytes of output.log; stderr.log is not bounded"),
    ("--notify", "CMD", "run by the shell at the end and at an anomaly, with JSON on its stdin"),
)


def add_options(parser: Parser) -> None:
    """Every option of a start but `--foreground`, which is for `run` alone."""
    start = parser.add_argument_group("what to start")
    start.add_argument("-n", "--name", metavar="N", help="the run's name")
    start.add_argument("-C", "--cwd", metavar="DIR", help="the directory to start it in")
    start.add_argument(
        "-e", "--env", metavar="K=V", action="append", help="set a variable; K alone keeps ours"
    )
    start.add_argument(
        "--env-file", metavar="FILE", action="append", help="lines of K=V, # begins a comment"
    )
    start.add_argument("--tag", metavar="K=V", action="append", help="a tag to find it by")
    start.add_argument(
        "--stdin", metavar="FILE", help="a file; - copies our own in; pipe is for `send`"
    )
    start.add_argument("-P", "--preset", metavar="PRESET", help="[preset.PRESET] of config.toml")
    _add(start, _START)
    _add(parser.add_argument_group("when to stop it"), _LIMITS)
    _add(parser.add_argument_group("what to watch"), _WATCHING)


def _add(group: Any, rows: Sequence[tuple[str, str | None, str]]) -> None:
    for option, metavar, text in rows:
        if metavar is None:
            # None and not False: what was not typed may be in config.toml.
            group.add_argument(option, action="store_const", const=True, help=text)
        else:
            group.add_argument(option, metavar=metavar, help=text)


def read_options(args: Namespace, *, with_defaults: bool = True) -> dict[str, Any]:
    """The library's keywords: what was typed, over the preset, over the defaults."""
    config = load_config()
    layers: list[dict[str, Any]] = [dict(config.defaults)] if with_defaults else []
    if args.preset is not None:
        layers.append(dict(config.preset(args.preset)))
    for layer in layers:
        _settle_paths(layer, config.path)
    layers.append(_typed(args))
    options: dict[str, Any] = {}
    for layer in layers:
        for table in ("env", "tags"):
            layer[table] = {**options.get(table, {}), **layer.get(table, {})}
        options.update(layer)
    for typed, other in (("pty", "split_stderr"), ("split_stderr", "pty")):
        if getattr(args, typed) and not getattr(args, other):
            options.pop(other, None)  # a terminal has one stream: what was typed counts
    return {name: value for name, value in options.items() if value not in (None, {})}


def _settle_paths(layer: dict[str, Any], config_path: str) -> None:
    """A path in the file is the user's own, or beside the file; never below the cwd."""
    for name in ("cwd", "env_file"):
        if name in layer:
            path = os.path.expanduser(layer[name])
            layer[name] = os.path.join(os.path.dirname(config_path), path)
    if "env_file" in layer:
        from holdfast.cli.env_file import read_env_file

        layer["env"] = {**read_env_file(layer.pop("env_file")), **layer.get("env", {})}


def _typed(args: Namespace) -> dict[str, Any]:
    names = [option.removeprefix("--").replace("-", "_") for option, *_ in _flat()]
    typed = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    typed["name"] = args.name
    if args.cwd is not None:
        typed["cwd"] = args.cwd
    typed["env"] = _environment(args)
    typed["tags"] = dict(_pair("--tag", text) for text in args.tag or ())
    if args.stdin is not None:
        typed["stdin"] = _stdin(args.stdin)
    return typed


def _flat() -> list[tuple[str, str | None, str]]:
    return [*_START, *_LIMITS, *_WATCHING]


def _environment(args: Namespace) -> dict[str, str]:
    environment: dict[str, str] = {}
    for path in args.env_file or ():
        from holdfast.cli.env_file import read_env_file

        environment.update(read_env_file(path))
    for text in args.env or ():
        if "=" in text:
            name, value = _pair("-e", text)
            environment[name] = value
        elif text in os.environ:
            environment[text] = os.environ[text]
        else:
            from holdfast.cli import streams

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
        if sys.stdin is None or sys.stdin.isatty():
            raise InvalidOption(
                "--stdin -: stdin is a terminal, and nothing was piped in",
                hint="`--stdin pipe`, then `holdfast send`; or --pty, then `holdfast attach`",
                option="stdin",
                value=text,
            )
        return sys.stdin.buffer.read()
    try:
        # Not read here: the run opens it itself. That it can be read should be known before.
        os.close(os.open(text, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        message = f"--stdin: {text} can't be read: {error.strerror}"
        raise InvalidOption(message, option="stdin", value=text) from None
    return text
