"""`holdfast logs` on a terminal: redrawn lines show their last state; pipes get every byte."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.manage.reading.terminal_line import TerminalLine
from tests.support.features import needs
from tests.support.terminals import on_screen
from tests.support.tmux import tmux
from tests.support.waiting import eventually
from tests.unit.test_terminal_line import LINES

BAR = b"begin\n 10%|#    |\r 50%|###  |\r100%|#####|\nplain\r\nabcdef\rxy\x1b[K\nlast 1\rLAST"
SEEN = b"begin\r\n100%|#####|\r\nplain\r\r\nxy\r\nLAST 1"  # a terminal turns \n into \r\n


def _writes(runs, data: bytes, name: str = "x"):
    """A run that has ended, with this output."""
    run = runs.start(["true"], name=name)
    assert run.wait(20).state == "ended"
    Path(run.directory.output_path).write_bytes(data)
    return run


def _on_screen(holdfast, *words: str, columns: int = 100) -> bytes:
    with on_screen(holdfast.argv("logs", *words), columns=columns) as screen:
        assert screen.ends() == 0
        return screen.seen


@pytest.mark.parametrize("words", [(), ("-n", "100"), ("-f",), ("-f", "--tail", "100")])
def test_a_redrawn_line_is_shown_in_its_last_state(holdfast, runs, words):
    _writes(runs, BAR)
    # Followed, the cursor is left where the output would go on.
    end = b"\rLAST" if "-f" in words else b""
    assert _on_screen(holdfast, *words, "x") == SEEN + end
    assert _on_screen(holdfast, "-n", "1", "x") == b"LAST 1"


def test_raw_and_pipes_and_json_have_every_byte(holdfast, runs):
    _writes(runs, BAR)
    assert _on_screen(holdfast, "--raw", "x") == BAR.replace(b"\n", b"\r\n")
    assert _on_screen(holdfast, "--raw", "-f", "x") == BAR.replace(b"\n", b"\r\n")
    assert holdfast("logs", "x", expect=0).raw == BAR
    assert holdfast("logs", "-f", "--raw", "x", expect=0).raw == BAR
    lines = holdfast("logs", "--json", "x", expect=0).json_lines
    assert "\n".join(line["text"] for line in lines).encode() == BAR
    assert b"10%" in _on_screen(holdfast, "--json", "x")
    _writes(runs, b"y", "y")
    named = holdfast("logs", "x", "y", expect=0).raw
    assert named == b"".join(b"x | %b\n" % line for line in BAR.split(b"\n")) + b"y | y\n"


def test_names_and_times_are_not_written_over(holdfast, runs):
    _writes(runs, BAR)
    _writes(runs, b"\x1b[2K\x1b[1Gother", "y")
    named = re.sub(rb"\x1b\[[0-9]*m", b"", _on_screen(holdfast, "x", "y")).split(b"\r\n")
    assert named == [
        *(b"x | begin", b"x | 100%|#####|", b"x | plain\r", b"x | xy", b"x | LAST 1"),
        *(b"y | other", b""),
    ]
    timed = _on_screen(holdfast, "-t", "x").split(b"\r\n")
    assert [line[22:] for line in timed[:2]] == [b"begin", b"100%|#####|"]


def test_a_hit_is_shown_as_it_was_when_it_matched(holdfast, runs):
    _writes(runs, b"no\n 10%\r 50% half\r100%\x1b[K\nplain 50%\n")
    shown = _on_screen(holdfast, "--grep", "50%", "x")
    assert shown == b"3: 50% half\r\n26:plain 50%\r\n"
    assert _on_screen(holdfast, "--grep", "%", "x") == b"3:100%\r\n26:plain 50%\r\n"
    assert b"10%\r 50% half\r100%" in _on_screen(holdfast, "--raw", "--grep", "50%", "x")
    assert b"10%\r 50% half\r100%" in holdfast("logs", "--grep", "50%", "x", expect=0).raw


def test_a_hit_is_shown_before_the_next_is_looked_for(holdfast, runs):
    _writes(runs, b"hit\n" + b"x" * (1 << 20) + b"\n")
    with on_screen(holdfast.argv("logs", "--grep", "hit|x*y", "x")) as screen:
        screen.read_until(b"0:hit\r\n")
        screen.process.send_signal(signal.SIGINT)
        assert screen.ends() == -signal.SIGINT


def test_a_bar_of_many_megabytes_is_one_line(holdfast, runs):
    bar = b"".join(b"\r%7d of 1000000" % number for number in range(1_000_001))
    _writes(runs, bar + b"\nover\n")
    assert _on_screen(holdfast, "x") == b"1000000 of 1000000\r\nover\r\n"


def test_the_model_of_a_terminal_is_like_a_terminal(tmp_path):
    needs("tmux")
    page = tmp_path / "page"
    page.write_text("".join(f"{written}\x1b[0m\n" for written, _ in LINES) + "the end\n")
    with tmux(columns=120, rows=50) as terminal:
        terminal.type(f"clear; cat {page}", enter=True)
        shown = terminal.wait_for("the end\n").split("\n")
        terminal.type("", enter=True)
    for row, (written, _) in zip(shown, LINES, strict=False):
        line = TerminalLine()
        line.feed(written.encode())
        assert re.sub("\x1b\\[[0-9;]*m", "", line.shown().decode()).rstrip() == row, written


@pytest.fixture
def steps(runs, tmp_path):
    """A run that draws a bar: `steps()` lets it go one step further."""
    gates = [tmp_path / str(number) for number in range(4)]
    for gate in gates:
        os.mkfifo(gate)
    script = [
        "printf 'begin\\n'; printf ' 10%%|#   |'",
        f"cat {gates[0]}; printf '\\r 50%%|##  |'",
        f"cat {gates[1]}; printf '\\r100%%\\033[K'",
        f"cat {gates[2]}; printf '\\nover\\n'",
        f"cat {gates[3]}",
    ]
    run = runs.start(["sh", "-c", "; ".join(script)], name="bar")
    eventually(lambda: b"#" in run.output())
    waiting = iter(gates)
    return lambda: next(waiting).write_text("")


@pytest.mark.parametrize("words", [("-f",), ("-f", "-n", "1"), ("-ft",)])
def test_one_run_that_is_followed_is_redrawn_in_place(holdfast, steps, words):
    needs("tmux")
    with tmux(columns=60, rows=20) as terminal:
        terminal.run(holdfast, "logs", *words, "bar")
        terminal.wait_for("10%|#   |")
        steps()
        assert "10%" not in terminal.wait_for("50%|##  |")
        steps()
        # 100% is written over the longer text, and nothing is left of that.
        shown = terminal.wait_for("100%")
        eventually(lambda: "|" not in terminal.screen().partition("100%")[2], why="the rest erased")
        assert "50%" not in shown
        steps()
        terminal.wait_for("over")
        steps()
        shown = terminal.wait_for("code=0")
        assert [line[-4:] for line in shown.splitlines() if "%" in line or "over" in line] == [
            "100%",
            "over",
        ]


def test_several_runs_that_are_followed_show_whole_lines(holdfast, runs, steps):
    runs.start(["sh", "-c", "echo other; sleep 600"], name="other")
    argv = holdfast.argv("logs", "-f", "bar", "other")
    with on_screen(argv, env={**os.environ, "NO_COLOR": "1"}) as screen:
        screen.read_until(b"other | other\r\n")
        for _ in range(4):
            steps()
        screen.read_until(b"bar   | over\r\n")
        holdfast("stop", "other", expect=0)
        assert screen.ends() == 0
        lines = screen.seen.split(b"\r\n")
    assert [line for line in lines if line.startswith(b"bar")] == [
        *(b"bar   | begin", b"bar   | 100%", b"bar   | over"),
    ]


def test_a_line_that_moves_up_is_left_to_the_terminal(holdfast, runs):
    data = b"one\ntwo\x1b[A\rONE\nthree\n"
    _writes(runs, data)
    assert _on_screen(holdfast, "x") == data.replace(b"\n", b"\r\n")


def test_a_pipe_that_follows_gets_every_byte_of_a_bar(holdfast, steps):
    with subprocess.Popen(holdfast.argv("logs", "-f", "bar"), stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        for _ in range(4):
            steps()
        assert follower.stdout.read() == (b"begin\n 10%|#   |\r 50%|##  |\r100%\x1b[K\nover\n")
        assert follower.wait(20) == 0
