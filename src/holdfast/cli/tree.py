"""`holdfast tree RUN`: everybody of a run and the suspects, each with its verdict."""

from __future__ import annotations

import sys

from holdfast.cli import streams
from holdfast.cli.terminal import columns, cut, is_terminal, paint
from holdfast.manage.info import read_run
from holdfast.manage.plaintext import printable
from holdfast.manage.processes import Processes, Role, Seen, look_at_processes
from holdfast.manage.runs import Runs
from holdfast.manage.standing import read_facts
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from holdfast.cli.parser import Parser
    from holdfast.manage.runs import Run

_LOOKS = {Verdict.SAME.value: ("green",), Verdict.UNKNOWN.value: ("yellow",)}


def add_arguments(parser: Parser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.epilog = (
        "SAME: proven to be the recorded process. GONE, RECYCLED: it has ended; a recycled PID\n"
        "is another process now. UNKNOWN: nothing proves it. A suspect only carries the run's\n"
        "stamp in its environment: it is never signalled unasked."
    )


def run(args: Namespace) -> int:
    """Print the tree as it is now."""
    looked_at = Runs().get(args.run)
    found = look_at_processes(looked_at.directory, read_facts(looked_at.directory))
    inner = _inner(looked_at)
    if args.json:
        streams.say_json(_document(looked_at, found, inner))
        return 0
    for line in _lines(found):
        streams.say(line)
    for one in inner:
        streams.say(f"inner run {one['name'] or one['id']} ({one['id']}) {one['state']}")
    return 0


def _inner(run: Run) -> list[dict[str, Any]]:
    inner = run.directory.inner_runs()
    infos = [read_run(directory, closely=False) for directory in inner if directory.exists()]
    return [{"id": info.id, "name": info.name, "state": info.state.value} for info in infos]


def _document(run: Run, found: Processes, inner: list[dict[str, Any]]) -> dict[str, Any]:
    suspects = None if found.suspects is None else [one.to_json() for one in found.suspects]
    return {
        "schema": 1,
        "id": run.id,
        "processes": [one.to_json() for one in found.members],
        "suspects": suspects,
        "gone": found.gone,
        "inner": inner,
    }


def _lines(found: Processes) -> Iterator[str]:
    if not found.members:
        yield "no process of it was ever recorded"
    depths: dict[str, int] = {}
    for one in found.members:
        depths[one.token] = depths[one.parent] + 1 if one.parent in depths else 0
        yield _line(one, depths[one.token])
    if found.gone:
        yield f"{found.gone} seen earlier {'has' if found.gone == 1 else 'have'} ended"
    for one in found.suspects or ():
        yield _line(one, 0)
    if found.suspects is None:
        yield "suspects can't be looked for on this system"


def _line(one: Seen, depth: int) -> str:
    process = one.process
    role = "" if one.role is Role.DESCENDANT else f"{one.role.value} "
    verdict = str(process["verdict"])
    head = f"{'  ' * depth}{role}{process['pid']} "
    tail = printable("  ".join(filter(None, _words(one))))
    if is_terminal(sys.stdout):
        tail = cut(tail, max(columns() - len(head) - len(verdict) - 2, 20))
    return f"{head}{paint(verdict, *_LOOKS.get(verdict, ('dim',)))}  {tail}".rstrip()


def _words(one: Seen) -> list[str]:
    # A shim's arguments are those of whoever started the run.
    command = "" if one.role is Role.SHIM else _command(one.process)
    if one.process["verdict"] != Verdict.SAME.value:
        return [command, f"({one.evidence})"]
    said = [str(one.process.get("state") or ""), command]
    return [*said, f"({one.evidence})"] if one.role is Role.SUSPECT else said


def _command(process: dict[str, Any]) -> str:
    if process.get("cmdline"):
        import shlex

        first, *rest = process["cmdline"]
        if " " in first and not any(rest):
            return str(first)  # a title that it gave itself, as npx does, over its words
        return shlex.join(process["cmdline"])
    return str(process.get("comm") or "")
