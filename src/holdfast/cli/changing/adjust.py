"""`holdfast adjust RUN --timeout 2h`: other limits for a run that goes on."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.errors import WrongUse
from holdfast.manage.changing.adjusting import adjustable_options
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.starting.launch import allow_fork
from holdfast.run.units import in_its_unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.arguments.parser import Parser
    from holdfast.option_type import Option

_NO_LIMIT = "none"


def add_arguments(parser: Parser) -> None:
    """RUN, and its limits."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or its beginning")
    parser.add_options(adjustable_options())
    parser.epilog = (
        "`none` takes a limit away. --timeout counts from the start of the run, budgets are of\n"
        "the whole run, silence counts from now. A limit that is passed already is refused. A\n"
        "run that was paused at its budget goes on with `unpause` once that is raised.\n"
        "exit codes: 2 a limit that can't be used, 4 it has ended, the limit can't hold, or a\n"
        "budget is to be changed from inside the run"
    )


def run(args: Namespace) -> int:
    """Change them, and print what they were."""
    limits = {
        option.name: None if value == _NO_LIMIT else value
        for option in adjustable_options()
        if (value := getattr(args, option.name)) is not None
    }
    if not limits:
        flags = ", ".join(option.flags[-1] for option in adjustable_options())
        raise WrongUse("adjust: nothing to change", hint=f"it takes {flags}")
    allow_fork()
    run = Runs(notice=streams.complain).get(args.run)
    changed = run.adjust(**limits)
    if args.json:
        streams.say_json(run.info().to_json())
    elif not args.quiet:
        for option in adjustable_options():
            if option.name in changed.after:
                was, now = changed.before.get(option.name), changed.after[option.name]
                said = f"{option.flags[-1]} {_shown(option, was)} -> {_shown(option, now)}"
                streams.say(f"{printable(args.run)}  {said}")
    return 0


def _shown(option: Option, value: Any) -> str:
    if value is None:
        return _NO_LIMIT
    return in_its_unit(option.field, value)
