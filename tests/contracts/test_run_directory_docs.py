"""docs/run-directory.md says what each kind of event means."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.run.events import Kind

PAGE = Path(__file__).parents[2] / "docs" / "run-directory.md"


def _told(text: str) -> list[str]:
    """The kinds of the table, in its order."""
    table = text.partition("| kind | says |\n")[2].partition("\n\n")[0]
    cells = (row.split("|")[1] for row in table.splitlines()[1:])
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_table_of_events_names_each_kind_once():
    told, kinds = _told(PAGE.read_text()), {kind.value for kind in Kind}
    assert set(told) == kinds
    assert len(told) == len(kinds)


def test_a_kind_that_is_not_told_is_noticed():
    assert _told("| kind | says |\n| --- | --- |\n| `running` | so |\n\n`ended`") == ["running"]
