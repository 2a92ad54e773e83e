"""`holdfast metrics`: the figures of all runs in Prometheus' text format."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.manage.metrics.exposition import exposition
from holdfast.manage.metrics.figures import MetricsCollector
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

JSON = False


def add_arguments(parser: Parser) -> None:
    """None of its own."""
    parser.epilog = (
        "For the textfile collector of node_exporter: write to a file beside the real one and\n"
        "rename it. `holdfast serve` has the same under /metrics. docs/metrics.md explains each."
    )


def run(args: Namespace) -> int:  # noqa: ARG001 - what every command is given
    """Print them."""
    streams.say(exposition(MetricsCollector(Home.locate()).families()).rstrip("\n"))
    return 0
