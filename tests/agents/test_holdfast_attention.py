"""A1-A4: real agents report by the hooks that they are handed, and take answers by them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from holdfast.agents.hook_words import PROGRAM
from tests.agents.lab import AGENTS, executable
from tests.agents.supervised import Supervised
from tests.agents.talking import (
    answer_at_the_prompt,
    asked,
    prompt_shown,
    talk,
    use_copy,
    wall_time,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents
ASK = ("--approve", "ask")
can_decide = pytest.mark.parametrize("agent", ["claude", "codex"])


@pytest.mark.parametrize("agent", AGENTS)
def test_A1_attention_within_a_second_of_the_prompt_and_gone_after_it(held, agent):
    talk(held, agent, "go [[ask: mkdir made]]")
    shown = prompt_shown(held, agent)
    (question,) = asked(held)
    (needed,) = held.events("a", "attention_needed")
    assert wall_time(needed) <= shown + 1.0
    assert question["text"].endswith(": mkdir made")
    made = held.lab.work_dir / "made"
    answer_at_the_prompt(held, agent, made)
    asked(held, kind="turn_over")
    over = held.events("a", "attention_over")[0]
    assert (over["id"], over["how"]) == (question["id"], "answered")
    if agent != "gemini":  # which takes its time to see that a tool has ended
        assert wall_time(over) <= made.stat().st_mtime + 1.0
    info = held.info("a")
    assert info["result"]["text"] == "hello from the stub"
    assert info["session"]["id"]
    eventually(lambda: held.info("a")["usage"]["tokens_in"] == 10, timeout=30, why="tokens")
    held("stop", "a", "--grace", "2")


@can_decide
def test_A2_allowed_from_another_process(held, agent):
    talk(held, agent, "go [[ask: mkdir made]]", *ASK)
    (question,) = asked(held)
    assert question["text"] == "permission for Bash: mkdir made"
    held("approve", "a", question["id"])
    eventually((held.lab.work_dir / "made").exists, timeout=60, why="the tool has run")
    assert held.events("a", "attention_over")[0]["how"] == "approved"
    held("stop", "a", "--grace", "2")


@can_decide
def test_A2_refused_from_another_process(held, agent):
    talk(held, agent, "go [[ask: mkdir made]]", *ASK)
    (question,) = asked(held)
    held("deny", "a", question["id"], "--message", "not here")
    asked(held, kind="turn_over")
    assert not (held.lab.work_dir / "made").exists()
    held("stop", "a", "--grace", "2")


def test_A2_gemini_lets_no_hook_decide(held):
    use_copy(held)
    words = ("--pty", *ASK, "--", executable("gemini"), "-i", "hi")
    refused = held("run", "-n", "a", *words, expect=4)
    assert "does not ask anybody but its own terminal" in refused.stderr


def test_A2_three_questions_of_claude_at_once_each_answered_by_its_id(held):
    files = [held.lab.directory / f"outside{number}" for number in range(3)]
    for file in files:
        file.write_text("content")
    prompt = " ".join(f"[[read: {file}]]" for file in files)
    talk(held, "claude", f"go {prompt}", *ASK)
    questions = {one["text"]: one["id"] for one in asked(held, count=3)}
    ids = [questions[f"permission for Read: {file}"] for file in files]
    held("deny", "a", ids[1])
    held("approve", "a", ids[2])
    held("approve", "a", ids[2], expect=4)
    (left,) = asked(held)
    assert left["id"] == ids[0]
    held("approve", "a", ids[0])
    asked(held, kind="turn_over")
    how = {one["id"]: one["how"] for one in held.events("a", "attention_over")}
    assert [how[one] for one in ids] == ["approved", "denied", "approved"]
    held("stop", "a", "--grace", "2")


# Started by a tool call, and left behind by it.
SELF_APPROVAL = """\
import json, subprocess, sys, time
def holdfast(*words):
    argv = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(argv, capture_output=True, text=True)
while not (asked := json.loads(holdfast("status", "--json", "a").stdout)["attention"]):
    time.sleep(0.1)
tried = {
    "approve": holdfast("approve", "a", asked["id"]),
    "deny": holdfast("deny", "a", asked["id"]),
    "send": holdfast("send", "a", "--no-newline", "\\r"),
}
with open("tried.new", "w") as file:
    json.dump({word: [one.returncode, one.stderr] for word, one in tried.items()}, file)
