"""`holdfast clean`: remove ended runs that are too many, too old or too large in all."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.errors import InvalidOption
from holdfast.manage.config import Retention, load_config
from holdfast.manage.plaintext import printable
from holdfast.manage.retention import Cleaned, Fate, clean
from holdfast.manage.runs import Runs
from holdfast.manage.units import size
from holdfast.run.quantities import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    """The limits."""
    parser.add_argument("--keep", metavar="N", help="keep the newest N ended runs")
    parser.add_argument("--older-than", metavar="D", help="remove what ended longer ago")
    parser.add_argument(
        "--max-bytes", metavar="S", help="keep the newest that fit into so much of the disk"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    parser.epilog = (
        "Without a limit: what [retention] of the configuration says, else the newest 500 are\n"
        "kept. Runs tagged `keep` stay, and so does what may be alive.\n"
        "exit code: 4 when a run that should go was refused or can't be verified"
    )


def run(args: Namespace) -> int:
    """Apply the limits."""
    rules = _rules(args)
    cleaned = clean(Runs().home, rules, dry_run=args.dry_run)
    if args.json:
        runs = [one.as_dict() for one in cleaned]
        document = {"schema": 1, "dry_run": args.dry_run, "limits": rules.as_dict(), "runs": runs}
        streams.say_json(document)
    else:
        _show(cleaned, args)
    refused = any(one.fate in (Fate.REFUSED, Fate.UNVERIFIABLE) for one in cleaned)
    return 4 if refused else 0


def _rules(args: Namespace) -> Retention:
    if args.keep is None and args.older_than is None and args.max_bytes is None:
        return load_config().retention
    older = args.older_than
    return Retention(
        keep=None if args.keep is None else _count(args.keep),
        older_than_seconds=None if older is None else parse_duration(older, "--older-than"),
        max_bytes=None if args.max_bytes is None else parse_size(args.max_bytes, "--max-bytes"),
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidOption(f"--keep: {text!r} is not a number", option="keep", value=text)
    return int(text)


def _show(cleaned: list[Cleaned], args: Namespace) -> None:
    room = max((len(one.name or one.id) for one in cleaned), default=0)
    for one in cleaned:
        if not args.quiet or one.fate is not Fate.REMOVED:
            name = f"{one.name or one.id:<{room}}"
            streams.say(printable(f"{name}  {one.fate:<12}  {one.over}: {one.evidence}"))
    if args.quiet:
        return
    removed = [one for one in cleaned if one.fate is Fate.REMOVED]
    freed = size(sum(one.freed_bytes for one in removed))
    would = "would be " if args.dry_run else ""
    others = len(cleaned) - len(removed)
    left = f", {others} kept" if others else ""
    streams.say(f"{len(removed)} {would}removed ({freed or '0B'}){left}")
