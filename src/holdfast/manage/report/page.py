"""The report as one HTML page: no network, readable without JavaScript, light and dark.

Pure but for its style and script, which lie beside it. Its policy allows those two alone, so that
nothing that slipped in could run.
"""

from __future__ import annotations

import base64
import hashlib
import os

from holdfast.manage.report.document import (
    ColumnKind,
    DataTable,
    KeyFigures,
    Quotation,
    TimeCharts,
)
from holdfast.manage.report.markup import Markup, element, raw
from holdfast.manage.report.svg import drawn_charts, gap_swatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.manage.report.document import Block, Document, Fact, Section

_HERE = os.path.dirname(os.path.abspath(__file__))
_LOOKS = {ColumnKind.NUMBER: "number", ColumnKind.PROSE: "long", ColumnKind.WORDS: None}


def page(document: Document) -> str:
    """The whole document."""
    style, script = _own("page.css"), _own("page.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{document.title}: {document.headline}"),
        raw("style", style),
    )
    body = element(
        "body",
        _header(document),
        element("main", *map(_section, document.sections)),
        element("footer", document.footer),
        raw("script", script),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def _own(name: str) -> str:
    with open(f"{_HERE}/{name}", encoding="utf-8") as file:
        return file.read()


def _policy(style: str, script: str) -> str:
    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {digest(style)}; "
        f"script-src {digest(script)}; base-uri 'none'; form-action 'none'"
    )


def _header(document: Document) -> Markup:
    top = element(
        "div",
        element("h1", document.title),
        element("span", document.status, class_=f"badge {document.tone}"),
        element("span", document.ending) if document.ending else None,
        element("span", document.id, class_="id number"),
        class_="top",
    )
    return element("header", top, element("dl", *_facts(document.facts), class_="facts"))


def _facts(facts: Iterable[Fact]) -> Iterable[Markup]:
    for fact in facts:
        yield element("dt", fact.label)
        code = element("pre", element("code", fact.text)) if fact.is_code else fact.text
        yield element("dd", code)


def _section(section: Section) -> Markup:
    title = element(
        "h2", section.title, element("small", f" {section.note}") if section.note else None
    )
    content = _block(section.title, section.block)
    if section.is_folded:
        return element("details", element("summary", title), content)
    return element("section", title, content)


def _block(title: str, block: Block) -> Markup:
    if isinstance(block, TimeCharts):
        return drawn_charts(block)
    if isinstance(block, DataTable):
        return _table(title, block) if block.rows else element("p", block.nothing)
    if isinstance(block, KeyFigures):
        return element("dl", *map(_card, block.facts), class_="cards")
    if isinstance(block, Quotation):
        return element("pre", "\n".join(block.lines))
    swatches = [None if item.lack is None else gap_swatch(item.lack) for item in block.items]
    items = zip(swatches, block.items, strict=True)
    look = "legend" if any(swatches) else None
    return element("ul", *(element("li", gap, f" {item.text}") for gap, item in items), class_=look)


def _card(fact: Fact) -> Markup:
    note = fact.note or " "
    return element("div", element("dt", fact.label), element("dd", fact.text), element("dd", note))


def _table(title: str, table: DataTable) -> Markup:
    head = element("tr", *(element("th", one.name, scope="col") for one in table.columns))
    looks = [_LOOKS[column.kind] for column in table.columns]
    rows = [
        element(
            "tr", *(element("td", cell, class_=look) for cell, look in zip(row, looks, strict=True))
        )
        for row in table.rows
    ]
    if table.omission is not None:
        note = element("td", table.omission.text, colspan=len(looks))
        rows.insert(table.omission.place, element("tr", note))
    body = element("table", element("thead", head), element("tbody", *rows))
    return element("div", body, class_="scroll", role="region", aria_label=title, tabindex=0)
