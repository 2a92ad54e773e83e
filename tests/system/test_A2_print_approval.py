"""A2 without a terminal: `run --approve ask claude -p` hands over a server that asks a person."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.support.asking import asked, asks_nothing, id_of
from tests.support.mcp_client import MODES, over_stdio
from tests.support.running import ended, events_of, run_of, shim_pid, wait_for, wait_for_output
from tests.system import pretend_print

ASK = ("--approve", "ask")


@pytest.fixture
def claude(tmp_path):
    return pretend_print.install(tmp_path)


def _start(holdfast, claude, prompt, *options):
    holdfast("run", "-n", "a", *options, "--", claude, "-p", prompt, expect=0)


def test_A2_several_questions_are_allowed_and_denied_each_by_its_id(holdfast, claude):
    _start(holdfast, claude, "touch one;touch two", *ASK)
    asked(2)
    one, two = id_of("touch one"), id_of("touch two")
    holdfast("approve", "a", one, expect=0)
    holdfast("deny", "a", two, "--message", "not today", expect=0)
    assert ended("a").outcome == "succeeded"
    output = run_of("a").output()
    assert b"allowed touch one\n" in output
    assert b"refused touch two not today\n" in output
    over = {one["id"]: one["how"] for one in events_of("a", "attention_over")}
    assert over == {one: "approved", two: "denied"}


def test_A2_when_its_time_is_up_it_is_denied(holdfast, claude):
    _start(holdfast, claude, "touch one", *ASK, "--approve-timeout", "1s")
    info = ended("a")
    assert info.attention is None
    assert run_of("a").output().endswith(b"refused touch one Denied: nobody answered in time.\n")
    (over,) = events_of("a", "attention_over")
    assert (over["how"], over["by"]) == ("denied", {"option": "approve_timeout"})


def test_A2_deny_denies_at_once(holdfast, claude):
    _start(holdfast, claude, "touch one", "--approve", "deny")
    ended("a")
    assert b"refused touch one Denied: this run was started with --approve deny." in (
        run_of("a").output()
    )


def test_A2_a_call_that_is_cancelled_asks_nobody_any_more(holdfast, claude):
    _start(holdfast, claude, "cancel this;touch one", *ASK, "--stdin", "pipe")
    asked(2)
    holdfast("send", "a", "go", expect=0)
    (question,) = asked(1)
    assert question["text"] == "permission for Bash: touch one"
    holdfast("approve", "a", question["id"], expect=0)
    assert ended("a").outcome == "succeeded"


def test_A4_the_shim_dies_while_it_asks_and_its_adopter_is_asked_again(holdfast, claude):
    _start(holdfast, claude, "touch one", *ASK, "--approve-timeout", "100s")
    (before,) = asked()
    os.kill(shim_pid("a"), signal.SIGKILL)
    wait_for("a", lambda info: info.state == "orphaned", why="its shim is gone")
    holdfast("recover", expect=0)
    (question,) = asked()
    assert question["id"] == before["id"]

    def answered(_):
        done = holdfast("approve", "a", before["id"])
        return done.returncode == 0 or None  # it may not have called again yet

    wait_for("a", answered, why="the adopter takes the answer")
    wait_for_output("a", b"allowed touch one\n")
    asks_nothing()


def test_A3_what_is_handed_over_comes_before_the_words_of_the_user(holdfast, claude):
    _start(holdfast, claude, "touch one", "--approve", "deny")
    ended("a")
    spec = run_of("a").directory.read_spec()
    assert spec.command == (claude, "-p", "touch one"), "the command stays as it was given"
    assert spec.added is not None
    words = list(spec.added["words"])
    at = words.index("--mcp-config")
    (name,) = json.loads(words[at + 1])["mcpServers"]
    assert words[at + 2 :] == ["--permission-prompt-tool", f"mcp__{name}__approve_tool"]
    assert name != "holdfast", "the name that a user's own server has"


def test_A2_a_command_that_says_itself_whom_to_ask_is_refused(holdfast, claude):
    words = (claude, "-p", "x", "--permission-prompt-tool", "mcp__mine__ask")
    refused = holdfast("run", *ASK, "--", *words, expect=4)
    assert "says whom to ask (--permission-prompt-tool)" in refused.stderr
    assert "hint: leave out --permission-prompt-tool" in refused.stderr


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_own_client_can_talk_to_it(mode):
    async def play(call):
        (tool,) = (await call.client.list_tools()).tools
        answered = await call("approve_tool", tool_name="Bash", input={"command": "true"})
        return tool.name, answered["behavior"]

    assert over_stdio(play, "--approve-only", mode=mode) == ("approve_tool", "deny")


def test_A8_nonsense_on_the_servers_stdin_is_answered_and_harms_nothing(holdfast):
    lines = [
        b"not json",
        b"[]",
        b'{"method": 5, "id": 1}',
        b'{"method": "ping", "id": []}',
        b'{"method": "ping", "id": 7, "params": []}',
        b'{"method": "ping", "id": 8, "params": [1]}',
        b'{"method": "notifications/cancelled", "params": {"requestId": {}}}',
        b'{"id": 2, "method": "tools/call", "params": {"name": "other"}}',
        b'{"id": 3, "method": "tools/call", "params": {"name": "approve_tool", "arguments": {}}}',
        b'{"id": 4, "method": "server/discover"}',
        b'{"method": "notifications/initialized"}',
        b'{"id": 5, "method": "ping"}',
        b'{"id": 6, "method": "tools/list"}',
    ]
    argv = holdfast.argv("mcp", "--approve-only")
    done = subprocess.run(argv, input=b"\n".join(lines), capture_output=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    by_id = {one["id"]: one for one in answers if one["id"] is not None}
    assert [one["error"]["code"] for one in answers if one["id"] is None] == [-32700] * 4
    assert [by_id[one]["error"]["code"] for one in (1, 2, 3, 4)] == [-32601, -32602, -32602, -32601]
    assert by_id[5]["result"] == by_id[7]["result"] == {}
    assert [one["name"] for one in by_id[6]["result"]["tools"]] == ["approve_tool"]
