"""F5: the same words, exit codes, texts and documents, here and on each engine."""

from __future__ import annotations

import pytest

from tests.fleet.parity import assert_same_words
from tests.support import pretend_claude
from tests.support.kernel_lab import python_for


def test_F5_over_ssh_every_word_answers_as_here(submitter, world):
    claude = pretend_claude.install(world.folder, python_for(world.uid))
    assert_same_words(submitter, "ssh:n1", claude)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "which of nodes"),
        (("check",), "check needs WHERE"),
        (("nodes", "x"), "'x' is one word"),
    ],
)
def test_what_fleet_lacks_is_named(holdfast, words, says):
    assert says in holdfast("fleet", *words, expect=2).stderr
