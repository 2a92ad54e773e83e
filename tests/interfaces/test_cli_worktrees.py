"""`diff` and `discard` as a person at a terminal meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repositories import Repository
from tests.support.running import ended
from tests.support.terminals import on_screen


@pytest.fixture
def worktree(holdfast, tmp_path):
    """That of branch `x` of an ended run `a`, with an untracked file."""
    repository = Repository.with_commit(tmp_path / "repo")
    holdfast("run", "-n", "a", "--worktree", "x", "-C", repository.path, "true", expect=0)
    path = Path(ended("a").worktree["path"])
    (path / "new").write_text("hello \x1b]0;title\x07\n")
    return path


@pytest.mark.parametrize(("answer", "goes"), [(b"y\r", True), (b"\r", False)], ids=["yes", "no"])
def test_discard_shows_what_would_be_lost_and_asks_once(holdfast, worktree, answer, goes):
    with on_screen(holdfast.argv("discard", "a")) as screen:
        asked = screen.read_until(b"discard it? [y/N] ")
        assert b"a: to be removed: worktree" in asked
        assert b" and branch x; given up: 1 uncommitted file (new)" in asked
        screen.type(answer)
        assert screen.ends() == (0 if goes else 1)
        assert (b"nothing was discarded" in screen.seen) is not goes
    assert worktree.exists() is not goes


def test_discard_y_does_not_ask(holdfast, worktree):
    with on_screen(holdfast.argv("discard", "-y", "a")) as screen:
        assert screen.ends() == 0
        assert b"[y/N]" not in screen.seen
    assert not worktree.exists()


@pytest.mark.usefixtures("worktree")
def test_diff_on_a_terminal_escapes_what_files_hold_and_a_pipe_gets_the_bytes(holdfast):
    with on_screen(holdfast.argv("diff", "a")) as screen:
        assert screen.ends() == 0
        assert b"\x1b]0;title" not in screen.seen
        assert b"\x1b[32m+hello" in screen.seen
    assert "\x1b]0;title\x07" in holdfast("diff", "a").stdout
