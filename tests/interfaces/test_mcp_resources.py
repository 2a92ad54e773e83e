"""Resources, and who is told that they changed: by the protocol of each age."""

from __future__ import annotations

import json

import anyio
import pytest

from holdfast.mcp.subscriptions import Subscriptions
from tests.support.mcp_client import LEGACY, MODERN, beside
from tests.support.running import ended

pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")


class Told:
    """The notifications of a client, and a way to wait for one."""

    def __init__(self):
        self.uris = []
        self._news = anyio.Event()

    async def __call__(self, message):
        uri = getattr(getattr(message, "params", None), "uri", None)
        if uri is not None:
            self.note(uri)

    def note(self, uri):
        self.uris.append(str(uri))
        self._news.set()
        self._news = anyio.Event()

    async def of(self, uri, count=1):
        """Once it was told of so often; those are forgotten then."""
        with anyio.fail_after(60):
            while self.uris.count(uri) < count:
                await self._news.wait()
        self.uris.clear()


def test_resources_are_listed_and_read(runs):
    run = runs.start(["sh", "-c", "echo hello; exit 3"], name="a")
    ended("a")

    async def play(call):
        client = call.client
        listed = [one.uri for one in (await client.list_resources()).resources]
        forms = [
            one.uri_template for one in (await client.list_resource_templates()).resource_templates
        ]
        texts = [(await client.read_resource(uri)).contents[0].text for uri in listed]
        for uri in ("holdfast://runs/gone", "holdfast://runs/a/b", "holdfast://runs/", "file:///x"):
            with pytest.raises(Exception, match="there is no"):
                await client.read_resource(uri)
        by_name = (await client.read_resource("holdfast://runs/a/output")).contents[0].text
        return listed, forms, [json.loads(text) for text in texts], json.loads(by_name)

    listed, forms, documents, by_name = beside(play)
    uri = f"holdfast://runs/{run.id}"
    assert listed == ["holdfast://runs", uri, f"{uri}/output"]
    assert forms == ["holdfast://runs/{run}", "holdfast://runs/{run}/output"]
    every, one, output = documents
    assert every["runs"][0]["outcome"] == "failed"
    assert one["run"]["exit_code"] == 3
    assert output["output"] == {"is_data": True, "text": "hello\n"}
    assert by_name == output


def test_a_subscriber_is_told_at_once_and_at_each_change_until_it_leaves(runs):
    run = runs.start(["cat"], name="a", stdin="pipe")
    uri = f"holdfast://runs/{run.id}"
    told = Told()

    async def play(call):
        client = call.client
        for one in (uri, f"{uri}/output", "holdfast://runs"):
            await client.subscribe_resource(one)
            await told.of(one)
        await call.done("send_to_run", run="a", text="hello")
        await told.of(f"{uri}/output")
        await client.unsubscribe_resource(f"{uri}/output")
        await call.done("stop_run", run="a")
        with anyio.fail_after(60):
            while json.loads(await _text(client, uri))["run"]["state"] != "ended":
                await told.of(uri)
        await told.of("holdfast://runs")
        assert f"{uri}/output" not in told.uris

    beside(play, mode=LEGACY, message_handler=told)


async def _text(client, uri):
    return (await client.read_resource(uri)).contents[0].text


def test_a_listen_stream_is_told_at_once_while_others_of_it_are_looked_up(runs, monkeypatch):
    """Before the stream was there, the model had told of the first resource: to nobody."""
    run = runs.start(["cat"], name="a", stdin="pipe")
    uri = f"holdfast://runs/{run.id}/output"
    tell, look_up = Subscriptions._tell, Subscriptions._meant
    events: list[anyio.Event] = []

    async def telling(self, changes):
        await tell(self, changes)
        events[0].set()

    async def looking_up(self, wanted):
        if wanted.endswith("gone"):
            with anyio.move_on_after(2):  # nothing may be told before all were looked up
                await events[0].wait()
        return await look_up(self, wanted)

    monkeypatch.setattr(Subscriptions, "_tell", telling)
    monkeypatch.setattr(Subscriptions, "_meant", looking_up)

    async def play(call):
        events.append(anyio.Event())
        async with call.client.listen(
            resource_subscriptions=[uri, "holdfast://runs/gone"]
        ) as stream:
            with anyio.fail_after(60):
                return (await anext(stream)).uri

    assert beside(play, mode=MODERN) == uri


def test_a_listen_stream_is_told_of_what_it_asked_for(runs):
    run = runs.start(["cat"], name="a", stdin="pipe")
    other = runs.start(["cat"], name="b", stdin="pipe")
    uri = f"holdfast://runs/{run.id}/output"

    async def play(call):
        wanted = [uri, "holdfast://runs/gone"]
        async with call.client.listen(resource_subscriptions=wanted) as stream:
            with anyio.fail_after(60):
                assert (await anext(stream)).uri == uri  # at once
                await call.done("send_to_run", run=other.id, text="not this one")
                await call.done("send_to_run", run="a", text="hello")
                assert (await anext(stream)).uri == uri
        return await call.done("run_output", run="a")

    assert beside(play, mode=MODERN)["output"]["text"] == "hello\n"
