"""`holdfast approve RUN [ID]`: let an agent do what it asks permission for."""

from __future__ import annotations

import os

from holdfast.cli.text import streams
from holdfast.errors import Refused
from holdfast.manage.changing.answering import only_question
from holdfast.manage.plaintext import printable, printable_lines
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.run import Run

RUN = "a name, an id, or its beginning"
ID = "of the question, as `status` and `ls --json` have it; without it, you are asked (terminal)"


def add_arguments(parser: Parser) -> None:
    """RUN and ID."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("id", metavar="ID", nargs="?", help=ID)
    parser.epilog = (
        "the run needs --approve ask; done when the agent has taken the answer.\n"
        "exit codes: 4 nothing is asked, or this comes from inside the run; 6 the agent has not\n"
        "taken the answer yet: it stands"
    )


def run(args: Namespace) -> int:
    """Approve, and print what."""
    return answer(args, allow=True)


def answer(args: Namespace, *, allow: bool, message: str | None = None) -> int:
    """Answer one question of a run."""
    allow_fork()
    chosen: Run = Runs(notice=streams.complain).get(args.run)
    question = args.id if args.id is not None else _choose(args, chosen, allow)
    done = chosen.approve(question) if allow else chosen.deny(question, message)
    if args.json:
        streams.say_json({"schema": 1, "id": chosen.id, "answered": done.as_dict()})
    elif not args.quiet:
        streams.say(printable(f"{args.run}  {done.how}: {done.text}"))
    return 0


def _choose(args: Namespace, chosen: Run, allow: bool) -> str:
    """The one question that is open, once a person has read it and said so."""
    asked = only_question(chosen.info())
    if args.json or not (os.isatty(0) and os.isatty(1)):
        raise Refused(
            f"{args.run} asks: {asked['text']}",
            hint=f"say which: holdfast {'approve' if allow else 'deny'} {args.run} {asked['id']}",
            run=chosen.id,
        )
    streams.say(printable_lines(str(asked["text"])))
    streams.flush()
    said = input(f"{'approve' if allow else 'deny'}? [y/N] ")
    if said.strip().lower() not in ("y", "yes"):
        raise Refused("left as it is", run=chosen.id)
    return str(asked["id"])
