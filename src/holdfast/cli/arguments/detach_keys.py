"""The keys that detach from an attached run. Pure.

A program can make the terminal report keys in longer forms (kitty's protocol, modifyOtherKeys):
ctrl-\\ is then `ESC [ 92 ; 5 u`. They mean the same key, or no key would detach from it.
"""

from __future__ import annotations

import re

from holdfast.errors import InvalidOption

DEFAULT = "ctrl-\\"

_KEY = re.compile(
    rb"\x1b\[(?P<key>[0-9]{1,7})(?::[0-9:]*)?"
    rb"(?:;(?P<with>[0-9]{1,3})?(?::(?P<event>[0-9]))?(?:;[0-9:]*)?)?u"
    rb"|\x1b\[27;(?P<other_with>[0-9]{1,3});(?P<other_key>[0-9]{1,7})~"
    rb"|.",
    re.DOTALL,
)
_RELEASED = b"3"
_SHIFT, _CTRL, _LOCKS = 1, 4, 64 | 128
_FUNCTIONAL = 0xE000  # ctrl and shift themselves, media keys


def parse_keys(text: str) -> bytes:
    """`ctrl-p,ctrl-q`, `ctrl-\\` or plain characters, as the bytes a terminal sends."""
    keys = bytearray()
    for word in text.split(","):
        name = word.strip()
        is_control = name.isascii() and name[:5].lower() == "ctrl-" and len(name) == 6
        if is_control and "@" <= name[5].upper() <= "_":
            keys.append(ord(name[5].upper()) & 0x1F)
        elif len(name) == 1 and name.isascii():
            keys += name.encode()
        else:
            raise InvalidOption(
                f"--detach-keys: {word!r} is not a key",
                hint="a character, or ctrl- and a letter or one of @ [ \\ ] ^ _; commas between",
            )
    return bytes(keys)


class DetachKeys:
    """Finds the keys in what is typed. Keys that may be their beginning are held back."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._held: list[tuple[int | None, bytes]] = []  # each key as one byte, and as it was typed

    def look(self, typed: bytes) -> tuple[bytes, bool]:
        """What to forward, and whether to detach."""
        passed = bytearray()
        for found in _KEY.finditer(typed):
            if _is_silent(found):
                passed += found.group()
                continue
            self._held.append((_as_byte(found), found.group()))
            if [key for key, _ in self._held] == list(self._keys):
                return bytes(passed), True
            while not self._may_begin():
                passed += self._held.pop(0)[1]
        return bytes(passed), False

    def _may_begin(self) -> bool:
        return all(key == wanted for (key, _), wanted in zip(self._held, self._keys, strict=False))


def _is_silent(found: re.Match[bytes]) -> bool:
    """The release of a key, or a key that is no character."""
    return found["event"] == _RELEASED or (
        found["key"] is not None and int(found["key"]) >= _FUNCTIONAL
    )


def _as_byte(found: re.Match[bytes]) -> int | None:
    """The one byte that a plain terminal would send for this key."""
    key = found["key"] or found["other_key"]
    if key is None:
        return found.group()[0]
    modifiers = (int(found["with"] or found["other_with"] or 1) - 1) & ~_LOCKS
    character = int(key)
    if modifiers == _CTRL:
        upper = ord(chr(character).upper()) if character < 128 else 0
        return upper & 0x1F if 0x40 <= upper <= 0x5F else None
    return character if modifiers in (0, _SHIFT) and character < 128 else None
