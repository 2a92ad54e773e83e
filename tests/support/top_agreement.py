"""Whether the screen of `top` says what `ls --json` says."""

from __future__ import annotations

import json
import re

from tests.support.cli import CommandLine

_ROW = re.compile(r"^[+ ][!x?*$>. ] (\S+) +(\S+)", re.MULTILINE)


def shown_rows(screen: str) -> dict[str, str]:
    """Of each run on the screen its state, or its outcome once it has ended."""
    return {name: word for name, word in _ROW.findall(screen) if not name.startswith("NAME")}


def listed_rows(holdfast: CommandLine) -> dict[str, tuple[str, object]]:
    """The same by `ls --json`, and which shim has it: a run that was orphaned and adopted between
    two looks has another one."""
    runs = json.loads(holdfast("ls", "--json", expect=0).stdout)["runs"]
    shims = {one["id"]: (one["shim"] or {}).get("token") for one in runs}
    return {one["name"]: (one["outcome"] or one["state"], shims[one["id"]]) for one in runs}


def disagreements(
    before: dict[str, tuple[str, object]],
    shown: dict[str, str],
    after: dict[str, tuple[str, object]],
) -> list[str]:
    """What the screen says of runs that were the same before and after, and otherwise than they."""
    wrong = [
        f"{name}: {known[0]}, shown as {shown.get(name)}"
        for name, known in before.items()
        if after.get(name) == known and shown.get(name) != known[0]
    ]
    gone = [name for name in shown if name not in before and name not in after]
    return [*wrong, *(f"{name}: shown, and not there" for name in gone)]
