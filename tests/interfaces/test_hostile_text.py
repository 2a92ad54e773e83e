"""What a run writes and calls itself, on a person's terminal: shown, and never obeyed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.plaintext import printable_lines
from tests.support.running import settled, wait_for_output

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
TITLE = "\x1b]0;evil\x1b\\"
CLEAR = "\x1b[2J\x1b[H"
EIGHT_BIT = "\x9b2J\x90q\x9c"
OVERWRITE = "rm -rf /\rharmless"
REVERSED = "\u202etxt.exe"
EVIL = f"{CLIPBOARD}{TITLE}{CLEAR}{EIGHT_BIT}{OVERWRITE}{REVERSED}\x00\x08\x7f"
ANSWER = f"First line\n\tindented {EVIL}\nB\u00e9zier \u00a0\U0001f469\u200d\U0001f4bb\n"


def on_terminal(argv: list[str]) -> str:
    """All that a command writes to a terminal, stdout and stderr, without colour."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        written = bytearray()
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # EIO: the last of them has closed it
                break
            written += data
        os.close(ours)
        process.wait(60)
    return written.decode().replace("\r\n", "\n")


def obeyed(shown: str) -> set[str]:
    """Characters in it that a terminal does something with."""
    kept = {"\n", "\t", "\u00a0", "\u200d"}
    return {letter for letter in shown if not letter.isprintable()} - kept


@pytest.fixture
def hostile(holdfast, tmp_path: Path) -> str:
    """A run of a pretended claude that puts control sequences wherever it can."""
    call = {"type": "tool_use", "name": EVIL, "input": {"command": EVIL}}
    records = [
        {"type": "system", "subtype": "init", "session_id": f"s1{EVIL}", "model": EVIL},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": EVIL}]}},
        {
            "type": "assistant",
            "message": {"content": [call]},
        },
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "content": f"a\n{EVIL}\nb"}]},
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": ANSWER,
            "session_id": f"s1{EVIL}",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    ]
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    (tmp_path / "said").write_bytes(lines + f"plain {EVIL}\n".encode() + b"bytes \x9b2J\xff\n")
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\ncat {shlex.quote(str(tmp_path / 'said'))}\n")
    program.chmod(0o755)
    options = ["--tag", f"why={EVIL}".replace("\0", ""), "--agent", "claude"]
    holdfast("run", "-n", "a", *options, program, "-p", EVIL.replace("\0", ""), expect=0)
    settled("a")
    return "a"


def test_an_answer_is_shown_on_a_terminal_and_not_obeyed(holdfast, hostile):
    shown = on_terminal(holdfast.argv("result", hostile))
    assert obeyed(shown) == set()
    assert "First line\n\tindented \\x1b]52;c;ZXZpbA==\\x07" in shown
    assert "rm -rf /\\rharmless" in shown
    assert "B\u00e9zier \u00a0\U0001f469\u200d\U0001f4bb\n" in shown, "text of any language stays"


def test_an_answer_in_a_pipe_is_what_the_agent_said(holdfast, hostile):
    assert holdfast("result", hostile, expect=0).raw.decode() == ANSWER
    assert holdfast("result", "--json", hostile, expect=0).json["result"]["text"] == ANSWER


def test_a_pretty_stream_is_harmless_wherever_it_goes(holdfast, hostile):
    shown = on_terminal(holdfast.argv("logs", "--pretty", hostile))
    assert obeyed(shown) == set()
    for part in ("> \\x1b]52", "  \\x1b]52", "plain \\x1b]52", "bytes \\x9b2J\\xff"):
        assert part in shown
    piped = holdfast("logs", "--pretty", hostile, expect=0).raw
    assert obeyed(piped.decode()) == set(), "less -R would obey"


def test_the_log_itself_stays_exact(holdfast, hostile, tmp_path):
    assert holdfast("logs", hostile, expect=0).raw == (tmp_path / "said").read_bytes()


def test_a_run_of_no_agent_is_harmless_when_asked_to_be_pretty(holdfast):
    holdfast("run", "-n", "b", "printf", "one \\033[2J two\\n", expect=0)
    settled("b")
    shown = on_terminal(holdfast.argv("logs", "--pretty", "b"))
    assert obeyed(shown) == set()
    assert "one \\x1b[2J two\n" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["status", "a"],
        ["ls"],
        ["ls", "--all"],
        ["tree", "a"],
        ["report", "a"],
        ["report", "a", "--plot"],
        ["report", "a", "--markdown"],
        ["usage"],
        ["usage", "--by", "tag"],
        ["wait", "a"],
        ["stop", "a"],
        ["run", "-n", "a", "--key", "\x1b[2J", "true"],
        ["resume", "a"],
        ["events", "a"],
        ["status", "\x1b]0;x\x07"],
        ["clean", "--keep", "0", "--dry-run"],
        ["rm", "a"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("hostile")
def test_no_command_lets_a_run_write_to_the_terminal(holdfast, words):
    assert obeyed(on_terminal(holdfast.argv(*words))) == set()


def test_a_live_process_with_an_evil_name_is_shown_and_not_obeyed(holdfast):
    evil = "\x1b[2J\x07"
    script = f"import time; open('/proc/self/comm','w').write({evil!r}); print('up', flush=True)"
    holdfast("run", "-n", "c", sys.executable, "-c", f"{script}; time.sleep(600)", expect=0)
    wait_for_output("c", b"up")
    for words in (["status", "c"], ["ls"], ["tree", "c"], ["run", "-n", "c", "true"]):
        assert obeyed(on_terminal(holdfast.argv(*words))) == set(), words
    holdfast("stop", "--grace", "0", "c", expect=0)


@given(st.text())
def test_lines_of_any_text_move_no_cursor(text):
    shown = printable_lines(text)
    categories = {unicodedata.category(letter) for letter in shown}
    assert not categories & {"Cs", "Co", "Cn", "Zl", "Zp"}
    controls = {letter for letter in shown if unicodedata.category(letter) in ("Cc", "Cf")}
    assert controls <= {"\n", "\t", "\u200c", "\u200d"}
