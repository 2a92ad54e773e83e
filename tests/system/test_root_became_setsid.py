"""A shell that becomes `setsid CMD`: the run lasts as long as CMD and has CMD's exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from holdfast.run.outcomes import Outcome
from tests.support.cli import CommandLine
from tests.support.running import ended, events_of, is_alive, wait_for_events, wait_for_output
from tests.support.shims import kill_shim

pytestmark = pytest.mark.usefixtures("runs")  # what is left is stopped


def test_what_the_shell_started_before_is_not_taken_for_what_it_became(
    holdfast: CommandLine,
) -> None:
    script = 'sleep 3 & exec setsid sh -c "sleep 1; exit 7"'
    holdfast("run", "-n", "a", "--grace", "0", "sh", "-c", script, expect=0)
    info = ended("a")
    assert (info.outcome, info.exit_code) == (Outcome.FAILED, 7)
    [left, _] = events_of("a", "root_exited")
    assert "in_doubt" not in left, "the other one never left the session of the root"


def test_it_may_have_ended_before_anybody_looked(holdfast: CommandLine) -> None:
    holdfast("run", "-n", "a", "sh", "-c", "sleep 3 & exec setsid sh -c 'exit 7'", expect=0)
    assert ended("a").exit_code == 7


def _two_heirs(tmp_path: Path, first: int, second: int) -> str:
    """Two that left the session, each of which ends with its code once told to."""
    for name in "12":
        (tmp_path / f"go{name}").touch()
    wait = "while test -e {0}/go{1}; do sleep 0.05; done; exit {2}"
    before, after = (wait.format(tmp_path, *one) for one in ((1, first), (2, second)))
    # The shell waits until the first has left its session: till then the two are told apart.
    before = f"touch {tmp_path}/left; {before}"
    wait = f"while ! test -e {tmp_path}/left; do sleep 0.01; done"
    return f"setsid sh -c '{before}' & {wait}; exec setsid sh -c 'echo up; {after}'"


@pytest.mark.parametrize(
    ("codes", "ending"),
    [
        ((3, 3), (Outcome.FAILED, 3)),
        ((0, 7), (Outcome.LOST, None)),
        ((7, 0), (Outcome.LOST, None)),
    ],
)
@pytest.mark.parametrize("first_to_end", ["1", "2"])
def test_two_that_can_not_be_told_apart_are_both_awaited_and_none_is_believed_alone(
    holdfast: CommandLine,
    tmp_path: Path,
    codes: tuple[int, int],
    ending: tuple[Outcome, int | None],
    first_to_end: str,
) -> None:
    holdfast("run", "-n", "a", "sh", "-c", _two_heirs(tmp_path, *codes), expect=0)
    wait_for_output("a", b"up")
    (tmp_path / f"go{first_to_end}").unlink()
    last = (set("12") - {first_to_end}).pop()
    wait_for_events("a", "root_exited", why="the root left its place")
    (tmp_path / f"go{last}").unlink()
    info = ended("a")
    assert (info.outcome, info.exit_code) == ending
    if info.outcome is Outcome.LOST:
        assert "can't be told apart" in (info.evidence or "")


def test_who_takes_over_in_doubt_says_that_it_did_not_see(
    holdfast: CommandLine, runs: Runs, tmp_path: Path
) -> None:
    holdfast("run", "-n", "a", "sh", "-c", _two_heirs(tmp_path, 5, 5), expect=0)
    [left] = wait_for_events("a", "root_exited", why="the root left its place")
    assert left["in_doubt"] is True
    kill_shim(runs.get("a"))
    holdfast("recover", expect=0)
    assert is_alive(left["heir"]["pid"])
    for name in "12":
        (tmp_path / f"go{name}").unlink()
    assert ended("a").outcome is Outcome.LOST
