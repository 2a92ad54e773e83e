"""What a request asks: its query and its body, each checked before anything is done."""

from __future__ import annotations

import json
import time

from holdfast.errors import InvalidOption, WrongUse
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.requests import Request

MOST_NUMBER = 1 << 62


class AskedQuery:
    """The query of a request; a name that is not known is refused."""

    def __init__(self, request: Request, *known: str) -> None:
        self._given = request.query_params
        for name in self._given:
            if name not in known:
                hint = f"known: {', '.join(known)}" if known else "it takes none"
                raise InvalidOption(f"{name}: no such parameter", hint=hint, option=name)

    def text(self, name: str) -> str | None:
        """Given once."""
        values = self._given.getlist(name)
        if len(values) > 1:
            raise InvalidOption(f"{name}: given more than once", option=name)
        return values[0] if values else None

    def texts(self, name: str) -> list[str] | None:
        """Of which any will do."""
        return self._given.getlist(name) or None

    def number(self, name: str, default: int, most: int = MOST_NUMBER, least: int = 0) -> int:
        text = self.text(name)
        if text is None:
            return default
        fits = text.isascii() and text.isdigit() and len(text) < 20
        if not fits or not least <= int(text) <= most:
            what = f"{name}: {text[:40]!r} is not a number from {least} to {most}"
            raise InvalidOption(what, option=name)
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if text not in (None, "0", "1", "true", "false"):
            raise InvalidOption(f"{name}: 1 or 0", option=name)
        return text in ("1", "true")

    def since(self) -> float | None:
        """A duration before now, as seconds since the epoch."""
        text = self.text("since")
        return None if text is None else time.time() - parse_duration(text, "since")

    def tags(self) -> dict[str, list[str] | None]:
        tags: dict[str, list[str] | None] = {}
        for one in self.texts("tag") or ():
            key, equals, value = one.partition("=")
            if not key:
                raise InvalidOption(f"tag: {one[:40]!r} is not KEY=VALUE", option="tag")
            known = tags.get(key, [])
            tags[key] = None if not equals or known is None else [*known, value]
        return tags


async def read_document(request: Request) -> dict[str, Any]:
    """A JSON object; none is an empty one."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body and kind in ("", "application/json"):
        return {}
    if kind != "application/json":
        raise WrongUse("the body is not JSON", hint="Content-Type: application/json")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise WrongUse("the body is not a JSON object")
    return document


def fields(document: dict[str, Any], known: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Those that are given; a name or a type that does not fit is refused."""
    for name, value in document.items():
        if name not in known:
            hint = f"known: {', '.join(known)}" if known else "it takes none"
            raise InvalidOption(f"{name[:40]}: no such field", hint=hint, option=name)
        is_truth = isinstance(value, bool) and bool not in known[name]
        if value is not None and (is_truth or not isinstance(value, known[name])):
            expected = " or ".join(one.__name__ for one in known[name])
            raise InvalidOption(f"{name}: not a {expected}", option=name)
    return {name: value for name, value in document.items() if value is not None}
