"""`holdfast attach` as people meet it: in a real terminal (tmux), and what it refuses."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from tests.support.features import needs
from tests.support.running import ended, info_of, output_of, stop, wait_for_output
from tests.support.terminals import DETACH, attached, on_screen
from tests.support.tmux import PROMPT, Tmux, tmux
from tests.support.waiting import eventually

SHELL = ["-e", "PS1=inside> ", "bash", "--norc"]


@pytest.fixture
def terminal():
    needs("tmux")
    with tmux() as one:
        yield one


@pytest.fixture
def shell(holdfast):
    """An interactive shell as a run."""
    holdfast("run", "--pty", "-n", "shell", "--stop-signal", "HUP", *SHELL, expect=0)
    yield "shell"
    if info_of("shell").is_active:
        stop(holdfast, "shell")


# --- in a real terminal ---------------------------------------------------------------------


def test_type_see_detach_and_attach_again(holdfast, terminal, shell):
    before = _settings(terminal)
    terminal.run(holdfast, "attach", shell)
    terminal.wait_for("inside>")
    terminal.type("echo $((6 * 7))", enter=True)
    assert "attached to shell; press ctrl-\\ to detach" in terminal.wait_for("\n42\n")
    terminal.press("C-\\")
    assert "detached from shell; it goes on" in terminal.wait_for("code=0")
    assert info_of(shell).is_active
    assert _settings(terminal) == before
    terminal.run(holdfast, "attach", shell)
    terminal.wait_for("\n42\n")  # what was written before is shown again
    terminal.type("exit 3", enter=True)
    shown = terminal.wait_for("code=0")
    assert "shell has ended: failed, exit 3" in shown
    assert ended(shell).exit_code == 3


def test_the_window_follows(holdfast, terminal, shell):
    terminal.run(holdfast, "attach", shell)
    terminal.wait_for("inside>")
    terminal.type("stty size", enter=True)
    terminal.wait_for("\n30 100\n")
    terminal.resize(77, 22)
    terminal.type("until stty size | grep '^22 77'; do sleep 0.1; done", enter=True)
    terminal.wait_for("\n22 77\n")
    terminal.press("C-\\")
    terminal.wait_for("code=0")


def test_ctrl_c_and_ctrl_d_are_the_workloads(holdfast, terminal, shell):
    terminal.run(holdfast, "attach", shell)
    terminal.wait_for("inside>")
    terminal.type("sleep 600", enter=True)
    eventually(lambda: "sleep" in _children(shell), why="the shell has started it")
    terminal.press("C-c")
    terminal.wait_for("^C")
    terminal.type("echo $?", enter=True)
    terminal.wait_for("\n130\n")
    terminal.press("C-d")
    assert "shell has ended" in terminal.wait_for("code=0")


def test_a_full_screen_program_is_drawn_again_and_left_without_a_trace(holdfast, terminal):
    holdfast("run", "--pty", "-n", "pager", sys.executable, "-c", FULL_SCREEN, expect=0)
    wait_for_output("pager", b"drawn")
    terminal.run(holdfast, "attach", "pager")
    terminal.wait_for("drawn for 30x100")
    assert terminal.flag("alternate_on") == "1"
    terminal.press("C-\\")
    shown = terminal.wait_for("code=0")
    assert "attached to pager" in shown  # what was on the screen before is there again
    assert "drawn" not in shown
    assert (terminal.flag("alternate_on"), terminal.flag("cursor_flag")) == ("0", "1")
    terminal.run(holdfast, "attach", "pager")
    terminal.wait_for("drawn for 30x100")
    terminal.type("q")
    assert "pager has ended: succeeded" in terminal.wait_for("code=0")
    assert (terminal.flag("alternate_on"), terminal.flag("cursor_flag")) == ("0", "1")


FULL_SCREEN = """
import os, select, signal, sys, tty
read_end, write_end = os.pipe()
os.set_blocking(write_end, False)
signal.set_wakeup_fd(write_end)
signal.signal(signal.SIGWINCH, lambda *_: None)
tty.setraw(0)
os.write(1, b"\\x1b[?1049h\\x1b[?25l")
def draw():
    size = os.get_terminal_size()
    os.write(1, b"\\x1b[2J\\x1b[3;5Hdrawn for %dx%d" % (size.lines, size.columns))
draw()
while True:
    ready = select.select([0, read_end], [], [])[0]
    if read_end in ready:
        os.read(read_end, 100)
        draw()
    elif os.read(0, 1) == b"q":
        os.write(1, b"\\x1b[?25h\\x1b[?1049l")
        break
