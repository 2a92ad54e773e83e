"""M1 over HTTP: the MCP server below `holdfast serve`, by the SDK's own client."""

from __future__ import annotations

import functools
import os
import signal

import anyio
import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from holdfast.mcp.http import MOST_SCOPES
from holdfast.process.this_host import STAMP, STAMP_HOME
from tests.support import pretend_claude, pretend_talker
from tests.support.asking import asked, start_talk
from tests.support.mcp_client import MODES, Caller
from tests.support.mcp_scenes import every_refusal, every_tool, others_are_not_there
from tests.support.running import events_of, info_of, wait_for_output
from tests.support.serving import serving


async def connected(served, play, mode, *, query="", **options):
    """Play with the server's own /mcp."""
    headers = {"authorization": f"Bearer {served.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{served.url}mcp/{query}", http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            return await play(Caller(client))


def over_http(served, play, mode, **options):
    return anyio.run(functools.partial(connected, served, play, mode, **options))


def test_M1_every_tool_and_every_refusal(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    claude = pretend_claude.install(tmp_path)
    with serving("--allow-start") as served:
        denied = over_http(served, lambda call: every_tool(call, claude), "legacy")
        assert "over HTTP nobody can tell which run asks" in denied
        runs.start(["sleep", "1000"], name="sleeper")
        before = [one.id for one in runs.list()]
        for mode in MODES:
            over_http(served, every_refusal, mode)
    assert [one.id for one in runs.list()] == before, "nothing was started"


def test_A2_a_server_in_a_run_does_not_ask_in_the_name_of_its_own_run(runs, monkeypatch):
    outer = runs.start(["sleep", "1000"], name="outer")
    monkeypatch.setenv(STAMP, outer.id)
    monkeypatch.setenv(STAMP_HOME, runs.home.path)

    async def play(call):
        return await call.done("approve_tool", tool_name="Bash", input={"command": "true"})

    with serving() as served:
        assert over_http(served, play, "auto")["behavior"] == "deny"
    assert events_of("outer", "attention_needed") == []


@pytest.mark.usefixtures("runs")
def test_A2_nobody_answers_a_question_by_what_is_sent_over_http(holdfast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    start_talk(holdfast, pretend_talker.install(tmp_path), "--approve", "ask")

    async def play(call):
        await call.done("send_to_run", run="a", text="ask touch made")
        (question,) = await anyio.to_thread.run_sync(asked)
        return question, await call("send_to_run", run="a", text="y")

    with serving("--allow-start") as served:
        question, refused = over_http(served, play, "auto")
    assert refused.code == "refused"
    assert "asks a person" in refused["error"]["message"]
    assert asked() == [question], "it is open still"
    assert not (tmp_path / "made").exists()
    holdfast("approve", "a", question["id"], expect=0)
    wait_for_output("a", b"ran touch made")


def test_to_give_up_a_wait_stops_no_run(runs):
    runs.start(["sleep", "1000"], name="sleeper")
    told = []

    async def give_up(call):
        waiting = anyio.CancelScope()

        async def note(*said):
            told.append(said)
            waiting.cancel()

        with waiting:
            await call.client.call_tool("wait_run", {"run": "sleeper"}, progress_callback=note)
        assert waiting.cancelled_caught
        return await call.done("run_status", run="sleeper")

    with serving() as served:
        for mode in MODES:
            assert over_http(served, give_up, mode)["run"]["state"] == "running"
    assert len(told) >= len(MODES)
    assert info_of("sleeper").state == "running"


def test_M5_the_server_is_killed_in_a_wait_the_run_lives_and_a_new_server_goes_on(runs, tmp_path):
    os.mkfifo(tmp_path / "go")
    words = ["sh", "-c", "read line < go; echo done; exit 7"]
    before = runs.start(words, name="a", cwd=str(tmp_path)).info()
    waiting = set()

    async def die(call, mode):
        async def kill(*_):
            waiting.add(mode)
            if waiting == set(MODES):
                os.kill(served.pid, signal.SIGKILL)

        with pytest.raises(MCPError, match="ended without a response"):
            await call.client.call_tool("wait_run", {"run": "a"}, progress_callback=kill)

    async def die_together():
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for mode in MODES:
                    group.start_soon(connected, served, functools.partial(die, mode=mode), mode)

    async def go_on(call):
        (tmp_path / "go").write_text("on\n")
        return await call.done("wait_run", run="a")

    with serving() as served:
        anyio.run(die_together)
        assert served.process.wait(60) == -signal.SIGKILL
    now = info_of("a")
    assert now.state == "running"
    assert (now.attempt, now.shim) == (1, before.shim)
    assert now.workload is not None
    assert before.workload is not None
    assert now.workload["token"] == before.workload["token"]
    with serving("--port", str(served.port)) as again:
        waited = over_http(again, go_on, "auto")
    assert waited["has_ended"]
    assert (waited["run"]["outcome"], waited["run"]["exit_code"]) == ("failed", 7)


# Scope


def test_M4_the_scope_stands_in_the_url(runs):
    theirs = runs.start(["sleep", "1000"], name="theirs", tags={"team": "b"}, key="deploy")
    ours = runs.start(["sleep", "1000"], name="ours", tags={"team": "a"})

    async def start(call):
        started = await call.done("start_run", command=["sleep", "1000"], key="deploy")
        assert started["run"]["id"] != theirs.id
        assert started["run"]["tags"] == {"team": "a"}
        assert (await call.done("stop_run", run=started["run"]["id"]))["has_stopped"]

    async def count(call):
        return {one["name"] for one in (await call.done("list_runs", active=True))["runs"]}

    with serving("--allow-start") as served:
        for mode in MODES:
            play = functools.partial(others_are_not_there, ours=ours, theirs=theirs)
            over_http(served, play, mode, query="?tag=team=a")
        over_http(served, start, "auto", query="?tag=team%3Da")
        assert over_http(served, count, "auto", query="?tag=team=b") == {"theirs"}
        assert over_http(served, count, "auto", query="?tag=team=b&tag=x=y") == set()
        assert over_http(served, count, "auto") == {"ours", "theirs"}
    assert theirs.info().state == "running"


NO_SCOPES = {
    "?tag=team": "is not K=V",
    "?tag=": "is not K=V",
    "?tag=team=a&tag=team=b": "team can't be a and b",
    "?tags=team=a": "tags: no such parameter",
}


BEGIN = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def test_M4_a_session_of_one_scope_is_none_in_another_and_what_is_no_scope_is_refused():
    def ask(query, method="tools/list", params=None, **headers):
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return http.post(f"{served.url}mcp/{query}", json=sent, headers={**own, **headers})

    with serving() as served, httpx.Client(trust_env=False, timeout=60) as http:
        own = {**served.bearer, "accept": "application/json, text/event-stream"}
        begun = ask("?tag=team=a", "initialize", BEGIN)
        assert begun.status_code == 200
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        assert ask("?tag=team=a", **session).status_code == 200
        for other in ("", "?tag=team=b"):
            assert ask(other, **session).status_code == 404
        for query, says in NO_SCOPES.items():
            refused = ask(query)
            assert refused.status_code == 400
            assert says in refused.json()["error"]["message"]
        answers = [ask(f"?tag=n={number}").status_code for number in range(MOST_SCOPES)]
        assert answers[-3:] == [503] * 3, "three scopes were there before"
        assert ask("?tag=team=a", **session).status_code == 200


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
def test_subscribers_are_told_over_both_kinds_of_stream(runs):
    run = runs.start(["cat"], name="a", stdin="pipe")
    uri = f"holdfast://runs/{run.id}/output"
    news = []

    async def note(message):
        if getattr(getattr(message, "params", None), "uri", None) == uri:
            news.append(uri)

    async def legacy(call):
        await call.client.subscribe_resource(uri)
        await _until(lambda: len(news) >= 1)
        run.send(b"hello\n")
        await _until(lambda: len(news) >= 2)

    async def modern(call):
        async with call.client.listen(resource_subscriptions=[uri]) as stream:
            with anyio.fail_after(60):
                assert (await anext(stream)).uri == uri
                run.send(b"hello\n")
                assert (await anext(stream)).uri == uri

    with serving() as served:
        over_http(served, legacy, "legacy", message_handler=note)
        over_http(served, modern, "auto")


async def _until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


def test_it_stands_behind_the_guard_of_serve(runs):
    runs.start(["sleep", "1000"], name="sleeper")
    ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async def play(call):
        refused = await call("start_run", command=["true"])
        assert refused.code == "refused"
        assert "--allow-start" in refused["error"]["hint"]
        return await call.done("stop_run", run="sleeper")

    with serving() as served, httpx.Client(trust_env=False, timeout=60) as http:
        url = f"{served.url}mcp/"
        assert http.post(url, json=ask).status_code == 401
        wrong = {**served.bearer, "host": "evil.example"}
        assert http.post(url, json=ask, headers=wrong).status_code == 421
        other = {**served.bearer, "origin": "http://127.0.0.1:1"}
        assert http.post(url, json=ask, headers=other).status_code == 403
        assert over_http(served, play, "auto")["has_stopped"]
    with serving("--read-only") as served:
        answer = httpx.post(f"{served.url}mcp/", json=ask, headers=served.bearer, trust_env=False)
        assert answer.status_code == 405


def test_without_the_sdk_serve_works_and_says_what_to_install(tmp_path, monkeypatch):
    for name in ("mcp", "mcp_types"):
        (tmp_path / "shadow" / name).mkdir(parents=True)
        text = f"raise ModuleNotFoundError('no {name}', name={name!r})\n"
        (tmp_path / "shadow" / name / "__init__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with serving() as served:
        assert served.get("/runs")["runs"] == []
        answer = httpx.post(f"{served.url}mcp/", json=ask, headers=served.bearer, trust_env=False)
    assert answer.status_code == 503
    assert answer.json()["error"]["hint"] == "pip install 'holdfast[mcp]'"
