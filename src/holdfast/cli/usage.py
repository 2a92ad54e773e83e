"""`holdfast usage`: tokens, cost and CPU time of all runs, in total or by agent, tag or day."""

from __future__ import annotations

import time

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import paint, table
from holdfast.errors import InvalidOption
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.usage.totals import BY
from holdfast.run.units import MOST_DOLLARS, count, duration, money, parse_duration, parse_money
from holdfast.run.usage.budget import in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.usage.totals import Usage, UsageTotal

_HEAD = ("RUNS", "TOKENS IN", "TOKENS OUT", "COST", "CPU TIME", "NOTE")
_EPILOG = """\
Each figure is the sum over the runs for which it is known; NOTE says for how many it is not. A
run with several tags counts for each of them, and once in the total. Days are local; a run counts
for the day on which it was started. Runs that were removed count as before.
exit codes: 1 the cost is above --budget"""


def add_arguments(parser: Parser) -> None:
    """Since when, and by what."""
    parser.add_argument("--since", metavar="D", help="of runs active or ended within this time")
    parser.add_argument("--by", choices=BY, help="one line for each")
    parser.add_argument(
        "--budget", metavar="USD", help="exit 1 if all of it cost more than this together"
    )
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Add it up."""
    since = None if args.since is None else time.time() - parse_duration(args.since, "--since")
    most = None if args.budget is None else _budget(args.budget)
    usage = Runs().usage(since=since, by=args.by)
    is_over = most is not None and (usage.total.cost_usd or 0) > most
    if args.json:
        said = {"max_cost_usd": most, "is_over": is_over}
        streams.say_json({**usage.to_json(), "budget": None if most is None else said})
    else:
        _print(args.by, usage)
        if most is not None:
            _print_budget(usage.total, most, is_over)
    if usage.damaged_lines and not args.json:
        many = f"{usage.damaged_lines} line{'s' if usage.damaged_lines > 1 else ''}"
        streams.warn(f"{many} of usage.jsonl can't be read: what those runs used is not in it")
    return 1 if is_over else 0


def _budget(text: str) -> float:
    most = parse_money(text, "--budget")
    if most > MOST_DOLLARS:
        raise InvalidOption(f"--budget: {text!r} is too much", option="budget", value=text)
    return most


def _print_budget(total: UsageTotal, most: float, is_over: bool) -> None:
    if total.cost_usd is None:
        streams.complain("no run says what it cost")
        return
    said = in_words("max_cost_usd", total.cost_usd, most)
    streams.complain(f"{'over' if is_over else 'within'} the budget: {said}")


def _print(by: str | None, usage: Usage) -> None:
    parts = (usage.by or {}).get(by or "", {})
    rows = [[printable(name), *_cells(total)] for name, total in parts.items()]
    rows.append(["total", *_cells(usage.total)])
    head, *lines = table(((by or "").upper(), *_HEAD), rows, right=_HEAD[:-1])
    for line in (paint(head, "dim"), *lines):
        streams.say(line)


def _cells(total: UsageTotal) -> list[str]:
    return [
        str(total.runs),
        count(total.tokens_in),
        count(total.tokens_out),
        money(total.cost_usd),
        duration(total.cpu_seconds),
        _note(total),
    ]


def _note(total: UsageTotal) -> str:
    """Nothing about figures that no run has: a run without an agent has no cost."""
    missing = [
        f"{label} not known of {total.runs - total.known_of[name]}"
        for name, label in (("cost_usd", "cost"), ("cpu_seconds", "CPU time"))
        if 0 < total.known_of[name] < total.runs
    ]
    return ", ".join(missing)
