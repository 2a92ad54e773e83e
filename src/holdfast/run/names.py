"""Ids and names of runs: how they are made, and what counts as one.

Both end up as file names, so nothing that fails these checks may reach a path.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import InvalidName, InvalidOption, argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: can be read aloud
ID_LENGTH = 20
_LONGEST_NAME = 64
_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_IN_A_NAME = f"{_ALPHANUMERIC}._-"
_IN_A_GLOB = f"{_IN_A_NAME}*?[]!"


def new_id() -> str:
    """32 bits of seconds, then 64 random bits: sorts by time, and never repeats."""
    seconds = int(time.time()) & 0xFFFFFFFF
    return _base32(seconds << 64 | int.from_bytes(os.urandom(8)), ID_LENGTH)


def id_seconds(run_id: str) -> int:
    """When the id was made, in seconds since the epoch."""
    number = 0
    for letter in run_id:
        number = number << 5 | CROCKFORD.index(letter)
    return number >> 64


def last_id(seconds: float) -> str:
    """The largest id that can be made at that time."""
    return _base32(int(seconds) << 64 | (1 << 64) - 1, ID_LENGTH)


def is_id(text: str) -> bool:
    """Whether the text is a whole id."""
    return len(text) == ID_LENGTH and is_id_prefix(text)


def is_id_prefix(text: str) -> bool:
    """Whether an id could begin with the text."""
    return len(text) <= ID_LENGTH and not text.strip(CROCKFORD)


def valid_name(text: str) -> bool:
    """Whether the text can name a run."""
    is_short = 0 < len(text) <= _LONGEST_NAME
    return is_short and text[0] in _ALPHANUMERIC and not text.strip(_IN_A_NAME)


def check_key(key: str | None) -> str | None:
    """The key; an empty one is refused: it is an unset variable, and would be everybody's."""
    if key == "":
        raise InvalidOption(
            f"{argument('key')}: it is empty",
            hint="is a variable unset? Give a key of this work, or leave it out",
            option="key",
            value=key,
        )
    return key


def check_name(text: str) -> str:
    """The name itself, or InvalidName."""
    if not valid_name(text):
        raise InvalidName(
            f"{text!r} can't name a run",
            hint="1 to 64 of A-Z a-z 0-9 . _ - and a letter or digit first",
            name=text,
        )
    return text


def is_glob(text: str) -> bool:
    """Whether the text stands for all names that match it; no name has these characters."""
    return any(letter in text for letter in "*?[")


def check_glob(text: str) -> str:
    """The glob itself, or InvalidName."""
    if text.strip(_IN_A_GLOB):
        raise InvalidName(
            f"{text!r} can't match the name of a run",
            hint="names have A-Z a-z 0-9 . _ - and globs * ? [abc] [!abc] besides",
            name=text,
        )
    return text


def default_name(argv: Sequence[str]) -> str:
    """A name for a run that was given none: the command's, and four random characters."""
    program = os.path.basename(argv[0])
    usable = "".join(letter if letter in _IN_A_NAME else " " for letter in program)
    stem = "-".join(usable.split()).strip("._-")[:59]
    return f"{stem or 'run'}-{_base32(int.from_bytes(os.urandom(3)) & 0xFFFFF, 4)}"


def _base32(number: int, length: int) -> str:
    return "".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(length)))
