"""The report as text for a terminal. Pure: a document in, lines out."""

from __future__ import annotations

from holdfast.manage.plaintext import fill, printable
from holdfast.manage.report.document import (
    ColumnKind,
    DataTable,
    KeyFigures,
    Quotation,
    TimeCharts,
)
from holdfast.manage.report.text_charts import UNICODE, plot, sparklines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.report.document import BulletList, Document
    from holdfast.manage.report.text_charts import Ink

_INDENT = 11
_NARROWEST = 40
_NARROWEST_PROSE = 40


def text(
    document: Document, width: int = 80, ink: Ink = UNICODE, *, is_plotted: bool = False
) -> list[str]:
    """Title first, then a line or more for each thing that is known."""
    lines = _wrapped(f"{document.title} ({document.id})  {document.headline}", width)
    for fact in document.facts:
        lines += _labelled(printable(fact.label), _wrapped(fact.text, _room(width)))
    for section in document.sections:
        block = section.block
        if isinstance(block, (KeyFigures, TimeCharts)):
            lines += ["", *_wide_block(block, width, ink, is_plotted), ""]
        else:
            label = printable(section.title.lower())
            lines += _labelled(label, _narrow_block(block, _room(width), ink))
    return _without_double_blanks([*lines, "", *_wrapped(document.footer, width)])


def _room(width: int) -> int:
    """What is left beside the labels."""
    return max(width - _INDENT, _NARROWEST)


def _wide_block(
    block: KeyFigures | TimeCharts, width: int, ink: Ink, is_plotted: bool
) -> list[str]:
    if isinstance(block, KeyFigures):
        rows = (tuple(map(printable, (one.label, one.text, one.note))) for one in block.facts)
        return [f"{label:<17}{value:>14}  {note}".rstrip() for label, value, note in rows]
    return plot(block, width, ink) if is_plotted else sparklines(block, ink)


def _narrow_block(block: DataTable | BulletList | Quotation, room: int, ink: Ink) -> list[str]:
    if isinstance(block, Quotation):
        return [line for said in block.lines for line in _wrapped(f"| {said}", room, "| ")]
    if isinstance(block, DataTable):
        return _table(block, room) if block.rows else _wrapped(block.nothing, room)
    signs = ("-" if item.lack is None else ink.gaps[item.lack] for item in block.items)
    items = (f"{sign} {item.text}" for sign, item in zip(signs, block.items, strict=True))
    return [line for item in items for line in _wrapped(item, room, "  ")]


def _table(table: DataTable, room: int) -> list[str]:
    """The head, and what each row takes; prose goes last."""
    names = [place for place, one in enumerate(table.columns) if one.kind is not ColumnKind.PROSE]
    rows = [tuple(one.name for one in table.columns), *table.rows]
    named = [[printable(row[place]) for place in names] for row in rows]
    prose = [
        "; ".join(printable(cell) for place, cell in enumerate(row) if place not in names and cell)
        for row in rows
    ]
    shown = _placed(named, prose, room)
    if table.omission is not None:
        shown.insert(table.omission.place + 1, _wrapped(f"... {table.omission.text}", room))
    return [line for lines in shown for line in lines]


def _placed(named: list[list[str]], prose: list[str], room: int) -> list[list[str]]:
    """Rows with their names aligned, and the prose beside them; below them where that is narrow."""
    widths = [max(map(len, column)) for column in zip(*named, strict=True)]
    used = sum(widths) + 2 * len(widths)
    if used - 2 > room:  # names as long as sentences
        rows = zip(named, prose, strict=True)
        return [_wrapped("  ".join((*names, said)), room, "  ") for names, said in rows]
    aligned = [
        "  ".join(f"{name:<{space}}" for name, space in zip(names, widths, strict=True))
        for names in named
    ]
    beside = max(room - used, 0)
    if beside >= _NARROWEST_PROSE or max(map(len, prose)) <= beside:
        return [
            _labelled(line, _wrapped(said, beside), used)
            for line, said in zip(aligned, prose, strict=True)
        ]
    below = widths[0] + 2
    return [[aligned[0].rstrip()]] + [
        [line.rstrip(), *_labelled("", _wrapped(said, room - below), below)]
        for line, said in zip(aligned[1:], prose[1:], strict=True)
    ]


def _labelled(label: str, rows: Sequence[str], indent: int = _INDENT) -> list[str]:
    """A label, and the rows beside it."""
    lines = [" " * indent + row for row in rows] or [""]
    if len(label) >= indent:
        return [label, *lines]
    return [f"{label:<{indent}}{lines[0][indent:]}".rstrip(), *lines[1:]]


def _wrapped(said: str, room: int, indent: str = "") -> list[str]:
    return fill(printable(said), room, indent)


def _without_double_blanks(lines: Sequence[str]) -> list[str]:
    return [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
