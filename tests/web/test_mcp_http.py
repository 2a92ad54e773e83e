"""M1 over HTTP: the MCP server below `holdfast serve`, by the SDK's own client."""

from __future__ import annotations

import json

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.mcp.tools import TOOLS
from tests.support.mcp_client import MODES, Caller
from tests.support.running import ended, info_of, wait_for_output
from tests.support.serving import serving


def over_http(served, play, mode, **options):
    """Play with the server's own /mcp."""

    async def connected():
        headers = {"authorization": f"Bearer {served.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
            transport = streamable_http_client(f"{served.url}mcp/", http_client=http)
            async with Client(transport, mode=mode, **options) as client:
                return await play(Caller(client))

    return anyio.run(connected)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("mode", MODES)
def test_M1_every_kind_of_tool_with_progress_and_resources(mode):
    told = []

    async def play(call):
        async def note(done, _total, message):
            told.append((done, message))

        listed = [one.name for one in (await call.client.list_tools()).tools]
        assert listed == [one.name for one in TOOLS]
        await call.done("start_run", command=["cat"], name="a", stdin="pipe", key="k")
        again = await call.done("start_run", command=["cat"], name="a", stdin="pipe", key="k")
        waited = await call.client.call_tool(
            "wait_run", {"run": "a", "seconds": 0.5}, progress_callback=note
        )
        assert not waited.structured_content["has_ended"]
        await call.done("send_to_run", run="a", text="hello")
        wait_for_output("a", b"hello\n")
        assert (await call.done("run_output", run="a"))["output"]["text"] == "hello\n"
        uri = f"holdfast://runs/{again['run']['id']}/output"
        read = (await call.client.read_resource(uri)).contents[0].text
        assert json.loads(read)["output"]["text"] == "hello\n"
        for tool in ("list_runs", "queue_status", "doctor"):
            await call.done(tool)
        assert (await call.done("run_status", run="a"))["run"]["state"] == "running"
        assert (await call("run_result", run="a")).code == "no-result"
        assert (await call("run_status", run="gone")).code == "run-not-found"
        assert (await call.done("stop_run", run="a"))["has_stopped"]

    with serving("--allow-start") as served:
        over_http(served, play, mode)
    assert told
    assert ended("a").outcome == "stopped"


def test_to_give_up_a_wait_stops_no_run_and_a_new_server_goes_on(runs):
    runs.start(["sleep", "60"], name="sleeper")

    async def give_up(call):
        with anyio.move_on_after(0.3):
            await call.done("wait_run", run="sleeper")
        return await call.done("run_status", run="sleeper")

    with serving() as served:
        assert over_http(served, give_up, "legacy")["run"]["state"] == "running"
    with serving() as served:
        assert over_http(served, give_up, "auto")["run"]["state"] == "running"
    assert info_of("sleeper").state == "running"


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
    runs.start(["sleep", "60"], name="sleeper")
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
