"""The table of `ls`: which columns, and how wide.

What is piped away always has the same columns. On a terminal those with nothing in them are left
out, which makes room for the command.
"""

from __future__ import annotations

import sys
import time

from holdfast.cli.text.terminal import columns, is_terminal, table
from holdfast.manage.plaintext import cut, printable, width
from holdfast.manage.words.views import NUMBERS, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.fleet.listing import FleetOverview
    from holdfast.manage.info import RunInfo
    from holdfast.manage.overview import Overview

    Column = list[str]
    Look = tuple[str, ...]

COLUMNS = ("NAME", "STATE", "OUTCOME", "AGE", "CPU", "MEM", "OUTPUT", "COST", "NOTE")
_ALWAYS = ("NAME", "STATE")
_LEAST_COMMAND = 20  # less of it tells nothing
_GAP = 2
_HEAD: Look = ("dim",)


def table_of_runs(shown: Overview | FleetOverview, *, verbose: bool) -> list[tuple[str, Look]]:
    """The lines, the head first, and what each looks like; none without a run."""
    on_screen = is_terminal(sys.stdout)
    now, rows, ids, commands, looks = time.time(), [], [], [], [_HEAD]
    node_of = getattr(shown, "node_of", None)
    nodes: Column | None = None if node_of is None else []
    for info in shown:
        cells = row_of(info).cells(now)
        rows.append([printable(cells[name]) for name in COLUMNS])
        ids.append(info.id)
        if nodes is not None and node_of is not None:
            nodes.append(printable(node_of(info)))
        looks.append(_look(info))
        if verbose or on_screen:
            commands.append(printable(shown.command_of(info)))
    if not rows:
        return []
    found = {
        name: list(cells) for name, cells in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    if on_screen:
        found = {name: cells for name, cells in found.items() if name in _ALWAYS or any(cells)}
    if verbose or (on_screen and _has_twins(found["NAME"])):
        found = {"NAME": found.pop("NAME"), "ID": ids, **found}
    if nodes is not None:
        found = {"NAME": found.pop("NAME"), "NODE": nodes, **found}
    if on_screen:
        found = _with_command(found, commands, columns(), verbose)
    elif verbose:
        found["COMMAND"] = commands
    lines = table([*found], [*zip(*found.values(), strict=True)], right=NUMBERS)
    return list(zip(lines, looks, strict=True))


def _has_twins(names: Column) -> bool:
    """Whether two have one name."""
    return len({name.lower() for name in names}) < len(names)


def _with_command(
    found: dict[str, Column], commands: Column, room: int, verbose: bool
) -> dict[str, Column]:
    """With the command as the last column, if there is room for it."""
    notes = found.get("NOTE")
    left = room - sum(_wide(name, cells) + _GAP for name, cells in found.items() if name != "NOTE")
    share = 0
    if notes is not None:
        rest = left - _GAP - _wide("COMMAND", commands)
        share = min(_wide("NOTE", notes), max(rest, left // 2)) + _GAP
    if left - share < _LEAST_COMMAND and not verbose:
        return found
    if notes is not None:
        found = {**found, "NOTE": [cut(text, share - _GAP) for text in notes]}
    return {**found, "COMMAND": commands}


def _wide(name: str, cells: Column) -> int:
    return max(map(width, (name, *cells)))


def _look(info: RunInfo) -> Look:
    if info.state.needs_recovery:
        return ("yellow",)
    return () if info.is_active else _HEAD
