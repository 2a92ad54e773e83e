"""`top` on a real terminal: it agrees with `ls`, bears any size and a broken home."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.asking import asked, say, start_talk
from tests.support.features import needs
from tests.support.pretend_talker import install
from tests.support.running import run_of, wait_for, wait_for_output
from tests.support.shims import kill_shim
from tests.support.tmux import PROMPT, Tmux, tmux
from tests.support.top_agreement import disagreements, listed_rows, shown_rows
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _terminal():
    needs("tmux")


def _open(window: Tmux, holdfast, *words: str) -> None:
    window.run(holdfast, "top", *words)
    window.wait_for("q quit")


def _agrees(window: Tmux, holdfast) -> None:
    """Sooner or later; bench/top.py holds how soon."""

    def look() -> bool:
        before = listed_rows(holdfast)
        shown = shown_rows(window.screen())
        return before == listed_rows(holdfast) and not disagreements(before, shown, before)

    eventually(look, 60, "the screen says what `ls --json` says")


def _top_pid(window: Tmux) -> int:
    """Of the program in the window."""
    shell = window.flag("pane_pid")
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", shell], capture_output=True, text=True)
    return int(found.stdout.split()[0])


@pytest.mark.usefixtures("runs")
def test_T1_the_screen_agrees_with_ls_while_runs_come_change_and_go(
    holdfast, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    with tmux(100, 40) as window:
        _open(window, holdfast)
        holdfast("queue", "set", "q", "--limit", "1", expect=0)
        for number in range(3):
            holdfast("run", "-n", f"long-{number}", "--", "sleep", "1000", expect=0)
            holdfast("run", "-n", f"queued-{number}", "-Q", "q", "--", "sleep", "1000", expect=0)
        _agrees(window, holdfast)
        holdfast("run", "-n", "fails", "--", "sh", "-c", "exit 3", expect=0)
        holdfast("run", "-n", "stalls", "--idle-timeout", "1", "--", "sleep", "1000", expect=0)
        wait_for("stalls", lambda info: info.outcome == "stalled")
        _agrees(window, holdfast)
        assert shown_rows(window.screen())["stalls"] == "stalled"
        start_talk(holdfast, install(tmp_path), "--approve", "ask", name="asks")
        say(holdfast, "ask true", name="asks")
        asked(name="asks")
        _agrees(window, holdfast)
        assert shown_rows(window.screen())["asks"] == "running, asks"
        kill_shim(run_of("long-0"))
        holdfast("recover", expect=0)
        wait_for("long-0", lambda info: info.state == "running")
        holdfast("stop", "queued-0", "long-1", "--grace", "1", expect=0)
        holdfast("rm", "fails", expect=0)
        _agrees(window, holdfast)
        assert "fails" not in window.screen()


def test_T3_any_size_and_no_colour(runs, holdfast):
    runs.start(["sleep", "1000"], name="sleeper", tags={"team": "web"})
    with tmux(80, 24) as window:
        window.type("export NO_COLOR=1", enter=True)
        _open(window, holdfast)
        window.wait_for("sleeper")
        assert not re.search(r"\x1b\[([0-9]+;)*3[0-8]", window.coloured_screen())
        for size in ((50, 20), (200, 50), (30, 6), (120, 40), (20, 3), (80, 24)):
            window.resize(*size)
        window.wait_for("q quit")
        shown = window.wait_for("sleeper  running").splitlines()
        assert max(map(len, shown)) <= 80
        window.press("Enter")
        window.wait_for("evidence")
        window.resize(50, 20)
        window.wait_for("esc back")
        window.press("Escape")
        window.wait_for("detail")
        window.press("q")
        window.wait_for("code=0")


def test_T4_a_home_that_vanishes_is_told_and_comes_back(runs, holdfast, tmp_path):
    runs.start(["true"], name="done").wait(60)
    home, away = tmp_path, tmp_path.with_name(f"{tmp_path.name}-away")
    with tmux(100, 20) as window:
        window.type(f"cd /; export HOLDFAST_HOME={home}", enter=True)
        _open(window, holdfast)
        window.wait_for("succeeded")
        os.rename(home, away)
        try:
            window.wait_for("no runs")
            window.press("s")
            window.wait_for("there is no run here")
        finally:
            os.rename(away, home)
        window.wait_for("succeeded")
        spec = Path(run_of("done").directory.spec_path)
        spec.write_text("{")
        window.press("Enter")
        window.wait_for("is not JSON; kept, and not touched")
        window.press("Escape")
        window.wait_for("q quit")
        window.press("q")
        window.wait_for("code=0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_T6_a_signal_leaves_a_sane_terminal_and_the_run_alone(runs, holdfast, number):
    run = runs.start(["sleep", "1000"], name="sleeper")
    with tmux(100, 20) as window:
        _open(window, holdfast)
        window.wait_for("sleeper")
        assert window.flag("alternate_on") == "1"
        os.kill(_top_pid(window), number)
        window.wait_for(f"code={128 + number}")
        assert window.flag("alternate_on") == "0"
        assert window.flag("cursor_flag") == "1"
        assert window.flag("mouse_any_flag") == "0"
        window.type("echo it is sa''ne", enter=True)
        window.wait_for("it is sane")
    assert run.info().state == "running"


def test_T2_attach_takes_the_terminal_and_gives_it_back(runs, holdfast):
    runs.start(["cat"], name="cat", pty=True)
    with tmux(100, 20) as window:
        _open(window, holdfast)
        window.wait_for("cat ")
        window.press("a")
        window.wait_for("attached to cat")
        window.type("hallo", enter=True)
        wait_for_output("cat", b"hallo")
        window.press("C-\\")
        window.wait_for("back from cat")
        window.press("q")
        window.wait_for("code=0")


def test_without_a_terminal_or_with_json_it_is_wrong_use(holdfast):
    done = holdfast("top", expect=2)
    assert "top needs a terminal" in done.stderr
    assert "holdfast ls" in done.stderr
    assert "has no JSON form" in holdfast("--json", "top", expect=2).stdout


def test_without_the_extra_it_names_it(tmp_path):
    """In a Python that can't find Textual, on a terminal."""
    program = (
        "import sys, importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'textual' else found(name, *a)\n"
        "from holdfast.cli import main\n"
        "code = main(['top'])\n"
        "assert not {'textual', 'rich'} & set(sys.modules), 'loaded'\n"
        "print('code', code)"
    )
    with tmux(100, 20) as window:
        (tmp_path / "without.py").write_text(program)
        window.type(f"{sys.executable} {tmp_path}/without.py", enter=True)
        shown = window.wait_for("code 6")
        assert "holdfast[top]" in shown
        assert "pip install 'holdfast[top]'" in shown
        assert PROMPT in shown


def test_the_base_loads_nothing_of_the_extra():
    program = (
        "import sys, holdfast.cli.live.top, holdfast.manage.live, holdfast.tui.first_frame\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'textual', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
