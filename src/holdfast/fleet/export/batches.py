"""What is brought from a node to the database at once: facts, looks, and how far that is. Pure.

A fact has a digest: the same run and number with another one means that a home was restored from a
copy, and lived on. A look is what the node derived just after those facts; of a run that nobody
placed only how it stands.
"""

from __future__ import annotations

import hashlib

from holdfast.errors import Unavailable
from holdfast.record import Record
from holdfast.run.checked_json import mismatch
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from holdfast.manage.reading.events import Event

    Json = dict[str, Any]

_LOOK_FIELDS = ("state", "is_recorded", "started_at", "ended_at")


class ExportedEvent(Record):
    """One fact of one run, as its node has recorded it."""

    run: str
    name: str | None
    seq: int
    at: str
    boottime: float
    kind: str
    facts: dict[str, Any]

    @classmethod
    def of(cls, event: Event) -> Self:
        """As it was read from the home."""
        return cls(
            event.run, event.name, event.seq, event.at, event.boottime, event.kind, event.facts
        )

    @property
    def digest(self) -> bytes:
        """Of all that was recorded."""
        import json

        recorded = [self.seq, self.at, self.boottime, self.kind, self.facts]
        text = json.dumps(recorded, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).digest()


class RunLook(Record):
    """How a run stood after the facts beside it."""

    run: str
    at: str
    is_placed: bool
    document: dict[str, Any]

    @classmethod
    def of(cls, run_id: str, at: str, document: Json) -> Self:
        """Of a run that was not placed by a submitter, only how it stands."""
        is_placed = document.get("placement") is not None
        kept = document if is_placed else {name: document.get(name) for name in _LOOK_FIELDS}
        return cls(run_id, at, is_placed, kept)


class FactBatch(Record):
    """Some facts in the order of time, and looks at their runs."""

    events: tuple[ExportedEvent, ...]
    looks: tuple[RunLook, ...]
    cursor: str | None  # after these facts; None: there are none
    is_reread: bool = False  # the home is not the one that was exported last: all is given again
    damage: dict[str, Any] = {}  # run id -> why the rest of its facts can't be read

    def to_json(self) -> Json:
        """One line of what a node says."""
        return {
            **self.as_dict(),
            "events": [one.as_dict() for one in self.events],
            "looks": [one.as_dict() for one in self.looks],
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """What a node said; Unavailable when that is no batch."""
        known = _fields(cls, document, ("events", "looks"))
        events = tuple(ExportedEvent(**one) for one in _each(ExportedEvent, known["events"]))
        looks = tuple(RunLook(**one) for one in _each(RunLook, known["looks"]))
        runs = {*(one.run for one in events), *(one.run for one in looks)}
        if not all(map(is_id, runs)) or not all(0 < one.seq < 1 << 63 for one in events):
            raise _not_understood()
        return cls(**{**known, "events": events, "looks": looks})


def _each(kind: type[Record], documents: object) -> Iterator[Json]:
    if not isinstance(documents, list):
        raise _not_understood()
    for one in documents:
        yield _fields(kind, one)


def _fields(kind: type[Record], document: object, unchecked: tuple[str, ...] = ()) -> Json:
    """The fields that are known here; of a later version there may be more."""
    if not isinstance(document, dict):
        raise _not_understood()
    fields = {name: document[name] for name in kind._fields if name in document}
    annotations: dict[str, str] = kind.__annotations__
    is_whole = fields.keys() | kind._defaults.keys() == {*kind._fields}
    if not is_whole or any(
        mismatch(annotations[name], value)
        for name, value in fields.items()
        if name not in unchecked
    ):
        raise _not_understood()
    return fields


def _not_understood() -> Unavailable:
    return Unavailable(
        "what the node says of its facts is not understood", hint="install the same version"
    )
