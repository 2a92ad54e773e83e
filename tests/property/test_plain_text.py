"""Wrapping and quoting agree with what they stand in for: `textwrap` and `shlex`."""

from __future__ import annotations

import shlex
import textwrap

from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.plaintext import fill
from holdfast.shell_words import command_line, quote

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(
    st.text("ab-/ \u00e9", max_size=60).map(lambda text: text.lstrip(" ")),
    st.integers(3, 30),
    st.sampled_from(["", "  "]),
)
def test_a_text_is_filled_as_textwrap_does_it(text, room, indent):
    lines = textwrap.wrap(text, room, subsequent_indent=indent, break_on_hyphens=False) or [""]
    assert fill(text, room, indent) == [line.rstrip(" ") for line in lines]


@given(words)
def test_a_word_is_quoted_as_shlex_does_it(word):
    assert quote(word) == shlex.quote(word)


@given(st.lists(words, max_size=5))
def test_a_command_line_is_read_back_as_its_words(command):
    assert shlex.split(command_line(command)) == command
