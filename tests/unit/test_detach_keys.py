"""The keys that detach: how they are written, and how they are found in what is typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.arguments.detach_keys import DEFAULT, DetachKeys, parse_keys
from holdfast.errors import InvalidOption


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DEFAULT, b"\x1c"),
        ("ctrl-p,ctrl-q", b"\x10\x11"),
        ("CTRL-P, Ctrl-Q", b"\x10\x11"),
        ("ctrl-a,d", b"\x01d"),
        ("ctrl-@", b"\x00"),
        ("ctrl-_", b"\x1f"),
        ("~,.", b"~."),
        ("A", b"A"),
    ],
)
def test_keys_as_people_write_them(text, keys):
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["", "ctrl-", "ctrl-1", "ctrl-ab", "esc", "ö", "a,,b", "ctrl-ß"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(InvalidOption, match="is not a key"):
        parse_keys(text)


def typed(keys: bytes, *pieces: bytes) -> tuple[bytes, bool]:
    """All that is passed on until the keys are found."""
    detach_keys, passed = DetachKeys(keys), b""
    for piece in pieces:
        more, detach = detach_keys.look(piece)
        passed += more
        if detach:
            return passed, True
    return passed, False


def test_one_key():
    assert typed(b"\x1c", b"ls\r") == (b"ls\r", False)
    assert typed(b"\x1c", b"ls\x1cmore") == (b"ls", True)


def test_two_keys_also_apart_and_after_a_false_start():
    keys = b"\x10\x11"
    assert typed(keys, b"a\x10\x11b") == (b"a", True)
    assert typed(keys, b"a\x10", b"\x11") == (b"a", True)
    assert typed(keys, b"\x10\x10\x11") == (b"\x10", True)
    assert typed(keys, b"\x10x") == (b"\x10x", False)
    assert typed(keys, b"\x10") == (b"", False)  # held back until the next key
    assert typed(b"aab", b"aaab") == (b"a", True)


@pytest.mark.parametrize(
    "report",
    [
        b"\x1b[92;5u",  # kitty
        b"\x1b[92;5:1u",  # with the kind of event
        b"\x1b[92:124;5u",  # with the shifted key
        b"\x1b[92;69u",  # with caps lock on
        b"\x1b[27;5;92~",  # modifyOtherKeys
    ],
)
def test_the_same_key_in_the_longer_forms(report):
    assert typed(b"\x1c", b"x" + report) == (b"x", True)


@pytest.mark.parametrize(
    "report",
    [
        b"\x1b[92;5:3u",  # let go of
        b"\x1b[92u",  # the plain character
        b"\x1b[92;7u",  # with alt as well
        b"\x1b[57442;5u",  # ctrl itself
        b"\x1b[1114111;5u",
        b"\x1b[27;5;13~",
        b"\x1b[A",
        b"\x1b[1;5A",
        b"\x1b",
    ],
)
def test_other_keys_are_passed_on_as_they_came(report):
    assert typed(b"\x1c", b"x" + report + b"y") == (b"x" + report + b"y", False)


def test_letters_in_the_longer_forms_and_releases_between():
    keys = parse_keys("ctrl-p,q")
    assert typed(keys, b"\x1b[112;5u\x1b[112;5:3uq") == (b"\x1b[112;5:3u", True)
    assert typed(keys, b"\x1b[112;5u\x1b[113u") == (b"", True)


@given(st.lists(st.binary(max_size=20)))
def test_nothing_typed_is_lost(pieces):
    passed, detach = typed(b"\x1c", *pieces)
    assert detach or passed == b"".join(pieces)
