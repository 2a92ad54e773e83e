"""What a client of the MCP server does, the same beside it, over stdio and over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.manage.run import Run
from holdfast.mcp.tools import TOOLS
from tests.support.mcp_client import Caller
from tests.support.running import wait_for_output

# Tool, arguments, the error's code, words of its message; beside a run `sleeper`.
REFUSALS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("nothing", {}, "wrong-use", "there is no tool nothing"),
    ("start_run", {}, "wrong-use", "'command' is a required property"),
    ("start_run", {"command": "ls"}, "wrong-use", "command: 'ls' is not of type 'array'"),
    ("start_run", {"command": []}, "wrong-use", "command: []"),
    ("start_run", {"command": ["true"], "replace": True}, "wrong-use", "'replace' was unexp"),
    ("start_run", {"command": ["true"], "timeout": "soon"}, "invalid-option", "timeout"),
    ("start_run", {"command": ["true"], "name": "a/b"}, "invalid-name", "can't name a run"),
    ("start_run", {"command": ["true"], "after": ["gone"]}, "run-not-found", "gone"),
    ("start_run", {"command": ["true"], "name": "sleeper"}, "already-running", "sleeper"),
    ("start_run", {"command": ["true"], "preset": ["gone"]}, "invalid-option", "no preset"),
    ("list_runs", {"state": "odd"}, "invalid-option", "is none of"),
    ("list_runs", {"limit": 201}, "wrong-use", "maximum of 200"),
    ("run_status", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("run_status", {"run": "../x"}, "invalid-name", "can't name a run"),
    ("run_output", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("run_output", {"run": "sleeper", "since_byte": -1}, "wrong-use", "minimum of 0"),
    ("run_output", {"run": "sleeper", "since_byte": 0, "tail": 1}, "wrong-use", "where to beg"),
    ("run_output", {"run": "sleeper", "stderr": True}, "invalid-option", "split_stderr"),
    ("wait_run", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("wait_run", {"run": "sleeper", "seconds": 46}, "wrong-use", "maximum of 45"),
    ("stop_run", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("stop_run", {"run": "sleeper", "grace": -1}, "wrong-use", "minimum of 0"),
    ("send_to_run", {"run": "gone", "text": "x"}, "run-not-found", "there is no run gone"),
    ("send_to_run", {"run": "sleeper", "text": "x"}, "no-stdin", "without a stdin"),
    ("resume_run", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("resume_run", {"run": "sleeper"}, "refused", "sleeper"),
    ("run_result", {"run": "gone"}, "run-not-found", "there is no run gone"),
    ("run_result", {"run": "sleeper"}, "no-result", "no agent's run"),
    ("queue_status", {"queue": "gone"}, "not-found", "there is no queue gone"),
    ("doctor", {"agents": 1}, "wrong-use", "is not of type 'boolean'"),
    ("approve_tool", {"tool_name": "Bash"}, "wrong-use", "'input' is a required property"),
)
# Of every tool that takes a run.
ABOUT_ONE = ("run_status", "run_output", "wait_run", "stop_run", "run_result", "resume_run")


async def every_refusal(call: Caller) -> None:
    """Each says why, as the contract's error document."""
    for tool, given, code, says in REFUSALS:
        refused = await call(tool, **given)
        assert refused.code == code, (tool, given, refused)
        assert says in refused["error"]["message"], (tool, given)
        assert json.loads(refused.text) == refused
    assert {tool for tool, *_ in REFUSALS} > {one.name for one in TOOLS}


