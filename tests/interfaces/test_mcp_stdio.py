"""M2, M5: the server as a process: progress, cancellation, its death; and its command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib

import anyio
import pytest
from mcp import MCPError

from holdfast.mcp import acting
from holdfast.mcp import server as mcp_server
from holdfast.mcp.tools import BY_NAME
from tests.support import pretend_claude
from tests.support.mcp_client import MODERN, MODES, beside, over_stdio
from tests.support.mcp_scenes import every_refusal, every_tool, others_are_not_there
from tests.support.running import info_of, wait_for, wait_for_output
from tests.support.waiting import wait_until_reaped


@pytest.mark.usefixtures("runs")
def test_M1_every_tool_as_a_process(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    claude = pretend_claude.install(tmp_path)
    denied = over_stdio(lambda call: every_tool(call, claude), "--allow-actions")
    assert "in no run" in denied


def test_M1_every_refusal_as_a_process(runs):
    runs.start(["sleep", "600"], name="sleeper")
    over_stdio(every_refusal, "--allow-actions", mode=MODERN)
    assert [one.name for one in runs.list()] == ["sleeper"], "nothing was started"


def test_M4_the_scope_of_the_command_line(runs):
    theirs = runs.start(["sleep", "600"], name="theirs", tags={"team": "b"})
    ours = runs.start(["sleep", "600"], name="ours", tags={"team": "a"})
    words = ("--allow-actions", "--tag", "team=a")
    over_stdio(lambda call: others_are_not_there(call, ours, theirs), *words)
    assert theirs.info().state == "running"


@pytest.mark.parametrize("mode", MODES)
def test_progress_is_told_while_a_run_is_awaited_and_to_give_up_stops_nothing(runs, mode):
    runs.start(["sleep", "600"], name="sleeper")
    told = []

    async def play(call):
        async def note(done, total, message):
            told.append((done, total, message))

        waiting = anyio.CancelScope()

        async def wait(scope):
            with scope:
                await call.client.call_tool("wait_run", {"run": "sleeper"}, progress_callback=note)

        async with anyio.create_task_group() as group:
            group.start_soon(wait, waiting)
            with anyio.fail_after(60):
                while len(told) < 2:
                    await anyio.sleep(0.01)
            waiting.cancel()
        assert (await call.done("run_status", run="sleeper"))["run"]["state"] == "running"

    over_stdio(play, mode=mode)
    assert info_of("sleeper").state == "running"
    (first, total, message), (second, *_) = told[:2]
    assert 0 <= first < second < total == 45
    assert message.startswith("sleeper is running")


def test_a_cancelled_stop_goes_on_and_a_cancelled_start_is_a_run_or_nothing(runs):
    runs.start(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], name="tough")

    async def play(call):
        with anyio.move_on_after(0.5):
            await call("stop_run", run="tough", grace=1)
        with anyio.move_on_after(0.001):
            await call("start_run", command=["true"], name="quick", key="k")
        again = await call.done("start_run", command=["true"], name="quick", key="k")
        assert (await call.done("wait_run", run=again["run"]["id"]))["has_ended"]

    beside(play)
    assert wait_for("tough", lambda info: info.outcome, why="the stop went on") == "stopped"
    assert len([one for one in runs.list() if one.name == "quick"]) == 1


def test_M5_the_server_dies_in_a_wait_the_run_lives_and_a_new_server_goes_on(runs, tmp_path):
    os.mkfifo(tmp_path / "go")
    words = ["sh", "-c", "read line < go; echo done; exit 7"]

    async def die(call):
        started = {"command": words, "name": "a", "cwd": str(tmp_path), "key": "k"}
        await call.done("start_run", **started)
        server = runs.get("a").directory.read_spec().launcher["pid"]

        async def kill(*_):
            os.kill(server, signal.SIGKILL)

        with pytest.raises(MCPError, match="closed"), anyio.fail_after(60):
            await call.client.call_tool("wait_run", {"run": "a"}, progress_callback=kill)
        wait_until_reaped(server)

    async def go_on(call):
        again = await call.done("start_run", command=words, key="k")
        assert again["run"]["state"] == "running"
        with open(tmp_path / "go", "w") as go:
            go.write("on\n")
        return await call.done("wait_run", run="a")

    over_stdio(die, "--allow-actions")
    assert info_of("a").state == "running"
    waited = over_stdio(go_on, "--allow-actions")
    assert waited["has_ended"]
    assert waited["run"]["exit_code"] == 7


def test_M2_no_call_takes_longer_than_clients_wait(runs, monkeypatch):
    longest = BY_NAME["wait_run"].takes["properties"]["seconds"]["maximum"]
    assert longest < mcp_server.MOST_SECONDS <= 50
    monkeypatch.setattr(mcp_server, "MOST_SECONDS", 0.2)
    runs.start(["sleep", "600"], name="sleeper")

    async def play(call):
        return await call("wait_run", run="sleeper")

    cut = beside(play)
    assert cut.code == "unavailable"
    assert "run_status" in cut["error"]["hint"]


def test_M2_a_stop_that_takes_longer_says_that_it_goes_on(runs, monkeypatch):
    monkeypatch.setattr(acting, "STOP_SECONDS", 0.3)
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    runs.start(["sh", "-c", script], name="tough")
    wait_for_output("tough", b"ready")

    async def play(call):
        return await call.done("stop_run", run="tough", grace=2)

    stopped = beside(play)
    assert not stopped["has_stopped"]
    assert "still stopping" in stopped["sentence"]
    assert wait_for("tough", lambda info: info.outcome, why="it goes on by itself") == "stopped"


# What is sent, and the id and code of the answer.
NO_MESSAGES = (
    (r'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\ud800"}}', 5, -32700),
    (r'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\udc00"}}', "a", -32700),
    (r'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', None, -32700),
    ("nonsense", None, -32700),
    ("[" * 50_000, None, -32700),
    ('{"jsonrpc":"2.0","id":6}', 6, -32600),
    ('{"jsonrpc":"3.0","id":7,"method":"ping"}', 7, -32600),
    ('{"jsonrpc":"3.0","id":8,"result":{}}', None, -32600),
    ("[]", None, -32600),
)


@pytest.mark.usefixtures("runs")
def test_a_line_that_is_no_message_is_answered_and_the_next_one_served():
    argv = [sys.executable, "-P", "-m", "holdfast", "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        sent, answers = process.stdin, process.stdout
        assert sent is not None
        assert answers is not None

        def ask(line):
            sent.write(line + "\n")
            sent.flush()
            return json.loads(answers.readline())

        hello = {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "test", "version": "1"}}  # fmt: skip
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        assert ask(json.dumps(first))["id"] == 0
        for line, request_id, code in NO_MESSAGES:
            answer = ask(f"\n{line}")
            assert (answer["id"], answer["error"]["code"]) == (request_id, code), line[:80]
        assert ask('{"jsonrpc":"2.0","id":9,"method":"ping"}')["result"] == {}
        sent.close()
        assert process.wait(60) == 0


def test_it_ends_when_its_client_does_and_runs_live_on(runs):
    async def play(call):
        await call.done("start_run", command=["sleep", "600"], name="a")
        return runs.get("a").directory.read_spec().launcher["pid"]

    server = over_stdio(play, "--allow-actions", mode=MODERN)
    wait_until_reaped(server)
    assert info_of("a").state == "running"


# The command line


def test_print_config_is_what_each_agent_reads(holdfast):
    words = ("--tag", "team=a", "--allow-actions")
    home = os.environ["HOLDFAST_HOME"]
    for agent in ("claude", "gemini"):
        printed = holdfast("mcp", "--print-config", agent, *words, expect=0)
        server = json.loads(printed.stdout)["mcpServers"]["holdfast"]
        assert server["command"] == sys.executable
        assert server["args"][3:] == ["mcp", "--allow-actions", "--tag", "team=a"]
        assert server["env"] == {"HOLDFAST_HOME": home}
        assert "add this to" in printed.stderr
    codex = tomllib.loads(holdfast("mcp", "--print-config", "codex", *words, expect=0).stdout)
    server = codex["mcp_servers"]["holdfast"]
    assert server["args"][3:] == ["mcp", "--allow-actions", "--tag", "team=a"]
    assert server["env"] == {"HOLDFAST_HOME": home}
    assert "HOLDFAST_RUN_ID" in server["env_vars"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--json",), "has no JSON form"),
        (("--tag", "team"), "is not K=V"),
        (("--tag", "=a"), "is not K=V"),
        (("--tag", "team=a", "--tag", "team=b"), "team can't be a and b"),
        (("--print-config", "emacs"), "is none of claude, codex, gemini"),
        (("--approve-only", "--allow-actions"), "--approve-only offers nothing"),
    ],
)
def test_wrong_use_is_refused(holdfast, words, says):
    refused = holdfast("mcp", *words, expect=2)
    assert says in refused.stdout + refused.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_with_nobody_to_speak_to_it_is_wrong_use(holdfast, closed):
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", *holdfast.argv("mcp")]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert "one of them is closed" in done.stderr


def test_without_the_sdk_it_says_what_to_install(holdfast, tmp_path):
    """A package of that name that is not the SDK, in its place, as where it is not installed."""
    for name in ("mcp", "mcp_types", "anyio"):
        (tmp_path / "shadow" / name).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('no {name}', name={name!r})\n"
        (tmp_path / "shadow" / name / "__init__.py").write_text(text)
    env = {"PYTHONPATH": str(tmp_path / "shadow")}
    refused = holdfast("mcp", expect=6, env=env)
    assert "pip install 'holdfast[mcp]'" in refused.stderr
    holdfast("mcp", "--print-config", "claude", env=env, expect=0)
    holdfast("mcp", "--approve-only", env=env, expect=0)
    holdfast("ls", env=env, expect=0)


def test_the_base_loads_nothing_of_the_sdk():
    code = (
        "import sys, holdfast.cli.live.mcp, holdfast.mcp.approve_server;"
        "import holdfast.mcp.client_config;"
        "print([m for m in sys.modules if m.partition('.')[0] in ('mcp', 'mcp_types', 'anyio')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
