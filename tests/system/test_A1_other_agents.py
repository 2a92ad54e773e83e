"""A1, A2, A4, A7: agents whose hook holds up their own prompt, or can decide nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.hook_words import PROGRAM
from tests.support import running
from tests.support.asking import asked, asks_nothing, say, start_talk
from tests.support.recovering import kill_shim, recovered
from tests.support.running import events_of, wait_for, wait_for_events, wait_for_output
from tests.support.waiting import eventually
from tests.system import pretend_codex

info_of: Any = running.info_of


@pytest.fixture
def codex(talker: str) -> str:
    """A program called codex that talks on a terminal."""
    return pretend_codex.install(Path(talker).parent)


def test_A1_a_question_is_told_and_the_agents_own_prompt_is_not_held_up(holdfast, codex, tmp_path):
    start_talk(holdfast, codex)
    say(holdfast, "ask touch made")
    (question,) = asked()
    assert question["text"] == "permission for Bash: touch made"
    wait_for_output("a", b"may I touch made")
    say(holdfast, "y")
    wait_for_output("a", b"ran touch made")
    (over,) = wait_for_events("a", "attention_over")
    assert (over["id"], over["how"]) == (question["id"], "answered")
    asked(kind="turn_over")
    info = info_of("a")
    assert info.session["id"] == pretend_codex.SESSION
    assert info.result["text"] == "done: touch made"
    assert (tmp_path / "made").exists()


def test_A1_a_question_that_was_refused_at_the_prompt_is_over(holdfast, codex):
    start_talk(holdfast, codex)
    say(holdfast, "ask touch made")
    asked()
    wait_for_output("a", b"may I touch made")
    say(holdfast, "n")
    asked(kind="turn_over")
    asks_nothing()
    assert events_of("a", "attention_over")[0]["how"] == "went on"


@pytest.mark.parametrize(("word", "ran"), [("approve", True), ("deny", False)])
def test_A2_with_approve_ask_the_hook_waits_for_the_answer(holdfast, codex, tmp_path, word, ran):
    start_talk(holdfast, codex, "--approve", "ask")
    say(holdfast, "ask touch made")
    (question,) = asked()
    holdfast(word, "a", question["id"], expect=0)
    wait_for_output("a", b"ran touch made" if ran else b"refused touch made")
    assert (tmp_path / "made").exists() is ran
    assert "may I" not in holdfast("logs", "a").stdout


def test_A4_a_question_whose_hook_does_not_wait_outlives_the_shim(holdfast, codex):
    start_talk(holdfast, codex)
    say(holdfast, "ask touch made")
    (question,) = asked()
    wait_for_output("a", b"may I touch made")
    kill_shim("a")
    assert recovered(holdfast)["a"]["action"] == "adopted"
    (again,) = asked()
    assert (again["id"], again["since"]) == (question["id"], question["since"])


def test_A3_hooks_of_the_user_on_the_command_line_stay_and_ours_are_left_out(holdfast, codex):
    mine = ("-c", 'hooks.Stop=[{hooks=[{type="command",command="true"}]}]')
    holdfast("run", "-n", "a", "--pty", "--", codex, *mine, expect=0)
    wait_for_output("a", b"ready")
    assert info_of("a").hooks == {"handed": False, "why_not": "your own hooks of -c would be lost"}
    assert "your own hooks of -c would be lost" in " ".join(holdfast("status", "a").stdout.split())
    assert info_of("a").workload.cmdline[-2:] == mine


def test_A7_without_a_dialogue_nothing_is_handed_to_codex(holdfast, codex):
    holdfast("run", "-n", "a", "--pty", "--", codex, "exec", "hello", expect=0)
    wait_for_output("a", b"ready")
    assert info_of("a").hooks is None


REPORTER = """\
import json, os, subprocess, sys
def report(**said):
    said = json.dumps({"session_id": sys.argv[1], **said}).encode()
    subprocess.run(COMMAND, input=said, check=True)
if sys.argv[1] == "inner":
    report(hook_event_name="SessionStart")
    print("inner reported", flush=True)
else:
    report(hook_event_name="SessionStart")
    details = {"type": "exec", "title": "Confirm Shell Command", "command": "make all"}
    report(hook_event_name="Notification", notification_type="ToolPermission", details=details)
    subprocess.run([sys.argv[0], "inner"], check=True)
    os.read(0, 1)
    tool = {"tool_name": "run_shell_command", "tool_input": {"command": "make all"}}
    report(hook_event_name="AfterTool", **tool)
    print("settled", flush=True)
    os.read(0, 1)
    report(hook_event_name="AfterAgent", prompt_response="all made")
"""


def test_A1_a_question_that_no_hook_can_answer_and_an_agent_inside_the_agent(holdfast, talker):
    """What is handed over as a variable reaches every agent in the tree."""
    program = Path(talker).with_name("gemini")
    command = f"COMMAND = {[sys.executable, '-I', '-S', PROGRAM]!r}\n"
    program.write_text(f"#!{sys.executable}\n{command}{REPORTER}")
    program.chmod(0o755)
    # It starts no second process of itself, as the real one does.
    options = ("--workload", "gemini", "--agent", "gemini")
    holdfast("run", "-n", "a", "--pty", *options, "--", program, "outer", expect=0)
    wait_for("a", lambda info: info.workload is not None, why="its workload is known")
    (question,) = asked()
    assert question["text"] == "permission for exec: make all"
    wait_for_output("a", b"inner reported")
    assert info_of("a").session["id"] == "outer"
    holdfast("send", "a", "", expect=0)
    wait_for_output("a", b"settled")
    asks_nothing()
    assert wait_for_events("a", "attention_over")[0]["how"] == "answered"
    holdfast("send", "a", "", expect=0)
    eventually(lambda: info_of("a").result, why="its answer is known")
    assert info_of("a").result["text"] == "all made"
    assert [one["id"] for one in events_of("a", "session_found")] == ["outer"]
    holdfast("run", "--pty", "--approve", "ask", *options, "--", program, "x", expect=4)
