"""Whatever is written to a run's control socket: it is answered, and no fault of ours."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import string
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.manage.run import Run
from holdfast.run.events import Kind
from tests.support.running import ended, is_alive, run_of, shim_pid, wait_for_output
from tests.support.waiting import eventually

HOSTILE = [
    b'{"do":[]}',
    b'{"do":{}}',
    b'{"do":null}',
    b'{"do":1}',
    b'{"do":true}',
    b'{"do":"nothing such"}',
    b'{"do":"' + b"x" * 100_000 + b'"}',
    b'{"do":"\\ud800"}',
    b"{}",
    b"[]",
    b"null",
    b"1",
    b'"do"',
    b"",
    b"\xff\xfe",
    b"{" * 5000,
    b"[" * 50_000,
    b'{"do":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"do":"stop","signal":9}',
    b'{"do":"stop","signal":[]}',
    b'{"do":"stop","signal":"NOSUCH"}',
    b'{"do":"stop","signal":"' + b"9" * 5000 + b'"}',
    b'{"do":"stop","cause":[]}',
    b'{"do":"stop","cause":{}}',
    b'{"do":"stop","cause":"nothing such"}',
    b'{"do":"stop","grace_seconds":NaN}',
    b'{"do":"stop","grace_seconds":"10"}',
    b'{"do":"stop","grace_seconds":[]}',
    b'{"do":"stop","grace_seconds":true}',
    b'{"do":"stop","detail":{"a":1}}',
    b'{"do":"signal"}',
    b'{"do":"signal","signal":15}',
    b'{"do":"signal","signal":"-15"}',
    b'{"do":"signal","signal":"HUP","to":[]}',
    b'{"do":"signal","signal":null}',
    b'{"do":"send"}',
    b'{"do":"send","base64":5}',
    b'{"do":"send","base64":"\\u00e9"}',
    b'{"do":"send","base64":"abc"}',
    b'{"do":"send","base64":{}}',
]


class Caller:
    """A client that says what it likes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.answers = connection.makefile("rb")

    def ask(self, line: bytes) -> dict[str, Any]:
        self.connection.sendall(line + b"\n")
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer


@contextlib.contextmanager
def calling(run: Run) -> Iterator[Caller]:
    directory = os.open(run.directory.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(f"/proc/self/fd/{directory}/control")
            caller = Caller(connection)
            with caller.answers:
                yield caller
    finally:
        os.close(directory)


def faults(run: Run) -> list[Any]:
    return [event for event in run.directory.read_events().events if event.kind is Kind.FAULT]


@pytest.mark.parametrize("options", [[], ["--pty"], ["--stdin", "pipe"]], ids=" ".join)
def test_nonsense_is_refused_and_makes_no_fault(holdfast, options):
    holdfast("run", "-n", "a", *options, "sleep", "600", expect=0)
    run, shim = run_of("a"), shim_pid("a")
    with calling(run) as caller:
        for line in HOSTILE:
            answer = caller.ask(line)
            assert answer["ok"] is False, (line[:80], answer)
            assert len(answer["error"]) < 5000
            assert caller.ask(b'{"do":"ping"}') == {"ok": True}, line[:80]
    assert faults(run) == []
    assert (shim_pid("a"), is_alive(shim), run.info().state) == (shim, True, "running")
    holdfast("stop", "--grace", "0", "a", expect=0)


def test_a_viewer_that_sends_nonsense_harms_nobody(holdfast):
    holdfast("run", "-n", "a", "--pty", "sleep", "600", expect=0)
    run = run_of("a")
    for line in (
        b'{"do":"attach","rows":"x","columns":[]}',
        b'{"do":"attach","rows":-1,"columns":1e999}',
        b'{"do":"attach","rows":99999999999999999999,"columns":1}',
        b'{"do":"attach","read_only":[]}',
    ):
        with calling(run) as caller:
            assert caller.ask(line)["ok"] is True
            caller.connection.sendall(b'{"do":"resize","rows":true,"columns":{}}\n')
            caller.connection.sendall(b'{"do":"resize","rows":null}\n')
            caller.connection.sendall(b'{"do":"input","base64":["a"]}\n')
            # It hangs up: an answer would be taken for output.
            while caller.connection.recv(65536):
                pass
    with calling(run) as caller:
        assert caller.ask(b'{"do":"ping"}') == {"ok": True}
    assert faults(run) == []
    holdfast("stop", "--grace", "0", "a", expect=0)


@pytest.mark.parametrize("grace", [b"Infinity", b"1e308", b"1" + b"0" * 400])
def test_a_grace_without_end_neither_ends_the_shim_nor_is_final(holdfast, grace):
    script = "trap '' TERM; echo ready; while :; do sleep 600 & wait; done"
    holdfast("run", "-n", "a", "sh", "-c", script, expect=0)
    wait_for_output("a", b"ready")
    run, shim = run_of("a"), shim_pid("a")
    with calling(run) as caller:
        assert caller.ask(b'{"do":"stop","grace_seconds":' + grace + b"}")["ok"] is True
        eventually(lambda: run.info().state == "stopping", 30)
        assert caller.ask(b'{"do":"ping"}') == {"ok": True}
    assert is_alive(shim)
    assert faults(run) == []
    holdfast("stop", "--grace", "0", "a", expect=0)
    assert ended("a").outcome == "stopped"


def test_what_a_client_says_of_itself_is_kept_short(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    run = run_of("a")
    deep = b"[" * 800 + b"]" * 800
    by = b'{"pid":1,"word":' + deep + b',"more":{}}'
    with calling(run) as caller:
        long = b'"' + b"y" * 1_000_000 + b'"'
        request = b'{"do":"stop","by":' + by + b',"detail":' + long + b',"grace_seconds":-5}'
        assert caller.ask(request)["ok"] is True
    assert ended("a").outcome == "stopped"
    events = {event.kind: event for event in run.directory.read_events().events}
    assert events[Kind.STOP_BEGUN].facts["by"]["word"] == {"pid": 1}
    assert len(events[Kind.STOP_BEGUN].facts["detail"]) < 10_000
    assert faults(run) == []


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(string.printable, max_size=20)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.dictionaries(
    st.sampled_from(["base64", "to", "by", "wait", "rows", "columns", "read_only", "detail", "x"]),
    VALUES,
)
REQUESTS = VALUES | st.builds(
    lambda verb, fields: {**fields, "do": verb},
    st.sampled_from(["ping", "send", "signal", "input", "resize", "Stop"]) | VALUES,
    FIELDS,
)


def test_any_json_is_answered_and_makes_no_fault(holdfast):
    holdfast("run", "-n", "a", "--stdin", "pipe", "sleep", "600", expect=0)
    run = run_of("a")
    with calling(run) as caller:

        @settings(max_examples=150, suppress_health_check=list(HealthCheck))
        @given(REQUESTS)
        def ask(request: Any) -> None:
            assert "ok" in caller.ask(json.dumps(request).encode())

        ask()
        assert caller.ask(b'{"do":"ping"}') == {"ok": True}
    assert faults(run) == []
    holdfast("stop", "--grace", "0", "a", expect=0)
