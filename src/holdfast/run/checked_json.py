"""Reads records from JSON strictly: what is missing or of a wrong type is damage.

The types are those that the record's own annotations spell, so no field can be left unchecked. A
field with a default may be missing, since an earlier Holdfast did not know it; one that we don't
know is a later one's.
"""

from __future__ import annotations

from holdfast.errors import DamagedRecord, LaterVersion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.record import Record

    # A name, whether it may be None, what its value has to fit, and what was expected.
    CheckedField = tuple[str, bool, Callable[[object], bool], str]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and value - value == 0)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _is_text_by_text(value: object) -> bool:
    # An environment has a hundred of them: not one by one.
    return isinstance(value, dict) and {*map(type, value), *map(type, value.values())} <= {str}


CHECKS: dict[str, tuple[Callable[[object], bool], str]] = {
    "str": (_is_text, "a text"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "bool": (_is_flag, "true or false"),
    "tuple[str, ...]": (_is_texts, "a list of texts"),
    "dict[str, str]": (_is_text_by_text, "an object of texts"),
    "dict[str, Any]": (_is_object, "an object"),
}


def mismatch(annotation: str, value: object) -> str | None:
    """What was expected, when the value does not fit the annotation."""
    plain = annotation.removesuffix(" | None")
    if value is None and plain != annotation:
        return None
    check, expected = CHECKS[plain]
    return None if check(value) else expected


def read_fields(record: type[Record], document: object, what: str) -> dict[str, Any]:
    """The record's fields out of a JSON object; DamagedRecord or LaterVersion name the fault."""
    if not isinstance(document, dict):
        raise damaged(what, "is not a JSON object")
    is_whole = document.keys() == record._names
    whole = dict(document) if is_whole else _completed(record, document, what)
    for name, may_be_none, fits, expected in _checked_fields(record):
        value = whole[name]  # a default is ours, and fits
        if not (fits(value) if value is not None else may_be_none):
            # The type alone: the value may be a secret.
            raise damaged(what, f"has {name} of type {type(value).__name__}, not {expected}")
    return whole


def _completed(record: type[Record], document: dict[Any, Any], what: str) -> dict[Any, Any]:
    """With the defaults of what an earlier Holdfast did not know."""
    if not document.keys() <= record._names:
        name = next(name for name in document if name not in record._names)
        raise LaterVersion(
            f"{what} has {name!r}, which this Holdfast does not know",
            hint="use the Holdfast that wrote it, or a newer one",
            schema=document.get("schema"),
        )
    whole = {**record._defaults, **document}
    if len(whole) < len(record._fields):
        missing = next(name for name in record._fields if name not in whole)
        raise damaged(what, f"lacks {missing!r}")
    return whole


_checked: dict[type[Record], list[CheckedField]] = {}


def _checked_fields(record: type[Record]) -> list[CheckedField]:
    """How each field is checked; a nested record is read by its own from_json."""
    if record not in _checked:
        annotations = [(name, record.__annotations__[name]) for name in record._fields]
        plain = [(name, kind, kind.removesuffix(" | None")) for name, kind in annotations]
        _checked[record] = [
            (name, kind != base, *CHECKS[base]) for name, kind, base in plain if base in CHECKS
        ]
    return _checked[record]


def damaged(what: str, fault: str) -> DamagedRecord:
    """The error for a file of ours that does not say what it should."""
    return DamagedRecord(
        f"{what} {fault}", hint="it is kept as it is; nothing is signalled or removed on its word"
    )
