"""The parts of the standard library that every shim needs, without what they are wrapped in.

A shim lives as long as its run, beside fifty others, and each has memory of its own for all that
it loads: `enum`, `json` (with `re`) and `signal` (with `enum`) are a sixth of it, and a third of
the time to import. Here are the C modules below them, and words like those of `enum.StrEnum`.
Type checkers see the real ones. tests/unit/test_lean.py compares both.
"""

from __future__ import annotations

__all__ = ["StrEnum", "json_text", "read_json", "sha256_hex", "signal", "spaced_json_text"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from enum import StrEnum
    from typing import Any
else:
    import _signal as signal

    class _WordsType(type):
        def __new__(cls, name, bases, namespace):
            # Every launch makes a dozen of these classes: it is written for speed.
            values = [(k, v) for k, v in namespace.items() if type(v) is str and k[0] != "_"]
            for key, _ in values:
                del namespace[key]
            namespace.setdefault("__slots__", ())
            words = super().__new__(cls, name, bases, namespace)
            new, put = str.__new__, type.__setattr__
            members, by_value = {}, {}
            for key, value in values:
                word = members[key] = by_value[value] = new(words, value)
                word.name, word.value = key, value
                put(words, key, word)
            put(words, "__members__", members)
            put(words, "_by_value", by_value)
            return words

        def __call__(cls, value):
            try:
                return cls._by_value[value]
            except (KeyError, TypeError):
                raise ValueError(f"{value!r} is not a valid {cls.__qualname__}") from None

        def __getitem__(cls, name):
            return cls.__members__[name]

        def __iter__(cls):
            return iter(cls.__members__.values())

        def __len__(cls):
            return len(cls.__members__)

        def __contains__(cls, value):
            return value in cls._by_value

        def __setattr__(cls, name, value):
            raise AttributeError(f"{cls.__name__} is fixed: {name} can't be set")

    class StrEnum(str, metaclass=_WordsType):
        """A fixed set of words, each equal to its text."""

        # A class whose members have a `__dict__` takes 768 bytes more, and each member 100.
        __slots__ = ("name", "value")

        def __repr__(self):
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce_ex__(self, _protocol):
            return type(self), (self.value,)


def json_text(document: Any) -> str:
    """Compact JSON in ASCII: arguments and paths may hold bytes that are not UTF-8."""
    return "".join(_encode(document, 0))


def spaced_json_text(document: Any) -> str:
    """The text that `json.dumps` makes: what is printed has spaces, and NaN where there is one."""
    return "".join(_encode_spaced(document, 0))


def read_json(text: str) -> Any:
    """What a JSON text holds. ValueError (or RecursionError) as from `json.loads`."""
    stripped = text.strip(" \t\n\r")
    try:
        document, end = _scan(stripped, 0)
    except (StopIteration, SystemError):
        # The C scanner says what is wrong by an error of `json`, and fails of that where `json`
        # is not loaded (Python 3.11): test_text_that_is_no_json_is_refused_in_a_lean_process.
        end = -1
    if end != len(stripped):
        import json

        return json.loads(text)  # which says what is wrong
    return document


def sha256_hex(data: bytes) -> str:
    """hashlib loads OpenSSL, which costs every launch as much as `setsid -f` as a whole."""
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]  # 3.12+
        except ImportError:
            from hashlib import sha256
    return str(sha256(data).hexdigest())


class _Scanning:
    """How `json.loads` scans, when nothing else is asked for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {
        "NaN": float("nan"),
        "Infinity": float("inf"),
        "-Infinity": float("-inf"),
    }.__getitem__


def _not_json(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} is not for JSON")


def _make() -> tuple[Any, Any, Any]:
    try:
        import _json

        quote = _json.encode_basestring_ascii
        encode = _json.make_encoder(None, _not_json, quote, None, ":", ",", False, False, False)
        spaced = _json.make_encoder(None, _not_json, quote, None, ": ", ", ", False, False, True)
        scanning: Any = _Scanning
        return encode, spaced, _json.make_scanner(scanning)
    except (ImportError, AttributeError, TypeError):  # another Python than those it was tried on
        import json

        encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
        plain, decoder = json.JSONEncoder(), json.JSONDecoder()
        return (
            lambda document, _: encoder.iterencode(document),
            lambda document, _: plain.iterencode(document),
            decoder.scan_once,  # type: ignore[attr-defined]
        )


_encode, _encode_spaced, _scan = _make()
