"""`holdfast clean`: remove ended runs beyond a number, an age or a total size."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.errors import InvalidOption
from holdfast.manage.plaintext import printable
from holdfast.manage.removal.retention import Cleaned, RetentionFate, clean, limits
from holdfast.manage.runs import Runs
from holdfast.run.units import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.starting.config import Retention


def add_arguments(parser: Parser) -> None:
    """The limits."""
    parser.add_argument("--keep", metavar="N", help="keep the newest N ended runs")
    parser.add_argument("--older-than", metavar="D", help="remove runs that ended longer ago")
    parser.add_argument(
        "--max-bytes", metavar="S", help="keep the newest runs that fit into this much disk space"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    parser.epilog = (
        "Without options: [retention] of config.toml applies, else the newest 500 are kept. Runs\n"
        "tagged `keep`, and runs that may be alive, are never removed.\n"
        "exit code: 4 if a run over the limit was refused or can't be verified"
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
    refused = any(
        one.fate in (RetentionFate.REFUSED, RetentionFate.UNVERIFIABLE) for one in cleaned
    )
    return 4 if refused else 0


def _rules(args: Namespace) -> Retention:
    keep = None if args.keep is None else _count(args.keep)
    return limits(keep, args.older_than, args.max_bytes)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidOption(f"--keep: {text!r} is not a number", option="keep", value=text)
    return int(text)


def _show(cleaned: list[Cleaned], args: Namespace) -> None:
    room = max((len(one.name or one.id) for one in cleaned), default=0)
    for one in cleaned:
        if not args.quiet or one.fate is not RetentionFate.REMOVED:
            name = f"{one.name or one.id:<{room}}"
            streams.say(printable(f"{name}  {_fate(one, args.dry_run)}"))
    if args.quiet:
        return
    removed = [one for one in cleaned if one.fate is RetentionFate.REMOVED]
    freed = size(sum(one.freed_bytes for one in removed))
    would = "would be " if args.dry_run else ""
    others = len(cleaned) - len(removed)
    left = f", {others} kept" if others else ""
    streams.say(f"{len(removed)} {would}removed ({freed or '0B'}){left}")


def _fate(one: Cleaned, dry_run: bool) -> str:
    if dry_run and one.fate is RetentionFate.REMOVED:
        return f"{one.evidence}: {one.over}"
    return f"{one.fate:<12}  {one.over}: {one.evidence}"
