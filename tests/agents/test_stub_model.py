"""The stub answers as it is steered, in each vendor's way of speaking."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.stub_model import ANSWER, Call, Steering, StubServer, Turn

QUERIES: dict[str, Any] = {
    "/v1/messages": lambda text: {"messages": [{"role": "user", "content": text}]},
    "/v1/responses": lambda text: {
        "input": [{"type": "message", "role": "user", "content": [{"text": text}]}]
    },
    "/v1beta/models/x:generateContent": lambda text: {
        "contents": [{"role": "user", "parts": [{"text": text}]}]
    },
}
every_path = pytest.mark.parametrize("path", QUERIES)


@pytest.fixture
def url() -> Iterator[str]:
    with StubServer(0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _ask(url: str, path: str, prompt: str, **more: object) -> str:
    body = json.dumps({**QUERIES[path](prompt), **more}).encode()
    with urllib.request.urlopen(url + path, data=body, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


@every_path
def test_it_answers_whole_and_streamed(url, path):
    assert ANSWER in _ask(url, path, "hi")
    streamed = _ask(url, path, "hi", stream=True)
    assert ANSWER in streamed
    assert streamed.startswith(("data: ", "event: "))


@every_path
def test_it_fails_as_asked(url, path):
    with pytest.raises(urllib.error.HTTPError) as raised:
        _ask(url, path, "hi [[fail: 418]]")
    with raised.value as error:
        assert error.code == 418
        assert b"asked to fail" in error.read()


@every_path
def test_a_limit_says_when_to_come_back(url, path):
    with pytest.raises(urllib.error.HTTPError) as raised:
        _ask(url, path, "hi [[limit: 90]]")
    with raised.value as error:
        assert (error.code, error.headers["retry-after"]) == (429, "90")


def test_the_newest_prompt_steers():
    assert Steering.of("[[run: echo a]]\n[[delay: 0.5]] [[limit]]") == Steering(
        calls=(Call("run", "echo a"),), delay_seconds=0.5, limit_seconds=60
    )
    assert Steering.of("no words") == Steering()


def test_tools_are_asked_for_so_often_and_each_answer_has_its_tokens():
    asked = Steering.of("[[run: echo a]] [[times: 3]] [[tokens: 1000 50]]")
    assert (asked.times, asked.tokens_in, asked.tokens_out) == (3, 1000, 50)
    assert [
        bool(Turn(("[[run: a]] [[times: 2]]",), n, frozenset("x")).calls) for n in range(4)
    ] == [
        True,
        True,
        False,
        False,
    ]
