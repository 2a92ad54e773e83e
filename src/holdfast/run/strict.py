"""Reads records from JSON strictly: what is missing, surplus or of a wrong type is an error.

The types are those that the record's own annotations spell, so no field can be left unchecked.
"""

from __future__ import annotations

from holdfast.errors import DamagedRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.record import Record


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
    """The record's fields out of a JSON object, or DamagedRecord that names the first fault."""
    if not isinstance(document, dict):
        raise damaged(what, "is not a JSON object")
    if document.keys() != record._names:
        raise damaged(what, _wrong_fields(record, document))
    for name, annotation in _checked_fields(record):
        expected = mismatch(annotation, document[name])
        if expected is not None:
            # The type alone: the value may be a secret.
            found = type(document[name]).__name__
            raise damaged(what, f"has {name} of type {found}, not {expected}")
    return dict(document)


def _wrong_fields(record: type[Record], document: dict[Any, Any]) -> str:
    for name in document:
        if name not in record._fields:
            return f"has {name!r}, which is no field of it"
    missing = next(name for name in record._fields if name not in document)
    return f"lacks {missing!r}"


_checked: dict[type[Record], list[tuple[str, str]]] = {}


def _checked_fields(record: type[Record]) -> list[tuple[str, str]]:
    """Names and annotations; a nested record is read by its own from_json."""
    if record not in _checked:
        annotations = ((name, record.__annotations__[name]) for name in record._fields)
        _checked[record] = [(name, kind) for name, kind in annotations if _is_checked(kind)]
    return _checked[record]


def _is_checked(annotation: str) -> bool:
    return annotation.removesuffix(" | None") in CHECKS


def damaged(what: str, fault: str) -> DamagedRecord:
    """The error for a file of ours that does not say what it should."""
    return DamagedRecord(
        f"{what} {fault}", hint="it is kept as it is; nothing is signalled or removed on its word"
    )
