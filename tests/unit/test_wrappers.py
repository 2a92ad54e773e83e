"""The table of wrappers, interpreters and shells: one for processes and for commands."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agents.recognition import may_be_wrapper
from holdfast.agents.unwrapping import unwrap
from holdfast.shell_words import plain_words
from holdfast.wrappers import INTERPRETERS, SCRIPTS, SHELLS, WRAPPERS, family_of

WORDS = {"WORD", "VARIABLES", "PACKAGE", "TEXT"}
LOOKED_BEHIND = sorted(
    (name, verb, usage)
    for name, wrapper in WRAPPERS.items()
    for verb, usage in {"": wrapper.usage, **wrapper.verbs}.items()
    if usage is not None
)


@pytest.mark.parametrize("usage", sorted({usage for _, _, usage in LOOKED_BEHIND}))
def test_a_usage_consists_of_options_and_known_words(usage):
    parts = usage.split()
    assert [one for one in parts if not one.startswith("-")] == [p for p in parts if p in WORDS]
    assert len(set(parts)) == len(parts)


@pytest.mark.parametrize(("name", "verb", "usage"), LOOKED_BEHIND)
def test_the_program_behind_a_wrapper_is_found(name, verb, usage):
    own = ["own"] * usage.split().count("WORD")
    if WRAPPERS[name].takes_text:
        argv = [name, *own, "-c", "claude -p x"]
    else:
        argv = [name, *verb.split(), *own, "claude", "-p", "x"]
    *_, last = unwrap(argv)
    assert last.words[last.at] == "claude"
    assert may_be_wrapper(name)


@pytest.mark.parametrize("name", [name for name, wrapper in WRAPPERS.items() if wrapper.verbs])
def test_without_its_verb_nothing_is_looked_behind(name):
    found = list(unwrap([name, "strange", "claude"]))
    assert [step.kind for step in found if step.at > 0] in ([], ["script"])  # `bun FILE`


@pytest.mark.parametrize("name", [*SHELLS, *INTERPRETERS, "python3.12", "nodejs", "node20"])
def test_every_interpreter_is_looked_behind(name):
    assert family_of(name) in INTERPRETERS
    assert may_be_wrapper(name)


def test_the_lists_name_wrappers_of_the_table():
    assert set(WRAPPERS) >= set(SCRIPTS)
    assert not set(WRAPPERS) & set(SHELLS)


@given(st.text(alphabet="ab -='\"\\$`*;|&<>(){}#~!\t", max_size=20))
def test_plain_words_are_those_that_a_shell_would_give(text):
    words = plain_words(text)
    if words is None:
        return
    expected = shlex.split(text, comments=True)
    assert list(words) == (expected[1:] if expected[:1] == ["exec"] else expected)
