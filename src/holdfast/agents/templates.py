"""Texts with {paths} into a record, as profiles have them."""

from __future__ import annotations

import json
import string

from holdfast.agents.profile import value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.agents.profile import Json


def fill(template: str, record: Json) -> str:
    """{a.b|c} is the first of the paths that is there; a value that is no text is JSON."""
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts.append(literal)
        if name is not None:
            values = (value_at(record, tuple(path.split("."))) for path in name.split("|"))
            value = next((one for one in values if one is not None), "")
            parts.append(value if isinstance(value, str) else _content(value))
    return "".join(parts)


def _content(value: object) -> str:
    """A list of blocks with texts (claude's tool results) as those texts; else JSON."""
    if isinstance(value, list):
        texts = [one.get("text") for one in value if isinstance(one, dict)]
        if texts and all(isinstance(text, str) for text in texts):
            return "\n".join(map(str, texts))
    return json.dumps(value, ensure_ascii=False)