__import__("os").rename("tried.new", "tried")
"""


def test_A2_claude_cant_answer_itself_from_a_tool_call(held):
    (held.lab.work_dir / "itself.py").write_text(SELF_APPROVAL)
    start = f"{sys.executable} itself.py > said 2>&1 &"
    (held.lab.work_dir / "start.sh").write_text(f"setsid {start}\n")
    prompt = "go [[run: sh start.sh]] [[ask: mkdir made]]"
    talk(held, "claude", prompt, *ASK, own=("--allowedTools", "Bash(sh start.sh)"))
    tried = held.lab.work_dir / "tried"
    eventually(tried.exists, timeout=90, why="it has tried")
    for word, (code, said) in json.loads(tried.read_text()).items():
        assert code == 4, (word, said)
        assert "from inside the run" in said, word
    (question,) = asked(held)
    assert not (held.lab.work_dir / "made").exists()
    held("approve", "a", question["id"])
    eventually((held.lab.work_dir / "made").exists, timeout=60, why="the tool has run")
    held("stop", "a", "--grace", "2")


def test_A4_claude_is_killed_while_it_asks(held):
    talk(held, "claude", "go [[ask: mkdir made]]", *ASK)
    (question,) = asked(held)
    os.kill(held.info("a")["workload"]["pid"], signal.SIGKILL)
    info = held.ended("a", expect=128 + signal.SIGKILL)
    assert (info["outcome"], info["attention"]) == ("killed", None)
    held("approve", "a", question["id"], expect=4)
    assert info["cleanup"]["complete"] is True


def test_A4_the_shim_is_killed_while_claude_asks(held):
    """claude ends with its terminal, which was the shim's: nothing is asked any more."""
    talk(held, "claude", "go [[ask: mkdir made]]", *ASK)
    (question,) = asked(held)
    workload = held.info("a")["workload"]["pid"]
    os.kill(held.info("a")["shim"]["pid"], signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{workload}").exists(), timeout=60, why="claude has ended")
    held("recover")
    info = held.info("a")
    assert (info["state"], info["attention"]) == ("ended", None)
    held("approve", "a", question["id"], expect=4)
    assert not (held.lab.work_dir / "made").exists()


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_A3_a_plain_turn_is_resumed_and_hooks_of_the_user_run(held: Supervised, agent: str) -> None:
    use_copy(held)
    held.lab.environment()  # makes the home
    settings = held.lab.home / f".{agent}" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(settings.read_text()) if settings.exists() else {}
    mine = held.lab.directory / "mine"
    event, model = {"claude": ("Stop", ()), "gemini": ("AfterAgent", ("-m", "gemini-2.5-flash"))}[
        agent
    ]
    hooks = {event: [{"hooks": [{"type": "command", "command": f"touch {mine}"}]}]}
    own = json.dumps({**before, "hooks": hooks})
    settings.write_text(own)
    words = ("--split-stderr", "--", executable(agent), *model, "-p", "hello")
    held("run", "-n", "a", *words)
    info = held.ended("a")
    assert held("logs", "a").stdout == "hello from the stub\n"
    assert held("result", "a").stdout == "hello from the stub\n"
    assert info["usage"]["tokens_in"] == 5
    assert mine.exists()
    assert settings.read_text() == own
    held("resume", "a", "again")
    assert held.ended("a")["session"]["id"] == info["session"]["id"]


def test_a_hook_adds_at_most_60_ms_to_a_call(held):
    """The best of many: what it costs, not what it waits for. On a machine that is so busy that an
    interpreter which does nothing takes over 20 ms, it may take three times as long as that one.
    """
    program = held.lab.directory / "claude"
    report = json.dumps({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "x"})
    program.write_text(
        f"#!{sys.executable}\n"
        "import subprocess, time\n"
        f"report = {[sys.executable, '-I', '-S', PROGRAM]!r}\n"
        f"nothing = {[sys.executable, '-I', '-S', '-c', '']!r}\n"
        "def call(command):\n"
        "    began = time.perf_counter()\n"
        f"    subprocess.run(command, input={report!r}.encode(), check=True)\n"
        "    return time.perf_counter() - began\n"
        "both = [(call(report), call(nothing)) for _ in range(30)]\n"
        "print(*map(min, zip(*both)))\n"
    )
    program.chmod(0o755)
    held("run", "-n", "a", "--", program, "-p", "x")
    info = held.ended("a")
    assert info["session"]["id"] == "s", "its reports were taken"
    seconds, nothing = map(float, held("logs", "a").stdout.split())
    assert seconds <= max(0.060, 3 * nothing), (seconds, nothing)
