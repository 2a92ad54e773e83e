"""The tags of a scope, as words: of the command line, or of the URL of a server over HTTP."""

from __future__ import annotations

from holdfast.errors import InvalidOption

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def tags_of(texts: Iterable[str], option: str) -> dict[str, str]:
    """From K=V each; InvalidOption for what is none, and for two values of one tag."""
    tags: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidOption(f"{option}: {text[:80]!r} is not K=V", option="tag", value=text)
        if tags.setdefault(name, value) != value:
            raise InvalidOption(
                f"{option}: {name} can't be {tags[name]} and {value}",
                hint="a scope is of one value of each tag",
                option="tag",
                value=text,
            )
    return tags
