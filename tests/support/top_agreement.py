"""Whether the screen of `top` says what `ls --json` says."""

from __future__ import annotations

import json
import re

from tests.support.cli import CommandLine

_ROW = re.compile(r"^[+ ][!x?*$>. ] (\S+) +(\S+)", re.MULTILINE)


def shown_rows(screen: str) -> dict[str, str]:
    """Of each run on the screen its state, or its outcome once it has ended."""
    return {name: word for name, word in _ROW.findall(screen) if not name.startswith("NAME")}


def listed_rows(holdfast: CommandLine) -> dict[str, str]:
    """The same by `ls --json`."""
    runs = json.loads(holdfast("ls", "--json", expect=0).stdout)["runs"]
    return {one["name"]: one["outcome"] or one["state"] for one in runs}


def disagreements(
    before: dict[str, str], shown: dict[str, str], after: dict[str, str]
) -> list[str]:
    """What the screen says of runs that were the same before and after, and otherwise than they."""
    steady = [name for name in before if after.get(name) == before[name]]
    wrong = [
        f"{name}: {before[name]}, shown as {shown.get(name)}"
        for name in steady
        if shown.get(name) != before[name]
    ]
    gone = [name for name in shown if name not in before and name not in after]
    return [*wrong, *(f"{name}: shown, and not there" for name in gone)]
