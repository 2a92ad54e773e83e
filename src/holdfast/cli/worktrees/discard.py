"""`holdfast discard RUN`: give up what a worktree run changed."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import is_terminal
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.removal.discarding import Discarded

KNOWS_FLEET = True


def add_arguments(parser: Parser) -> None:
    """RUN, and whether to ask."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be given up")
    parser.add_argument("-y", "--yes", action="store_true", help="don't ask")
    parser.epilog = (
        "Its worktree is removed, and its branch if that was made for the run and is checked out\n"
        "nowhere else. The run stays, with its output. On a terminal it shows what would be lost\n"
        "and asks. `rm --discard-worktree` removes the run with its worktree, and no branch.\n"
        "exit codes: 1 not confirmed, 4 something may be alive, or the run has no worktree"
    )


def run(args: Namespace) -> int:
    """Ask, remove, and say what was lost."""
    found = Runs(notice=streams.complain).get(args.run)
    if args.dry_run or (not (args.yes or args.json) and _is_terminal()):
        would = found.discard(dry_run=True)
        if args.dry_run:
            _tell(args, would, _sentence(would, "to be removed"))
            return 0
        streams.complain(_sentence(would, "to be removed"))
        if streams.ask("discard it? [y/N] ").strip().lower() not in ("y", "yes"):
            streams.complain("nothing was discarded")
            return 1
    done = found.discard()
    _tell(args, done, _sentence(done, "removed"))
    return 0


def _is_terminal() -> bool:
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _tell(args: Namespace, said: Discarded, sentence: str) -> None:
    if args.json:
        document = {**said.as_dict(), "given_up": list(said.given_up)}
        streams.say_json({"schema": 1, **document, "dry_run": args.dry_run})
    elif not args.quiet:
        streams.say(sentence)


def _sentence(said: Discarded, what: str) -> str:
    branch = "" if said.branch is None else f" and branch {said.branch}"
    given_up = "; ".join(said.given_up) or "nothing, it held no work of its own"
    return printable(f"{said.name}: {what}: worktree {said.path}{branch}; given up: {given_up}")
