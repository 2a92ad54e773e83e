"""Whether the screen of `top` says what `ls --json` says."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.cli import CommandLine

_ROW = re.compile(r"^[+ ]([!x?*$>. ]) (\S+) +(\S+)", re.MULTILINE)


def shown_rows(screen: str) -> dict[str, str]:
    """Of each run on the screen its state, or outcome once it has ended; and whether it asks."""
    found = [one for one in _ROW.findall(screen) if not one[1].startswith("NAME")]
    return {name: f"{word}, asks" if sign == "!" else word for sign, name, word in found}


def listed_rows(holdfast: CommandLine) -> dict[str, tuple[str, object]]:
    """The same by `ls --json`, which shim has it, and what it asks: a run that was orphaned and
    adopted between two looks has another shim, one that was answered asks something else."""
    runs = json.loads(holdfast("ls", "--json", expect=0).stdout)["runs"]
    return {one["name"]: (_word(one), _between(one)) for one in runs}


def _between(run: dict[str, Any]) -> object:
    return (run["shim"] or {}).get("token"), json.dumps(run["attention"])


def _word(run: dict[str, Any]) -> str:
    word = str(run["outcome"] or run["state"])
    return word if run["attention"] is None else f"{word}, asks"


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
