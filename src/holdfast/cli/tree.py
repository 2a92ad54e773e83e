"""`holdfast tree RUN`: the processes of a run and the suspects, each with its verdict."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import columns, is_terminal, paint
from holdfast.manage.plaintext import cut
from holdfast.manage.processes import look_at_processes
from holdfast.manage.reading.run_tree import inner_runs, tree_document
from holdfast.manage.runs import Runs
from holdfast.manage.state import read_facts
from holdfast.manage.words.tree_lines import lines_of_tree
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.words.tree_lines import TreeLine

_LOOKS = {Verdict.SAME.value: ("green",), Verdict.UNKNOWN.value: ("yellow",)}


def add_arguments(parser: Parser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.epilog = (
        "SAME: proven to be the recorded process. GONE, RECYCLED: it has ended; a recycled PID\n"
        "is another process now. UNKNOWN: nothing proves it. A suspect has the run's stamp in its\n"
        "environment and no other proof: it is never signalled unless asked for."
    )


def run(args: Namespace) -> int:
    """Print the tree as it is now."""
    looked_at = Runs().get(args.run)
    found = look_at_processes(looked_at.directory, read_facts(looked_at.directory))
    inner = inner_runs(looked_at.directory)
    if args.json:
        streams.say_json(tree_document(looked_at.directory, found, inner))
        return 0
    for line in lines_of_tree(found):
        streams.say(_shown(line))
    for one in inner:
        streams.say(f"inner run {one['name'] or one['id']} ({one['id']}) {one['state']}")
    return 0


def _shown(line: TreeLine) -> str:
    tail = line.tail
    if is_terminal(sys.stdout):
        tail = cut(tail, max(columns() - len(line.head) - len(line.verdict) - 2, 20))
    if not line.verdict:
        return line.head
    look = _LOOKS.get(line.verdict, ("dim",))
    return f"{line.head}{paint(line.verdict, *look)}  {tail}".rstrip()
