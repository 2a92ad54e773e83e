"""Looks behind wrappers in a command: env, timeout, npx, uv run, node, `sh -c` with plain words.

Pure and cheap (launch path). Never guesses: a wrapper's option that it does not know, or a shell
text that is more than plain words, ends the search.
"""

from __future__ import annotations

import os

from holdfast.agents.plainshell import plain_words
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Unwrapped(Record):
    """A word that may name an agent: a command, a script, a module or a package."""

    words: tuple[str, ...]
    at: int
    kind: str = "command"


class _Wrapper(Record):
    """How a wrapper's own arguments look: flags, options with a value, words before the command.

    `code`: the next word is a program's text, not its name.
    """

    flags: tuple[str, ...] = ()
    with_value: tuple[str, ...] = ()
    own_words: int = 0
    then: str = "command"
    any_flag: bool = False
    code: tuple[str, ...] = ()


_NPX = _Wrapper(
    flags=("-y", "--yes", "--no", "--quiet", "-q", "--no-install", "--prefer-offline", "--bun"),
    with_value=("-p", "--package", "--registry", "--cache"),
    then="package",
)
_UVX = _Wrapper(
    flags=("-q", "--quiet", "--isolated", "--offline", "--no-cache", "-n", "-U", "--upgrade"),
    with_value=("--from", "--with", "-w", "--python", "-p", "--index-url", "--spec"),
    then="package",
)
_UV_RUN = _Wrapper(
    flags=(*_UVX.flags, "--frozen", "--locked", "--no-sync", "--no-project", "--active"),
    with_value=(*_UVX.with_value, "--project", "--directory", "--extra", "--group", "--env-file"),
)
_INTERPRETER = _Wrapper(
    any_flag=True,
    with_value=("-r", "--require", "--import"),
    then="script",
    code=("-c", "-e", "--eval", "-p", "--print"),
)

_WRAPPERS: dict[str, _Wrapper] = {
    "env": _Wrapper(
        flags=("-i", "--ignore-environment", "-"), with_value=("-u", "--unset", "-C", "--chdir")
    ),
    "nice": _Wrapper(with_value=("-n", "--adjustment")),
    "ionice": _Wrapper(flags=("-t",), with_value=("-c", "-n", "--class", "--classdata")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(flags=("-f", "--fork", "-c", "--ctty", "-w", "--wait", "-fw")),
    "stdbuf": _Wrapper(any_flag=True, with_value=("-i", "-o", "-e")),
    "time": _Wrapper(flags=("-p", "-v")),
    "timeout": _Wrapper(
        flags=("--foreground", "--preserve-status", "-v", "--verbose"),
        with_value=("-k", "--kill-after", "-s", "--signal"),
        own_words=1,
    ),
    "npx": _NPX,
    "pnpx": _NPX,
    "bunx": _NPX,
    "uvx": _UVX,
    "node": _INTERPRETER,
    "nodejs": _INTERPRETER,
    "bun": _INTERPRETER,
    "python": _INTERPRETER,
    "python3": _INTERPRETER,
}
_TWO_WORDS: dict[tuple[str, str], _Wrapper] = {
    ("npm", "exec"): _NPX,
    ("npm", "x"): _NPX,
    ("pnpm", "dlx"): _NPX,
    ("pnpm", "exec"): _NPX,
    ("yarn", "dlx"): _NPX,
    ("bun", "x"): _NPX,
    ("uv", "run"): _UV_RUN,
    ("pipx", "run"): _UVX,
}
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
KNOWN = frozenset({*_WRAPPERS, *(first for first, _ in _TWO_WORDS), *_SHELLS, "script"})
_DEPTH = 8  # wrappers in wrappers; more is no command that anybody wrote


def unwrap(argv: Sequence[str]) -> Iterator[Unwrapped]:
    """Each word that may name the program, from the outside in."""
    words, at, kind = tuple(argv), 0, "command"
    for _ in range(_DEPTH):
        if at >= len(words) or not words[at]:
            return
        yield Unwrapped(words, at, kind)
        if kind != "command":
            return
        step = _behind_shell(words, at) or _behind_wrapper(words, at)
        if step is None:
            return
        words, at, kind = step


def _behind_wrapper(words: tuple[str, ...], at: int) -> tuple[tuple[str, ...], int, str] | None:
    name = os.path.basename(words[at])
    second = words[at + 1] if at + 1 < len(words) else ""
    if name == "uv" and words[at + 1 : at + 3] == ("tool", "run"):
        return _skip(_UVX, words, at + 3)
    if (name, second) in _TWO_WORDS:
        return _skip(_TWO_WORDS[name, second], words, at + 2)
    if name.startswith("python3.") and name[8:].isdigit():
        name = "python3"
    if name not in _WRAPPERS:
        return None
    return _skip(_WRAPPERS[name], words, at + 1, assignments=name == "env")


def _skip(
    wrapper: _Wrapper, words: tuple[str, ...], at: int, *, assignments: bool = False
) -> tuple[tuple[str, ...], int, str] | None:
    """Past the wrapper's own options; None when one of them is not understood."""
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        option = words[at]
        if option == "-m" and wrapper.then == "script":
            return words, at + 1, "module"
        if option in wrapper.code:
            return None
        if option in wrapper.with_value:
            at += 2
        elif option in wrapper.flags or wrapper.any_flag or _has_value(wrapper, option):
            at += 1
        else:
            return None
    if at < len(words) and words[at] == "--":
        at += 1
    while assignments and at < len(words) and "=" in words[at]:
        at += 1
    return words, at + wrapper.own_words, wrapper.then


def _has_value(wrapper: _Wrapper, option: str) -> bool:
    """`--signal=KILL`, `-k5`, `-n10`, `-10`."""
    name = option.partition("=")[0] if option.startswith("--") else option[:2]
    return name in wrapper.with_value or option[1:].isdecimal()


def _behind_shell(words: tuple[str, ...], at: int) -> tuple[tuple[str, ...], int, str] | None:
    name = os.path.basename(words[at])
    if name != "script" and name not in _SHELLS:
        return None
    for place in range(at + 1, len(words) - 1):
        option = words[place]
        if not option.startswith("-"):
            return None
        if (option.endswith("c") and not option.startswith("--")) or option == "--command":
            inner = plain_words(words[place + 1])
            return (inner, 0, "command") if inner else None
    return None
