"""`holdfast completion SHELL`: has bash, zsh or fish ask `holdfast __complete`.

Printed for a start-up file, or with `--install` written where the shell looks for completions. It
asks `holdfast` itself, so a new version needs no new one. No start-up file is touched: where a line
is needed there, it is said.
"""

from __future__ import annotations

import os

from holdfast.cli.text import streams
from holdfast.cli.text.completion_stubs import STUBS
from holdfast.errors import Failed, Refused, WrongUse
from holdfast.manage.plaintext import home_path
from holdfast.process.this_host import user_home
from holdfast.record import Record
from holdfast.run.atomic_files import atomic_write, read_file
from holdfast.shell_words import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_INSTALL = {
    "bash": 'eval "$(holdfast completion bash)"',
    "zsh": 'eval "$(holdfast completion zsh)"   (after compinit)',
    "fish": "holdfast completion fish | source",
}
_OURS = b"holdfast completion for "  # in a comment of every stub
_BASH_COMPLETION = (  # the package that loads completions of users
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/etc/profile.d/bash_completion.sh",
    "/etc/bash_completion",
)


class CompletionPlace(Record):
    """Where a shell's stub belongs, and what has it loaded."""

    path: str
    load: str  # a line for the shell
    start_up: str | None = None  # the file that needs that line; None: new shells load it anyway


def add_arguments(parser: Parser) -> None:
    """The shell."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        nargs="?",
        choices=list(STUBS),
        help="bash, zsh or fish; with --install, if left out, the one that $SHELL names",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="write it where your shell looks for completions, and change nothing else",
    )
    lines = [f"{shell + ':':<6}{line}" for shell, line in _INSTALL.items()]
    parser.epilog = "or, in your shell's start-up file:\n  " + "\n  ".join(lines)


def run(args: Namespace) -> int:
    """Print the stub, or install it."""
    if args.install:
        return _install(args.shell or _shell_of_user(), args)
    if args.shell is None:
        raise WrongUse("which shell?", hint="completion bash, zsh or fish; or completion --install")
    stub = STUBS[args.shell]
    if args.json:
        streams.say_json({"schema": 1, "shell": args.shell, "script": stub})
    else:
        streams.say(stub.rstrip("\n"))
    return 0


def _install(shell: str, args: Namespace) -> int:
    """Write the stub, if it is not there yet, and say how to load it."""
    place = _place(shell)
    has_changed = _write(place.path, STUBS[shell].encode())
    if args.json:
        document = {"schema": 1, "shell": shell, **place.as_dict(), "changed": has_changed}
        streams.say_json(document)
    elif not args.quiet:
        done = "written" if has_changed else "there already, and up to date"
        streams.say(f"{home_path(place.path)}: {done}")
        if place.start_up is None:
            streams.say(f"new shells load it; for this one: {place.load}")
        elif _is_loaded(place):
            streams.say(f"{place.start_up.partition(',')[0]} loads it")
        else:
            streams.say(f"to load it, add to {place.start_up}: {place.load}")
    return 0


def _is_loaded(place: CompletionPlace) -> bool:
    """Whether the start-up file has the line already."""
    file, _, _ = (place.start_up or "").partition(",")
    try:
        lines = read_file(os.path.expanduser(file)).decode(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.strip() == place.load for line in lines)


def _shell_of_user() -> str:
    given = os.environ.get("SHELL", "")
    shell = os.path.basename(given)
    if shell in STUBS:
        return shell
    named = f"$SHELL is {given}" if given else "$SHELL is not set"
    raise WrongUse(
        f"completion is there for bash, zsh and fish, and {named}",
        hint="name one of them: holdfast completion --install bash",
    )


def _place(shell: str) -> CompletionPlace:
    if shell == "fish":
        path = f"{_base('XDG_CONFIG_HOME', '.config')}/fish/completions/holdfast.fish"
        return CompletionPlace(path, f"source {quote(path)}")
    data = _base("XDG_DATA_HOME", ".local/share")
    if shell == "zsh":
        folder = f"{data}/zsh/site-functions"
        load = f"fpath=({quote(folder)} $fpath)"
        return CompletionPlace(f"{folder}/_holdfast", load, "~/.zshrc, before compinit")
    folder = os.environ.get("BASH_COMPLETION_USER_DIR") or f"{data}/bash-completion"
    path = f"{folder}/completions/holdfast"
    is_loaded = any(map(os.path.exists, _BASH_COMPLETION))
    return CompletionPlace(path, f"source {quote(path)}", None if is_loaded else "~/.bashrc")


def _base(variable: str, below_home: str) -> str:
    given = os.environ.get(variable, "")
    if os.path.isabs(given):
        return given
    home = user_home()
    if home is None:
        raise WrongUse("HOME is not set", hint="holdfast completion bash prints what to load")
    return f"{home}/{below_home}"


def _write(path: str, stub: bytes) -> bool:
    """Whether it was written; nothing is where the same is there. Refused for what is not ours."""
    try:
        there = read_file(path) if os.path.lexists(path) else None
        if there == stub:
            return False
        if os.path.islink(path) or (there is not None and _OURS not in there):
            raise Refused(
                f"{path} is there, and not a file that Holdfast wrote",
                hint="move it away, or load completion in the start-up file:"
                " holdfast completion --help",
                path=path,
            )
        os.makedirs(os.path.dirname(path), exist_ok=True)
        atomic_write(path, stub, mode=0o644)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror}", path=path) from None
    return True