"""


def test_killed_while_attached_the_terminal_is_given_back(holdfast, terminal, shell):
    terminal.run(holdfast, "attach", shell)
    terminal.wait_for("inside>")
    [pid] = subprocess.check_output(["pgrep", "-P", terminal.flag("pane_pid")]).split()
    os.kill(int(pid), signal.SIGTERM)
    terminal.wait_for("code=143")
    terminal.type("echo back", enter=True)
    assert "\nback\n" in terminal.wait_for("\nback\n")
    assert info_of(shell).is_active


def test_two_at_once_and_one_only_watches(holdfast, shell):
    needs("tmux")
    with tmux() as one, tmux() as two:
        one.run(holdfast, "attach", shell)
        two.run(holdfast, "attach", "--read-only", shell)
        for terminal in (one, two):
            terminal.wait_for("inside>")
        two.type("never typed")
        one.type("echo $((6 * 7))", enter=True)
        assert "never" not in two.wait_for("\n42\n")
        two.press("C-c")
        two.wait_for("code=0")
        one.type("echo still", enter=True)
        one.wait_for("\nstill\n")
        one.press("C-\\")
        one.wait_for("code=0")


def test_run_and_attach_at_once_in_one_line(holdfast, terminal):
    line = shlex.join(holdfast.argv())
    terminal.type(f"clear; {line} attach $({line} run --pty sh -c 'stty size; read x')", enter=True)
    terminal.wait_for("\n30 100\n")
    terminal.type("", enter=True)
    assert "has ended: succeeded" in terminal.wait_for("has ended")
    terminal.wait_for(PROMPT)


# --- the rest, without a terminal emulator ----------------------------------------------------


def test_other_keys_detach_and_ctrl_backslash_is_then_the_workloads(holdfast):
    # A trap that comes just before a `read` waits for its line; after a `sleep` it always runs.
    script = "trap 'echo quit' QUIT; echo ready; while :; do sleep 0.1; done"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", script)
    with attached(holdfast, "--detach-keys", "ctrl-p,ctrl-q", "a") as screen:
        screen.read_until(b"ready")
        screen.type(DETACH)
        screen.read_until(b"quit")
        screen.type(b"\x10\x11")
        assert screen.ends() == 0
        assert screen.is_as_it_was()
    assert info_of("a").is_active
    stop(holdfast, "a")


def test_the_hang_up_of_our_terminal_leaves_the_run_alone(holdfast, shell):
    with attached(holdfast, shell) as screen:
        screen.read_until(b"inside>")
        screen.process.send_signal(signal.SIGHUP)
        assert screen.ends() == 129
        assert screen.is_as_it_was()
    assert info_of(shell).is_active


def test_stopped_and_continued_it_goes_on_in_raw_mode(holdfast, shell):
    with attached(holdfast, shell) as screen:
        screen.read_until(b"inside>")
        screen.process.send_signal(signal.SIGTSTP)  # ignored: the terminal would stay raw
        screen.process.send_signal(signal.SIGCONT)
        screen.type(b"echo $((6*7))\r")
        screen.read_until(b"42")
        screen.type(DETACH)
        assert screen.ends() == 0
        assert screen.is_as_it_was()


def test_quiet_says_nothing_of_its_own(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", "echo ready; read x", expect=0)
    with on_screen(holdfast.argv("attach", "-q", "a")) as screen:
        screen.read_until(b"ready")
        screen.type(b"\r")
        assert screen.ends() == 0
        assert b"attached" not in screen.seen
        assert b"has ended" not in screen.seen


def test_watching_into_a_file_is_the_output_and_nothing_else(holdfast, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    talks = f"printf '\\033[?25lone'; cat {go}; printf two"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", talks, expect=0)
    with subprocess.Popen(
        holdfast.argv("attach", "--read-only", "a"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as watcher:
        assert watcher.stdout is not None
        seen = watcher.stdout.read(9)
        go.write_bytes(b"")
        rest, said = watcher.communicate(timeout=30)
    assert seen + rest == b"\x1b[?25lonetwo" == output_of("a")
    assert said == b"a has ended: succeeded after " + said.split()[-1] + b"\n"
    assert watcher.returncode == 0


def test_what_cannot_be_attached_to(holdfast, shell):
    holdfast("run", "-n", "plain", "sleep", "600", expect=0)
    said = holdfast("attach", "--read-only", "plain", expect=4).stderr
    assert "plain has no terminal: it was started without --pty" in said
    assert "holdfast logs -f plain" in said
    stop(holdfast, "plain")
    holdfast("run", "--pty", "-n", "over", "true", expect=0)
    ended("over")
    said = holdfast("attach", "--read-only", "over", expect=4).stderr
    assert "over has ended: succeeded" in said
    assert holdfast("attach", "--read-only", "nobody").returncode == 3
    assert "needs a terminal on stdin" in holdfast("attach", shell, expect=2).stderr
    assert holdfast("attach", "--json", shell, expect=2).json["error"]["code"] == "wrong-use"
    refused = holdfast("attach", "--detach-keys", "escape", shell, expect=2).stderr
    assert "is not a key" in refused
    inside = {"HOLDFAST_RUN_ID": info_of(shell).id}
    assert (
        "can't show itself" in holdfast("attach", "--read-only", shell, env=inside, expect=4).stderr
    )


def _settings(terminal: Tmux) -> list[str]:
    """Of the terminal, as stty tells them to the shell in it."""
    terminal.type("clear; stty -a; echo 'all' told", enter=True)
    return terminal.wait_for("\nall told\n").partition("\nall told\n")[0].splitlines()[1:]


def _children(name: str) -> str:
    workload = info_of(name).workload
    assert workload is not None
    listed = subprocess.run(
        ["ps", "-o", "comm=", "--ppid", str(workload["pid"])], capture_output=True, text=True
    )
    return listed.stdout
