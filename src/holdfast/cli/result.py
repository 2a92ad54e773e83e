"""`holdfast result RUN`: an agent's final answer, alone on stdout."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.cli.text.terminal import is_terminal
from holdfast.errors import Failed, NoAnswer
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.runs import Runs
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.info import RunInfo

KNOWS_FLEET = True


def add_arguments(parser: Parser) -> None:
    """RUN."""
    parser.add_argument("run", metavar="RUN", help="a name, an id, or the beginning of an id")
    parser.epilog = (
        "exit codes: 0 there is an answer; 1 there is none (yet), or the agent reports that it\n"
        "failed: its answer is printed all the same; 6 its node does not answer. On a terminal,\n"
        "control sequences in the answer are escaped; a pipe or file gets the bytes unchanged."
    )


def run(args: Namespace) -> int:
    """Print the answer, or say why there is none."""
    found = Runs().get(args.run)
    info = found.info()
    if info.result is None or info.result.get("text") is None:
        if found.is_elsewhere and info.state is State.UNKNOWN:
            raise NoAnswer(f"{info.name}: {info.evidence}", hint=f"holdfast status {info.name}")
        error = Failed(_why_not(info), hint=f"holdfast logs {info.name}", run=info.id)
        error.code = "no-result"
        raise error
    is_error = bool(info.result.get("is_error"))
    if args.json:
        head = {"schema": 1, "id": info.id, "name": info.name, "agent": info.agent}
        streams.say_json({**head, "state": info.state, "result": info.result})
        return 1 if is_error else 0
    text = str(info.result["text"])
    if is_terminal(sys.stdout):
        text = printable_lines(text)  # an answer may quote anything from a page or a file
    streams.say_bytes(
        (text.encode("utf-8", "surrogateescape"), b"" if text[-1:] == "\n" else b"\n")
    )
    if is_error:
        streams.complain(f"note: {info.agent or info.name} says that it failed")
    return 1 if is_error else 0


def _why_not(info: RunInfo) -> str:
    if info.agent is None:
        return f"{info.name} is not the run of an agent: it has output, but no answer"
    if info.is_active:
        return f"{info.name} is {info.state}: {info.agent} has not given its answer yet"
    return f"{info.name} ended ({info.outcome}) without an answer of {info.agent}"
