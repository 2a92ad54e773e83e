"""The report as Markdown, to paste into a bug report. Pure: a document in, text out."""

from __future__ import annotations

import re
from html import escape

from holdfast.manage.plaintext import printable
from holdfast.manage.report.document import DataTable, KeyFigures, Quotation, TimeCharts
from holdfast.manage.report.text_charts import plot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.manage.report.document import BulletList, Document, Fact, Section
    from holdfast.manage.report.text_charts import Ink

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~@&$-])")


def markdown(document: Document, ink: Ink | None = None) -> str:
    """The whole text. Charts are in it, drawn with that ink, as a block that can be unfolded."""
    parts = [f"## Run {_plain(f'{document.title} ({document.id}): {document.headline}')}"]
    parts.append(_bullets(f"{one.label}: {one.text}" for one in document.facts if not one.is_code))
    parts += [part for fact in document.facts if fact.is_code for part in _code(fact)]
    parts += [part for section in document.sections for part in _section(section, ink)]
    parts.append(f"_{_plain(document.footer)}_")
    return "\n\n".join(parts) + "\n"


def _code(fact: Fact) -> tuple[str, str]:
    return f"**{_plain(fact.label.capitalize())}**", _fenced(printable(fact.text), "sh")


def _section(section: Section, ink: Ink | None) -> tuple[str, ...]:
    block = section.block
    title = f"{section.title} ({section.note})" if section.note else section.title
    if isinstance(block, TimeCharts):
        if ink is None:
            return ()
        return _folded(title, _fenced("\n".join(plot(block, ink=ink))))
    if isinstance(block, DataTable) and not block.rows:
        return (f"**{_plain(title)}**: {_plain(block.nothing)}",)
    shown = _block(block, ink)
    return _folded(title, shown) if section.is_folded else (f"**{_plain(title)}**", shown)


def _folded(title: str, shown: str) -> tuple[str]:
    return (f"<details><summary>{escape(printable(title))}</summary>\n\n{shown}\n\n</details>",)


def _block(block: KeyFigures | DataTable | BulletList | Quotation, ink: Ink | None) -> str:
    if isinstance(block, Quotation):
        return _fenced("\n".join(map(printable, block.lines)))
    if isinstance(block, KeyFigures):
        rows = [(one.label, one.text, one.note) for one in block.facts]
        return _table(("figure", "value", ""), rows)
    if isinstance(block, DataTable):
        return _rows(block)
    signs = ["" if ink is None or one.lack is None else ink.gaps[one.lack] for one in block.items]
    return _bullets(f"{sign} {one.text}" for sign, one in zip(signs, block.items, strict=True))


def _rows(table: DataTable) -> str:
    rows = list(table.rows)
    if table.omission is not None:
        blanks = ("",) * (len(table.columns) - 1)
        rows.insert(table.omission.place, (f"... {table.omission.text}", *blanks))
    return _table([column.name for column in table.columns], rows)


def _bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(item)}" for item in items)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [map(_plain, head), ["---"] * len(head), *(map(_plain, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _fenced(text: str, language: str = "") -> str:
    """A block that ends where it should, whatever is in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
