"""`holdfast usage`: tokens, cost and CPU time of all runs, in total or by agent, tag or day."""

from __future__ import annotations

import time

from holdfast.cli import streams
from holdfast.cli.terminal import paint, table
from holdfast.manage.listing import list_runs
from holdfast.manage.plaintext import printable
from holdfast.manage.runs import Runs
from holdfast.manage.units import count, duration, money
from holdfast.process.clock import seconds_of
from holdfast.run.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.parser import Parser
    from holdfast.manage.info import RunInfo

_FIGURES = ("tokens_in", "tokens_out", "cost_usd", "cpu_seconds")
_HEAD = ("RUNS", "TOKENS IN", "TOKENS OUT", "COST", "CPU TIME", "NOTE")
_EPILOG = """\
Each figure is the sum over the runs of which it is known; NOTE says of how many it is not. A run
with several tags counts for each of them, and once in the total. Days are local; a run counts
for the day on which it was started."""


def add_arguments(parser: Parser) -> None:
    """Since when, and by what."""
    parser.add_argument("--since", metavar="D", help="of runs active or ended within this time")
    parser.add_argument("--by", choices=("agent", "tag", "day"), help="one line for each")
    parser.epilog = _EPILOG


class Total:
    """Sums over runs; a figure that no run has is unknown."""

    def __init__(self) -> None:
        self.runs = 0
        self._sums: dict[str, float] = {}
        self._known: dict[str, int] = dict.fromkeys(_FIGURES, 0)

    def add(self, info: RunInfo) -> None:
        """Count one run."""
        self.runs += 1
        for name in _FIGURES:
            value = (info.usage or {}).get(name)
            if value is not None:
                self._sums[name] = self._sums.get(name, 0) + value
                self._known[name] += 1

    def to_json(self) -> dict[str, Any]:
        """The sums, and of how many runs each is known."""
        sums = {name: self._sums.get(name) for name in _FIGURES}
        return {"runs": self.runs, **sums, "known_of": dict(self._known)}

    def cells(self) -> list[str]:
        """For the table."""
        sums = self._sums.get
        return [
            str(self.runs),
            count(sums("tokens_in")),
            count(sums("tokens_out")),
            money(sums("cost_usd")),
            duration(sums("cpu_seconds")),
            self._note(),
        ]

    def _note(self) -> str:
        """Silent about figures that nobody has: a run that is no agent has no cost."""
        missing = [
            f"{label} not known of {self.runs - self._known[name]}"
            for name, label in (("cost_usd", "cost"), ("cpu_seconds", "CPU time"))
            if 0 < self._known[name] < self.runs
        ]
        return ", ".join(missing)


def run(args: Namespace) -> int:
    """Add it up."""
    since = None if args.since is None else time.time() - parse_duration(args.since, "--since")
    total, parts = Total(), dict[str, Total]()
    for info in list_runs(Runs().home, since=since, closely=False):
        total.add(info)
        for part in _parts(info, args.by):
            parts.setdefault(part, Total()).add(info)
    if args.json:
        by = {args.by: {name: parts[name].to_json() for name in sorted(parts)}} if args.by else {}
        streams.say_json({"schema": 1, "total": total.to_json(), "by": by or None})
    else:
        _print(args.by, total, parts)
    return 0


def _parts(info: RunInfo, by: str | None) -> list[str]:
    if by == "agent":
        return [info.agent or "none"]
    if by == "tag":
        return [f"{name}={value}" for name, value in info.tags.items()] or ["none"]
    if by == "day" and info.created_at is not None:
        return [time.strftime("%Y-%m-%d", time.localtime(seconds_of(info.created_at)))]
    return []


def _print(by: str | None, total: Total, parts: dict[str, Total]) -> None:
    rows = [[printable(name), *parts[name].cells()] for name in sorted(parts)]
    rows.append(["total", *total.cells()])
    head, *lines = table(((by or "").upper(), *_HEAD), rows, right=_HEAD[:-1])
    for line in (paint(head, "dim"), *lines):
        streams.say(line)
