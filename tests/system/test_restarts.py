"""`--restart`: why an attempt was followed by another one, as people say it."""

from __future__ import annotations

import pytest

from tests.support.running import ended, events_of


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("kill -KILL $$", "SIGKILL"),
    ],
)
def test_the_reason_of_a_restart_is_told_in_words(holdfast, script, reason):
    once = (
        f"ulimit -c 0; [ -e $HOLDFAST_HOME/again ] && exit 0; touch $HOLDFAST_HOME/again; {script}"
    )
    holdfast("run", "-n", "a", "--restart", "on-failure:1", "bash", "-c", once, expect=0)
    assert ended("a").outcome == "succeeded"
    [scheduled] = events_of("a", "restart_scheduled")
    assert scheduled["reason"] == reason
