"""`holdfast doctor`: tests what this machine can prove and enforce."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.doctor_text import printer_of_findings
from holdfast.manage.doctor.checks import examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser


def add_arguments(parser: Parser) -> None:
    """`--agents`."""
    parser.add_argument(
        "--agents",
        action="store_true",
        help="also list the coding agents found, and what can be seen of each",
    )
    parser.epilog = (
        "ok: works here.  --: not available; Holdfast uses something weaker.\n"
        "FAIL: a guarantee does not hold here; exit code 1. The line below says what to do."
    )


def run(args: Namespace) -> int:
    """Run every check and print the findings as they come."""
    diagnosis = examine(agents=args.agents, told=printer_of_findings(args))
    if args.json:
        streams.say_json(diagnosis.to_json())
    return 0 if diagnosis.ok else 1
