"""`holdfast resume RUN [PROMPT|-]`: continue an agent's session, as a new run."""

from __future__ import annotations

import sys

from holdfast.cli.run import refuse_as_init
from holdfast.cli.text import streams
from holdfast.cli.text.start_text import report
from holdfast.errors import WrongUse
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

KNOWS_FLEET = True


def add_arguments(parser: Parser) -> None:
    """RUN and the next prompt."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or its beginning")
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="?", help="the next prompt; -: read it from stdin"
    )
    parser.epilog = (
        "The new run has the same name, and `resumed_from` names the old one. Refused (exit 4)\n"
        "while a process of the old run is or may be alive."
    )
    parser.set_defaults(key=None)


def run(args: Namespace) -> int:
    """Continue the session, and print the result."""
    refuse_as_init()
    prompt = _prompt(args.prompt)
    allow_fork()
    return report(Runs(notice=streams.notices(args.quiet)).get(args.run).resume(prompt), args)


def _prompt(text: str | None) -> str | None:
    if text != "-":
        return text
    if why := streams.why_no_input():
        raise WrongUse(
            f"PROMPT is -, but {why} and nothing was piped in",
            hint="holdfast resume RUN 'what to say next'",
        )
    prompt = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").strip("\n")
    if not prompt.strip():
        raise WrongUse("the prompt on stdin is empty")
    return prompt
