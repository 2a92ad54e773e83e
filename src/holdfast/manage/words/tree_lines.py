"""The processes of a run, one line each, alike in every interface. Pure."""

from __future__ import annotations

from holdfast.manage.plaintext import printable
from holdfast.manage.processes import Role
from holdfast.process.verdict import Verdict
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.manage.processes import Processes, SeenProcess


class TreeLine(Record):
    """`shim 4242 ` `SAME` `sleeping  claude -p`; without a verdict the head says all."""

    head: str
    verdict: str = ""
    tail: str = ""


def lines_of_tree(found: Processes) -> Iterator[TreeLine]:
    """Each process below its parent, with its verdict; then how many are gone, and the suspects."""
    if not found.members:
        yield TreeLine("no process of it was ever recorded")
    depths: dict[str, int] = {}
    for one in found.members:
        depths[one.token] = depths[one.parent] + 1 if one.parent in depths else 0
        yield _line(one, depths[one.token])
    if found.gone:
        yield TreeLine(f"{found.gone} seen earlier {'has' if found.gone == 1 else 'have'} ended")
    for one in found.suspects or ():
        yield _line(one, 0)
    if found.suspects is None:
        yield TreeLine("suspects can't be looked for on this system")


def _line(one: SeenProcess, depth: int) -> TreeLine:
    process = one.process
    role = "" if one.role is Role.DESCENDANT else f"{one.role.value} "
    head = f"{'  ' * depth}{role}{process['pid']} "
    tail = printable("  ".join(filter(None, _words(one))))
    return TreeLine(head, str(process["verdict"]), tail)


def _words(one: SeenProcess) -> list[str]:
    # A forked shim has the arguments of the command that started the run.
    command = "" if one.role is Role.SHIM else _command(one.process)
    if one.process["verdict"] != Verdict.SAME.value:
        return [command, f"({one.evidence})"]
    said = [str(one.process.get("state") or ""), command]
    return [*said, f"({one.evidence})"] if one.role is Role.SUSPECT else said


def _command(process: dict[str, Any]) -> str:
    if process.get("cmdline"):
        from holdfast.shell_words import command_line

        first, *rest = process["cmdline"]
        if " " in first and not any(rest):
            return str(first)  # a process title over its arguments, as npx sets
        return command_line(process["cmdline"])
    return str(process.get("comm") or "")
