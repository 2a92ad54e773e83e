"""A1, A3, A7: what an agent waits for is known from its own hooks; the user's own stay in force."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from holdfast.manage.runs import Runs
from tests.support import running
from tests.support.asking import asked, asks_nothing, say, start_talk
from tests.support.pretend_talker import SESSION
from tests.support.running import (
    events_of,
    run_of,
    wait_for,
    wait_for_events,
    wait_for_output,
)
from tests.support.waiting import eventually

ended: Any = running.ended  # what is null in it fails a test anyhow
info_of: Any = running.info_of


def test_A1_a_question_is_shown_first_and_gone_when_it_is_answered_at_the_prompt(holdfast, talker):
    start_talk(holdfast, talker)
    holdfast("run", "-n", "newer", "sleep", "600", expect=0)
    assert holdfast("ls", "-q").stdout.split() == ["newer", "a"]
    say(holdfast, "ask touch made")
    (question,) = asked()
    assert question["text"] == "permission for Bash: touch made"
    listed = holdfast("ls").stdout
    assert "needs you: permission for Bash: touch made" in listed
    assert holdfast("ls", "-q").stdout.split() == ["a", "newer"]
    page = holdfast("status", "a").stdout
    assert question["id"] in page
    assert holdfast("ls", "--json").json["runs"][0]["attention"]["id"] == question["id"]
    say(holdfast, "y")
    asks_nothing()
    wait_for_output("a", b"ran touch made")
    (over,) = events_of("a", "attention_over")[:1]
    assert (over["id"], over["how"]) == (question["id"], "answered")


def test_A1_a_question_that_is_cancelled_at_the_prompt_is_over(holdfast, talker):
    start_talk(holdfast, talker)
    say(holdfast, "ask touch made")
    asked()
    say(holdfast, "n")
    asks_nothing()
    over = wait_for_events("a", "attention_over")
    assert over[0]["how"] == "withdrawn"
    wait_for_output("a", b"refused touch made cancelled")


def test_A1_a_turn_that_is_over_waits_for_the_next(holdfast, talker):
    start_talk(holdfast, talker)
    assert info_of("a").attention is None, "no turn has begun"
    say(holdfast, "hello")
    (turn,) = asked(kind="turn_over")
    assert "needs you: its turn is over" in holdfast("ls").stdout
    say(holdfast, "ask true")
    asked()
    assert turn["id"] in [one["id"] for one in events_of("a", "attention_over")]
    say(holdfast, "y")
    asked(kind="turn_over")
    say(holdfast, "quit")
    info = ended("a")
    assert info.attention is None
    assert (info.session["id"], info.result["text"]) == (SESSION, "done: ask true")


def test_A1_a_question_for_an_answer_is_one(holdfast, talker):
    start_talk(holdfast, talker)
    say(holdfast, "question which one?")
    (question,) = asked(kind="question")
    assert question["text"] == "which one?"
    refused = holdfast("approve", "a", question["id"], expect=4)
    assert "its terminal alone can answer" in refused.stderr
    say(holdfast, "that one")
    asks_nothing()


def test_A1_whoever_waits_for_attention_is_told(holdfast, talker, tmp_path):
    notify = f"cat > {tmp_path}/told.json"
    start_talk(holdfast, talker, "--notify", notify, "--notify-on", "attention")
    holdfast("wait", "a", "--attention", "--timeout", "0.2", expect=75)
    command = [sys.executable, "-m", "holdfast", "wait", "a", "--attention"]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    say(holdfast, "ask true")
    told, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert "needs you: permission for Bash: true" in told
    (info,) = Runs().wait([run_of("a")], attention=True, timeout=60)
    assert info.attention is not None
    assert info.attention["kind"] == "permission"
    path = tmp_path / "told.json"
    eventually(lambda: path.exists() and path.read_text().endswith("\n"), why="the notice is read")
    notice = json.loads(path.read_text())
    assert notice["event"] == "attention"
    assert notice["attention"]["text"] == "permission for Bash: true"
    say(holdfast, "y")
    say(holdfast, "quit")
    ended("a")  # its turn is over before it has read that: that is attention too
    assert holdfast("wait", "a", "--attention", expect=0).stdout.startswith("a  succeeded")


def test_A1_a_plain_turn_has_session_and_result_and_can_be_resumed(holdfast, talker):
    done = holdfast("run", "-n", "a", talker, "-p", "first", expect=0)
    assert "will not say" not in done.stderr
    assert ended("a").outcome == "succeeded"
    assert holdfast("result", "a", expect=0).stdout == "done: first\n"
    assert holdfast("logs", "a").stdout == "done: first\n", "its output stays as it was asked for"
    assert info_of("a").session["id"] == SESSION
    assert info_of("a").command == [talker, "-p", "first"], "what was added is not shown as asked"
    holdfast("resume", "a", "second", expect=0)
    newest = ended("a")
    assert newest.resumed_from is not None
    assert newest.command[1:3] == ["--resume", SESSION]
    assert newest.result["text"] == "done: second"


def test_A3_settings_of_the_user_stay_in_force_and_their_file_is_not_changed(
    holdfast, talker, tmp_path
):
    own = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"command": "touch stopped"}]}]}}
    file = tmp_path / "own.json"
    file.write_text(json.dumps(own))
    holdfast("run", "-n", "a", talker, "--settings", "own.json", "-p", "one", expect=0)
    assert ended("a").session["id"] == SESSION
    assert (tmp_path / "stopped").exists()
    assert json.loads(file.read_text()) == own
    merged = json.loads(run_of("a").directory.read_spec().argv[4])
    assert merged["model"] == "opus"
    assert len(merged["hooks"]["Stop"]) == 2
    holdfast("run", "-n", "b", talker, f"--settings={json.dumps(own)}", "-p", "one", expect=0)
    assert ended("b").session["id"] == SESSION
    assert len(run_of("b").directory.read_spec().argv) == 6


def test_A3_settings_that_cant_be_read_stay_alone_and_that_is_said(holdfast, talker, tmp_path):
    (tmp_path / "odd.json").write_text("[")
    words = ("-n", "a", talker, "--settings", "odd.json", "-p", "one")
    done = holdfast("run", *words, expect=0)
    assert "--output-format stream-json --verbose" in done.stderr
    assert "your --settings can't be read" in done.stderr
    info = ended("a")
    assert info.hooks["handed"] is False
    assert "your --settings can't be read" in " ".join(holdfast("status", "a").stdout.split())
    assert run_of("a").directory.read_spec().argv == (talker, *words[3:])


@pytest.mark.parametrize(
    "words", [["--agent-hooks", "off", "claude", "-p"], ["claude", "--bare", "-p"]]
)
def test_A7_without_hooks_nothing_is_known_and_that_is_said(holdfast, talker, words):
    words = [talker if word == "claude" else word for word in words]
    done = holdfast("run", "-n", "a", *words, "one", expect=0)
    assert "add --output-format stream-json --verbose" in done.stderr
    info = ended("a")
    assert (info.session, info.result, info.attention) == (None, None, None)
    assert holdfast("result", "a", expect=1).stdout == ""


def test_A7_an_agent_that_offers_no_hooks_is_not_asked_for_any(holdfast, tmp_path, monkeypatch):
    program = tmp_path / "aider"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    holdfast("run", "-n", "a", str(program), "--message", "hi", expect=0)
    assert ended("a").hooks is None
    refused = holdfast("run", "-n", "b", "--pty", "--approve", "ask", str(program), expect=4)
    assert "does not ask anybody but its own terminal" in refused.stderr
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program.write_text("#!/bin/sh\necho aider 0.86.2\n")
    told = holdfast("doctor", "--agents").stdout
    (line,) = [one for one in told.splitlines() if "0.86.2" in one]
    assert "reports nothing while it waits" in " ".join(told.split()), line


def test_A4_attention_is_of_an_attempt(holdfast, talker):
    start_talk(holdfast, talker, "--restart", "always:1")
    say(holdfast, "hello")
    (turn,) = asked(kind="turn_over")
    say(holdfast, "quit")
    wait_for("a", lambda info: info.attempt == 2 or None, why="it is started again")
    assert turn["id"] in [one["id"] for one in events_of("a", "attention_over")]
    assert info_of("a").attention is None
