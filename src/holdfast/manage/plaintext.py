"""Text from outside, made harmless: a process can call itself anything, escape sequences too."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_SPACE = "\x1f"  # a space at which a line is not broken
LINE_BREAK = "\x1e"  # where a text goes on in a line of its own
# Spaces of other widths, and what joins letters and pictures: they move nothing.
_HARMLESS = frozenset("\u00a0\u1680\u200c\u200d\u202f\u205f\u3000") | frozenset(
    map(chr, range(0x2000, 0x200B))
)
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


def printable_lines(text: str) -> str:
    """Like `printable`, for a text of lines: newlines, tabs and spaces stay."""
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(_shown, line.split("\t"))) for line in lines)


def _shown(part: str) -> str:
    if part.isprintable():
        return part
    return "".join(
        character if character.isprintable() or character in _HARMLESS else _escaped(character)
        for character in part
    )


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def home_path(path: str) -> str:
    """A path with the home directory as `~`."""
    home = os.path.expanduser("~")
    if home not in ("", "/") and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path


def unbroken(text: str) -> str:
    """The text with spaces at which a line is not wrapped."""
    return text.replace(" ", KEPT_SPACE)


def wrapped(text: str, room: int) -> list[str]:
    """A text with such spaces and breaks as the lines that fit, made harmless."""
    lines = []
    for part in text.split(LINE_BREAK):
        lines += fill(KEPT_SPACE.join(map(printable, part.split(KEPT_SPACE))), room)
    return [line.replace(KEPT_SPACE, " ") for line in lines]


def fill(text: str, room: int, indent: str = "") -> list[str]:
    """The text as lines of at most `room` characters, broken at spaces; one at least.

    A word that is longer than a line is broken anywhere. `indent` begins every line but the first.
    As textwrap does it, without loading its expressions.
    """
    lines: list[str] = []
    line = text[: len(text) - len(text.lstrip(" "))]
    for gap, word in _gaps_and_words(text[len(line) :]):
        lead = indent if lines else ""
        if len(lead + line + gap + word) <= room:
            line += gap + word
            continue
        room_left = room - len(lead + line + gap)
        if len(word) > room - len(lead) and room_left > 0:
            line, rest = line + gap + word[:room_left], word[room_left:]
        else:
            rest = word
        if line.strip(" "):
            lines.append((lead + line).rstrip(" "))
        line = rest
        while line and len(lead := indent if lines else "") + len(line) > room:
            end = max(room - len(lead), 1)
            lines.append(lead + line[:end])
            line = line[end:]
    last = ((indent if lines else "") + line).rstrip(" ")
    return [*lines, last] if line.strip(" ") or not lines else lines


def _gaps_and_words(text: str) -> Iterator[tuple[str, str]]:
    """Each word, with the spaces before it."""
    gap = ""
    for number, word in enumerate(text.split(" ")):
        gap += " " if number else ""
        if word:
            yield gap, word
            gap = ""


def width(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, room: int) -> str:
    """The text, shortened to the room there is."""
    if width(text) <= room:
        return text
    while text and width(text) > room - 1:
        text = text[:-1]
    return f"{text}…" if room > 0 else ""
