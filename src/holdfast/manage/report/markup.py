"""HTML and SVG put together from parts, each escaped once. Pure.

Text is text: only what `element` made is taken as markup. So a name or a command that looks like
a tag is shown, and never runs.
"""

from __future__ import annotations

import html

from holdfast.manage.plaintext import printable


class Markup(str):
    """Markup that was made here."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Any text, harmless between tags and in attributes; control characters are shown as such."""
    return Markup(html.escape("\n".join(map(printable, text.split("\n")))))


def element(name: str, /, *parts: str | None, **attributes: str | float | None) -> Markup:
    """`element("a", "text", class_="x", data_y=1)`; an attribute that is None is left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{shown}>")
    return Markup(f"<{name}{shown}>{joined(*parts)}</{name}>")


def joined(*parts: str | None) -> Markup:
    """Parts one after another; those that are None are left out."""
    return Markup("".join(_part(part) for part in parts if part is not None))


def raw(name: str, content: str, /, **attributes: str | float | None) -> Markup:
    """A style, a script or data, whose content is not escaped: it must be ours, or JSON of ours."""
    if "</" in content:
        raise ValueError(f"{name} would end early")
    return Markup(element(name, **attributes).removesuffix(f"</{name}>") + content + f"</{name}>")


def _part(part: str) -> str:
    return part if isinstance(part, Markup) else escaped(part)


def _text(value: str | float) -> str:
    """Numbers as short as an SVG takes them."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


_VOID = frozenset(("meta", "link", "br"))
