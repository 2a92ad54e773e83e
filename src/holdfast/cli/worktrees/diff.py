"""`holdfast diff RUN`: what a worktree run changed since it began, committed or not."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import is_terminal, paint
from holdfast.errors import WrongUse
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

KNOWS_FLEET = True
_LOOKS = {"+++": "bold", "---": "bold", "+": "green", "-": "red", "@": "cyan", "diff ": "bold"}


def add_arguments(parser: Parser) -> None:
    """RUN, and how much of it."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.add_argument("--stat", action="store_true", help="a line for each file, and the sum")
    parser.add_argument("--name-only", action="store_true", help="the paths alone")
    parser.epilog = (
        "From the commit that its worktree began with to the files as they are now: commits,\n"
        "uncommitted changes and untracked files; what git ignores is left out, and so is all of\n"
        "a submodule but its commit. No program that the repository names is run, and nothing in\n"
        "it is changed. On a terminal, control sequences in the text are escaped; a pipe or file\n"
        "gets the bytes unchanged.\n"
        "exit codes: 1 git can't say, 4 the run has no worktree"
    )


def run(args: Namespace) -> int:
    """Print it."""
    if args.stat and args.name_only:
        raise WrongUse("--stat and --name-only are two forms of one text", hint="choose one")
    found = Runs(notice=streams.complain).get(args.run)
    diff = found.diff(stat=args.stat, name_only=args.name_only)
    if args.json:
        streams.say_json({"schema": 1, "id": found.id, **diff.to_json()})
        return 0
    if is_terminal(sys.stdout):
        for line in printable_lines(diff.text.decode(errors="surrogateescape")).splitlines():
            streams.say(paint(line, *_looks(line, is_patch=not (args.stat or args.name_only))))
    else:
        streams.say_bytes((diff.text,))
    inner = [file.path for file in diff.files if file.kind == "repository"]
    if inner:
        streams.complain(f"note: not looked into, a repository of its own: {', '.join(inner)}")
    if not diff.files and not args.quiet:
        streams.complain("nothing was changed")
    return 0


def _looks(line: str, *, is_patch: bool) -> tuple[str, ...]:
    found = (look for start, look in _LOOKS.items() if is_patch and line.startswith(start))
    return tuple(found)[:1]
