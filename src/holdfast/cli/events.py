"""`holdfast events [RUN]`: facts of one or all runs as JSON lines, each with a cursor."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.manage.operations import run_steps
from holdfast.manage.reading.events import EventStream
from holdfast.manage.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser

_EPILOG = """\
Every line is one JSON object: run, name, seq, at, kind, what the kind is about, and a cursor.
--since CURSOR continues after that event, without loss or repetition; `--since now` skips all
earlier events. With -f, events of one run end with it; those of all runs until interrupted."""


def add_arguments(parser: Parser) -> None:
    """Of which run, and from where."""
    parser.add_argument("run", metavar="RUN", nargs="?", help="only this run")
    parser.add_argument("-f", "--follow", action="store_true", help="follow new events")
    parser.add_argument("--since", metavar="CURSOR", help="after the event with this cursor")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print the events, oldest first."""
    runs = Runs()
    runs.home.check()
    only = None if args.run is None else runs.get(args.run).id
    warned: set[str] = set()
    with EventStream(runs.home, since=args.since, follow=args.follow, run=only) as stream:
        while (event := run_steps(stream.next_event())) is not None:
            streams.say_json(event.to_json())
            streams.flush()
            _warn_of_damage(stream, warned)
        _warn_of_damage(stream, warned)
    return 0


def _warn_of_damage(stream: EventStream, warned: set[str]) -> None:
    for run_id in stream.damage.keys() - warned:
        warned.add(run_id)
        streams.warn(f"the events of run {run_id} are damaged: {stream.damage[run_id]}")
