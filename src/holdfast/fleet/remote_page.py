"""What a screen or a page shows of one run elsewhere: asked of its node, at one look.

The words are those of `status` for a run here; its processes are told by the node's own `tree`.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.fleet.reaching import ask, note_end, raise_refusal, sight_of
from holdfast.fleet.remote_info import UNFIT, fit_info
from holdfast.fleet.verdict import NodeLook, judge
from holdfast.lean import read_json
from holdfast.manage.processes import Processes
from holdfast.manage.together import together
from holdfast.manage.words.status_page import (
    EVENTS,
    EVIDENCE,
    NEXT,
    ORIGIN,
    OUTPUT,
    PROCESSES,
    SUSPECTS,
    StatusFacts,
    lines_of,
)
from holdfast.record import Record
from holdfast.run.facts import RunFacts, State
from holdfast.run.units import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.fleet.placement import Placement
    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps

_TAIL_LINES = 10
# Made of what is in the node's own files; its processes are in `tree`.
_NOT_HERE = (PROCESSES, SUSPECTS, EVENTS, NEXT, OUTPUT, ORIGIN)
NODE = "node"  # the label of the line that says where it is


class RemotePage(Record):
    """One run elsewhere."""

    info: RunInfo
    headline: str
    lines: tuple[tuple[str, str], ...]  # label and text, as of `status`
    tree: tuple[str, ...] = ()  # as the node prints it
    output: bytes = b""  # its end
    is_reached: bool = True


def page_steps(run: RemoteRun) -> Steps[RemotePage]:
    """Ask its node; where that does not answer, what is known here."""
    run._refresh()
    fleet = run._fleet
    sight = yield from sight_of(fleet, run.placement)
    note_end(fleet, sight.placement, sight)
    placement, last = sight.placement, None if sight.last is None else sight.last.run
    info = fit_info(placement, judge(sight), last)
    if sight.look is not NodeLook.ANSWERED:
        return unreached_page(info, placement)
    asked = (["tree", run.id], ["logs", "--raw", "--tail", str(_TAIL_LINES), run.id])
    tree, output = yield from together([ask(fleet, placement, words) for words in asked])
    if isinstance(tree, HoldfastError):
        lines = (tree.message,)
    else:
        said = tree.output.decode("utf-8", "replace") or tree.errors
        lines = tuple(said.rstrip("\n").split("\n"))
    tail = b"" if isinstance(output, HoldfastError) else output.output
    known = StatusFacts(info, RunFacts(), (), Processes((), (), 0), time.time())
    try:
        said_here = [(label, text) for label, text in lines_of(known) if label not in _NOT_HERE]
    except UNFIT as error:
        said_here = [(EVIDENCE, f"its node says what can't be read ({type(error).__name__})")]
    about = ((NODE, where_line(placement)), *said_here)
    return RemotePage(info, known.headline(), about, lines, tail)


def unreached_page(info: RunInfo, placement: Placement) -> RemotePage:
    """Of a run whose node does not say how it stands now."""
    headline = f"{info.name} ({info.id}): {info.outcome or info.state}"
    return RemotePage(info, headline, tuple(unreached_rows(info, placement)), is_reached=False)


def where_line(placement: Placement) -> str:
    """`n1 (ssh:n1), node 0tqw...`."""
    return f"{placement.where} ({placement.target}), node {placement.node or 'not known yet'}"


def unreached_rows(info: RunInfo, placement: Placement) -> Iterator[tuple[str, str]]:
    """Label and text of what is known here."""
    from holdfast.shell_words import command_line

    now = time.time()
    rows = {
        EVIDENCE: info.evidence,
        NODE: where_line(placement),
        "command": command_line(info.command or []),
        "placed": f"{clock(placement.created_at, now)} by {placement.submitter}",
        "bound": clock(placement.bound_at, now) or "to no node yet",
        NEXT: f"holdfast fleet check {placement.target}; holdfast fleet give-up {info.id},"
        " once it is known to be gone"
        if info.state is State.UNKNOWN
        else "",
    }
    return ((label, text) for label, text in rows.items() if text)


def text_steps(run: RemoteRun, *words: str, columns: int | None = None) -> Steps[bytes]:
    """What a command of the node prints; its refusal is raised."""
    reply = yield from ask(run._fleet, run.placement, list(words), columns=columns)
    raise_refusal(words[0], reply)
    output: bytes = reply.output
    return output


def documents_steps(run: RemoteRun, *words: str) -> Steps[list[dict[str, Any]]]:
    """The lines of JSON that a command of the node prints; those that are none are left out."""
    output = yield from text_steps(run, *words)
    found = []
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            document = read_json(line)
        except (ValueError, RecursionError):  # words of a program between, such as a banner
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def tail_begin_steps(run: RemoteRun, lines: int) -> Steps[int]:
    """The byte at which its last lines begin."""
    found = yield from documents_steps(run, "--json", "logs", "--tail", str(lines), run.id)
    at = next((one.get("at_byte") for one in found), 0)
    return at if isinstance(at, int) and at >= 0 else 0
