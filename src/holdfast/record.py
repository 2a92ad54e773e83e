"""Frozen records, like frozen dataclasses, for modules on the launch path.

Importing `dataclasses` costs a launch about five times `setsid -f` (it pulls in `inspect`), so
the records that every start needs are made here. Type checkers see them as frozen dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import KeysView
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_options):
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Record:
    """Base of all records: fields are the annotations, in order; defaults are class attributes."""

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}
    _names: KeysView[str] = {}.keys()  # a frozenset takes three times the room

    def __init_subclass__(cls) -> None:
        # Every launch makes some fifty classes: looking up a missing attribute is slow.
        own = vars(cls)
        names = tuple([name for name in own.get("__annotations__", ()) if name[0] != "_"])
        cls._fields = tuple([name for name in cls._fields if name not in names]) + names
        # `getattr` and not `own[name]`: a default may be a descriptor, as a declared figure is.
        given = {name: getattr(cls, name) for name in cls._fields if name in own}
        cls._defaults = cls._defaults | given
        cls._names = dict.fromkeys(cls._fields).keys()

    if not TYPE_CHECKING:

        def __init__(self, *values, **named):
            fields = self._fields
            if len(values) == len(fields) and not named:  # the fast path of hot captures
                self.__dict__.update(zip(fields, values, strict=True))
                return
            if not values and named.keys() == self._names:  # as of a copy, or read from a file
                self.__dict__.update(named)
                return
            if len(values) > len(fields):
                raise TypeError(f"{type(self).__name__} takes {len(fields)} values")
            given = {**dict(zip(fields, values, strict=False)), **named}
            whole = given if len(given) == len(fields) else {**self._defaults, **given}
            if whole.keys() != self._names or len(given) < len(values) + len(named):
                raise TypeError(f"{type(self).__name__} {self._mistake(fields, values, named)}")
            self.__dict__.update(whole)

        def _mistake(self, fields, values, named):
            by_place = fields[: len(values)]
            for name in named:
                if name not in fields or name in by_place:
                    return f"got an unexpected value for {name!r}"
            missing = [f for f in fields if f not in {*by_place, *named, *self._defaults}]
            return f"lacks {', '.join(missing)}"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self._fields)))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({values})"

    def replace(self, **changes: Any) -> Self:
        """The same record with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def as_dict(self) -> dict[str, Any]:
        """The fields by name; nested records are kept as they are."""
        return {name: self.__dict__[name] for name in self._fields}