async def every_tool(call: Caller, claude: str) -> str:
    """Each once at least; the client checks answers by their schemas. What approve_tool said."""
    used = set()
    told: list[tuple[float, float | None, str | None]] = []

    async def use(tool: str, **given: Any) -> Any:
        used.add(tool)
        return await call.done(tool, **given)

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    listed = (await call.client.list_tools()).tools
    assert [one.name for one in listed] == [one.name for one in TOOLS]
    started = await use("start_run", command=["cat"], name="cat", stdin="pipe", key="k")
    assert started["run"]["state"] == "running"
    assert "SAME" in started["run"]["evidence"]
    again = await use("start_run", command=["cat"], name="cat", stdin="pipe", key="k")
    assert again["run"]["id"] == started["run"]["id"]
    assert [one["name"] for one in (await use("list_runs"))["runs"]] == ["cat"]
    assert (await use("send_to_run", run="cat", text="hello"))["sent_bytes"] == 6
    wait_for_output("cat", b"hello\n")
    output = await use("run_output", run="cat")
    assert output["output"] == {"is_data": True, "text": "hello\n"}
    assert output["is_all"]
    waited = await use("wait_run", run="cat", seconds=0.1)
    assert not waited["has_ended"]
    assert waited["next"][0] == "wait_run(run='cat')"
    short = {"run": "cat", "seconds": 0.5}
    await call.client.call_tool("wait_run", short, progress_callback=note)
    assert told[0][1:] == (0.5, told[0][2])
    assert str(told[0][2]).startswith("cat is running")
    stopped = await use("stop_run", run="cat", grace=5)
    assert stopped["has_stopped"]
    assert stopped["sentence"].startswith("stopped in ")
    status = await use("run_status", run="cat")
    assert status["status"]["document"]["outcome"] == "stopped"
    await _agent(use, claude)
    await use("start_run", command=["true"], queue="q", name="queued")
    await use("wait_run", run="queued")
    assert [one["name"] for one in (await use("queue_status"))["queues"]] == ["q"]
    assert (await use("doctor"))["findings"]
    asked = await use("approve_tool", tool_name="Bash", input={"command": "true"})
    assert asked["behavior"] == "deny"
    assert used == {one.name for one in TOOLS}
    return str(asked["message"])


async def _agent(use: Any, claude: str) -> None:
    """A turn, its answer, and the session gone on with."""
    words = [claude, "-p", "hi", "--output-format", "stream-json", "--verbose"]
    started = await use("start_run", command=words, name="agent")
    await use("wait_run", run="agent")
    assert (await use("run_result", run="agent"))["result"]["is_data"]
    resumed = await use("resume_run", run="agent", prompt="again")
    assert resumed["run"]["id"] != started["run"]["id"]
    assert (await use("wait_run", run=resumed["run"]["id"]))["has_ended"]
    status = await use("run_status", run=resumed["run"]["id"])
    document = status["status"]["document"]
    assert document["resumed_from"] == started["run"]["id"]
    assert document["outcome"] == "succeeded"


async def others_are_not_there(call: Caller, ours: Run, theirs: Run) -> None:
    """By name, id and the beginning of an id, in every tool, as a resource, in `after`."""
    listed = await call.done("list_runs", since="all")
    assert [one["id"] for one in listed["runs"]] == [ours.id]
    assert (await call("list_runs", tags={"team": "b"})).code == "invalid-option"
    for reference in ("theirs", "THEIRS", theirs.id, theirs.id[:12], theirs.id[:-1]):
        for tool in ABOUT_ONE:
            refused = await call(tool, run=reference)
            assert refused.code == "run-not-found", (tool, reference)
            gone = await call(tool, run="x" * len(reference))
            same = gone.text.replace("x" * len(reference), reference)
            assert refused.text == same, "it reads as of any run that is not there"
        sent = await call("send_to_run", run=reference, text="x")
        assert sent.code == "run-not-found"
        after = await call("start_run", command=["true"], after=[reference])
        assert after.code == "run-not-found"
    assert (await call.done("run_status", run=ours.id[:-1]))["run"]["name"] == "ours"
    for uri in (f"holdfast://runs/{theirs.id}", f"holdfast://runs/{theirs.id}/output"):
        with pytest.raises(Exception, match="there is no run"):
            await call.client.read_resource(uri)
    seen = str((await call.client.list_resources()).resources)
    seen += str(await call.client.read_resource("holdfast://runs"))
    assert ours.id in seen
    assert theirs.id not in seen
