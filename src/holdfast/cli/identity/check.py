"""`holdfast check TOKEN|PIDFILE`: does it still name the same process? The exit code says it."""

from __future__ import annotations

from holdfast.cli.arguments.target import identity_of
from holdfast.cli.text import streams
from holdfast.cli.text.terminal import paint
from holdfast.manage.plaintext import printable
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

EXIT_CODES = {
    Verdict.SAME: 0,
    Verdict.GONE: 10,
    Verdict.RECYCLED: 11,
    Verdict.UNKNOWN: 12,
}
_LOOKS = {Verdict.SAME: ("green",), Verdict.UNKNOWN: ("yellow",)}


def add_arguments(parser: Parser) -> None:
    """TOKEN or PIDFILE."""
    parser.add_argument(
        "target", metavar="TOKEN|PIDFILE", help="a token, or the path of a pid file"
    )
    parser.epilog = (
        "exit codes: 0 SAME, 10 GONE, 11 RECYCLED (its PID is another process now),\n"
        "12 UNKNOWN (nothing proves it); 2 and 3 if there is nothing to check"
    )


def run(args: Namespace) -> int:
    """Print the verdict and its evidence."""
    identity = identity_of(args.target)
    look = identity.look()
    if args.json:
        document = {**identity.to_json(), "verdict": look.verdict.value}
        proof = look.proof.value if look.proof else None
        streams.say_json({"schema": 1, **document, "proof": proof, "evidence": look.evidence})
    elif args.quiet:
        streams.say(look.verdict.value)
    else:
        verdict = paint(look.verdict.value, *_LOOKS.get(look.verdict, ()))
        streams.say(f"{identity.pid} {verdict}: {printable(look.evidence)}")
    return EXIT_CODES[look.verdict]
