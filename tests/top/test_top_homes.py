"""T4: a home that can't be written to, and one on a slow disk: `top` shows it, and keys are
answered."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.support.features import needs
from tests.support.running import info_of, wait_for
from tests.support.tmux import tmux

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _terminal():
    needs("tmux", "root")


def _in_own_mounts(window, command: str) -> None:
    window.type("clear", enter=True)
    words = shlex.join(["unshare", "-m", "sh", "-c", command])
    window.type(f"cd {ROOT}; {words}; echo code=$?", enter=True)


def test_T4_a_read_only_home_is_shown_and_what_would_write_is_refused(runs, holdfast, tmp_path):
    runs.start(["sh", "-c", "echo last words; exit 3"], name="done").wait(60)
    runs.start(["sleep", "1000"], name="sleeper", grace="1s")
    where = shlex.quote(str(tmp_path))
    mount = f"mount --bind {where} {where} && mount -o remount,ro,bind {where}"
    with tmux(120, 24) as window:
        _in_own_mounts(window, f"{mount} && cd / && {shlex.join(holdfast.argv('top'))}")
        window.wait_for("q quit")
        window.wait_for("sleeper  running")
        window.press("G")
        window.press("d")
        window.wait_for("remove done?")
        window.press("y")
        window.wait_for("Read-only file system")
        window.press("l")
        window.wait_for("following")
        window.press("Escape")
        window.wait_for("q quit")
        window.press("g")
        window.press("s")
        window.wait_for("stop sleeper?")
        window.press("y")  # by the shim, which can write
        window.wait_for("sleeper stopped in")
        wait_for("sleeper", lambda info: info.outcome == "stopped")
        window.press("q")
        window.wait_for("code=0")
    assert info_of("done").outcome == "failed"


def test_T4_keys_are_answered_while_a_disk_does_not_answer(runs, holdfast, tmp_path):
    """Every read of a run waits: a key does not wait for it."""
    needs("fuse")
    for number in range(3):
        runs.start(["sleep", "1000"], name=f"sleeper-{number}")
    hold = tmp_path / "hold"
    hold.touch()
    held = [sys.executable, "-m", "tests.support.slow_disk", runs.home.runs_path, str(hold)]
    with tmux(120, 60) as window:
        _in_own_mounts(window, shlex.join([*held, *holdfast.argv("top")]))
        window.wait_for("q quit")
        assert "sleeper-2 running" not in window.screen()
        window.press("?")
        window.wait_for("On a run, or")
        window.press("Escape")
        window.wait_until_gone("On a run, or")
        hold.unlink()
        window.wait_for("> sleeper-2 running")
        hold.touch()
        window.press("Enter")
        window.wait_for("esc back")
        assert "evidence" not in window.screen()  # it is still being read
        window.press("?")
        window.wait_for("On a run, or")
        window.press("Escape")
        window.wait_until_gone("On a run, or")
        hold.unlink()
        window.wait_for("evidence")
        window.press("Escape")
        window.wait_for("q quit")
        window.press("q")
        window.wait_for("code=0")
