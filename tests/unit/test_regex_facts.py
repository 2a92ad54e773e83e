"""What is known about a pattern before it is searched for."""

from __future__ import annotations

import re

import pytest

from holdfast.manage.reading.regex_facts import regex_facts


def _facts(pattern: str, flags: int = 0):
    return regex_facts(re.compile(pattern, flags))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("error", "error"),
        (r"a\.b", "a.b"),
        ("ä", "ä"),
        ("(?x) a  b", "ab"),
    ],
)
def test_plain_text_is_known_as_such(pattern, text):
    facts = _facts(pattern)
    assert facts.literal == facts.text == text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^error", "error"),
        ("error$", "error"),
        (r"\berror\b!", "error!"),
        ("ab.*longest", "longest"),
        ("(lon)(gest)x?", "longest"),
        ("(?:err)+ors", "err"),
        ("x(?:err){0,3}", "x"),
        ("foo|bar", ""),
        ("foo(?:bar|baz)", "fooba"),
        ("[abc]+", ""),
        ("(?=look)ahead", "ahead"),
        ("(?i)Disk", "d"),
        ("(?i:TER)minal", "term"),
        ("(?i)ÄB", ""),
    ],
)
def test_a_text_that_every_match_has(pattern, text):
    facts = _facts(pattern)
    assert (facts.literal, facts.text) == (None, text)


def test_case_is_folded_as_far_as_the_line_is_known_to_be_ascii():
    facts = _facts("Disk FAULT", re.IGNORECASE)
    assert facts.folds
    assert facts.ascii_text == "disk fault"
    assert facts.text == " fault"
    assert re.search("Disk", "di\u017f\u212a", re.IGNORECASE), "why i, k and s are left out"


@pytest.mark.parametrize(
    "pattern",
    ["a.b", "^a$", "[a-z]+", r"\d\w\S", r"(a|b)\1", "a{2,}?", r"\bx\B", "[^\\n]", r"[^\s]"],
)
def test_patterns_that_stay_in_their_line(pattern):
    assert _facts(pattern, re.MULTILINE).is_local


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"a\s", r"\W", r"\D", "[^a]", "[^ab]", "[\t-\r]", r"[\s,]", "(?s)a.b", "(?s:.)", "a\\nb"),
        *(r"\Aa", r"a\Z", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)", "a*+", "(?-m:^a)"),
        r"(a)?(?(1)b|c)",
    ],
)
def test_patterns_that_may_see_another_line(pattern):
    assert not _facts(pattern, re.MULTILINE).is_local


def test_the_end_of_a_line_is_told():
    assert _facts("a(b$|c)").has_line_end
    assert not _facts(r"a\$").has_line_end


def test_without_the_parsed_form_nothing_is_claimed(monkeypatch):
    monkeypatch.delattr(re, "_parser")
    facts = _facts("error")
    assert (facts.literal, facts.text, facts.is_local) == (None, "", False)
