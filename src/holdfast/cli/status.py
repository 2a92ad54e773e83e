"""`holdfast status RUN`: everything known about a run, with the evidence for it."""

from __future__ import annotations

import time

from holdfast.cli import streams
from holdfast.cli.status_lines import KEPT_SPACE, Facts, lines_of
from holdfast.cli.terminal import columns, paint
from holdfast.errors import HoldfastError
from holdfast.manage.plaintext import printable
from holdfast.manage.processes import look_at_processes
from holdfast.manage.runs import Runs
from holdfast.manage.standing import read_facts
from holdfast.run.facts import RunFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.parser import Parser
    from holdfast.manage.runs import Run

_INDENT = 10
_NARROWEST = 40


def add_arguments(parser: Parser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.epilog = "exit code 0 whenever there is such a run, however it stands"


def run(args: Namespace) -> int:
    """Print it as a page, or as the run's document with its suspects."""
    known = gather(Runs().get(args.run))
    if args.json:
        streams.say_json(known.info.to_json())
        return 0
    streams.say(paint(printable(known.headline()), "bold"))
    for label, text in lines_of(known):
        for line in _wrapped(label, text):
            streams.say(line)
    return 0


def gather(run: Run) -> Facts:
    """The run at one look: its document, its events, its processes and the suspects."""
    info = run.info()
    try:
        facts = read_facts(run.directory)
        events = run.directory.read_events().events
    except (HoldfastError, OSError):  # the evidence says why
        facts, events = RunFacts(), ()
    processes = look_at_processes(run.directory, facts)
    suspects = processes.suspects
    found = None if suspects is None else [suspect.process for suspect in suspects]
    return Facts(info.replace(suspects=found), facts, events, processes, time.time())


def _wrapped(label: str, text: str) -> list[str]:
    """A label and its text, which goes on below itself."""
    import textwrap

    shown = KEPT_SPACE.join(printable(part) for part in text.split(KEPT_SPACE))
    room = max(columns() - _INDENT, _NARROWEST)
    lines = textwrap.wrap(shown, room, break_on_hyphens=False) or [""]
    first, *rest = (line.replace(KEPT_SPACE, " ") for line in lines)
    return [paint(f"{label:<{_INDENT}}", "dim") + first, *(" " * _INDENT + line for line in rest)]
