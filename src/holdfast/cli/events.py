"""`holdfast events [RUN]`: facts of one or all runs as JSON lines, each with a cursor."""

from __future__ import annotations

from holdfast.cli import streams
from holdfast.manage.events import EventStream
from holdfast.manage.runs import Runs
from holdfast.manage.steps import run_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser

_EPILOG = """\
Every line is one JSON object: run, name, seq, at, kind, what the kind is about, and a cursor.
--since CURSOR goes on after that event, without loss or repetition; `--since now` leaves out
what has happened so far. -f of one run ends with it; of all runs it goes on until interrupted."""


def add_arguments(parser: Parser) -> None:
    """Of whom, and from where."""
    parser.add_argument("run", metavar="RUN", nargs="?", help="of this run alone")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what happens")
    parser.add_argument("--since", metavar="CURSOR", help="after the event with this cursor")
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print the events, oldest first."""
    runs = Runs()
    runs.home.check()
    only = None if args.run is None else runs.get(args.run).id
    told: set[str] = set()
    with EventStream(runs.home, since=args.since, follow=args.follow, run=only) as stream:
        while (event := run_steps(stream.next_event())) is not None:
            streams.say_json(event.to_json())
            streams.flush()
            _tell_damage(stream, told)
        _tell_damage(stream, told)
    return 0


def _tell_damage(stream: EventStream, told: set[str]) -> None:
    for run_id in stream.damage.keys() - told:
        told.add(run_id)
        streams.warn(f"the events of run {run_id} are damaged: {stream.damage[run_id]}")
