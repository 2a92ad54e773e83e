"""Text from outside, made harmless: a process can call itself anything, escape sequences too."""

from __future__ import annotations

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """The text without anything that moves the cursor, hides or reverses what is shown."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() and character not in _BIDI
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
