"""Clients that are slow, idle, many, or never read: others are answered, and memory is bounded."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import httpx

from tests.support.running import run_of
from tests.support.serving import Served, serving
from tests.support.waiting import eventually

FLOOD = "import os\nblock = (b'x' * 99 + b'\\n') * 1000\nwhile True: os.write(1, block)"
BAR_BYTES = 120 << 20  # with 200 runs and 50 clients


def memory_of(served: Served) -> int:
    text = Path(f"/proc/{served.pid}/status").read_text()
    line = next(one for one in text.splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def dial(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=60)


def is_closed(one: socket.socket) -> bool:
    one.settimeout(60)
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def request(served: Served, path: str) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {served.token}\r\n\r\n"
    return head.encode()


def test_V3_bodies_and_heads_are_bounded():
    with serving(most_body_bytes=1000, body_seconds=0.3) as served:
        url = f"{served.url}api/v1/runs/x/stop"
        big = httpx.post(url, content=b" " * 2000, headers=served.bearer)
        assert (big.status_code, big.json()["error"]["code"]) == (413, "too-large")

        def pieces():
            for _ in range(30):
                yield b" " * 100

        assert httpx.post(url, content=pieces(), headers=served.bearer).status_code == 413
        with dial(served) as long:
            with contextlib.suppress(OSError):  # it is refused before it is whole
                long.sendall(request(served, f"/api/v1/runs?name={'x' * 200_000}"))
            assert b" 400 " in long.recv(100)
        with dial(served) as slow:
            slow.sendall(
                request(served, "/api/v1/runs/x/stop")
                .replace(b"GET", b"POST")
                .replace(b"\r\n\r\n", b"\r\ncontent-length: 10\r\n\r\n{")
            )
            assert b" 408 " in slow.recv(100)
        deep = b'{"argv":' + b"[" * 400 + b"]" * 400 + b"}"
        kind = {**served.bearer, "content-type": "application/json"}
        for body in (deep, b"{", b"[]", b"\xff", b"null", b'{"grace":1e999}'):
            done = httpx.post(url, content=body, headers=kind)
            assert done.status_code in (400, 404), done.text
        assert served.get("/health")["schema"] == 1


def test_V3_a_head_byte_by_byte_and_500_idle_clients_keep_nobody_out():
    with serving(head_seconds=1.0) as served, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(dial(served)) for _ in range(5)]
        idle = [stack.enter_context(dial(served)) for _ in range(500)]
        for one in slow:
            with contextlib.suppress(OSError):  # it may be closed already: they are too many
                one.sendall(b"GET /api/v1/health HTTP/1.1\r\nhost: loc")
        assert served.get("/health")["schema"] == 1
        assert all(map(is_closed, [*slow, *idle]))
        assert memory_of(served) < BAR_BYTES


def test_V3_a_client_that_never_reads_is_cut_and_others_follow(runs):
    runs.start([sys.executable, "-c", FLOOD], name="flood", log_max="64M")
    eventually(lambda: (run_of("flood").info().log_bytes or 0) > 5_000_000)
    with serving(stall_seconds=1.0) as served, dial(served) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(request(served, "/api/v1/runs/flood/output?follow=1"))
        seen, skipped = 0, 0
        with served.events(path="/runs/flood/output?follow=1&tail=10") as messages:
            for _, _kind, told in messages:
                seen += len(told.get("text", ""))
                skipped += told.get("skipped_bytes", 0)
                if seen > 1_000_000 and skipped:
                    break
        assert skipped > 100_000
        assert served.get("/runs/flood")["state"] == "running"

        def is_cut() -> bool:
            try:
                deaf.sendall(b" ")
            except OSError:
                return True
            return False

        eventually(is_cut)
        assert memory_of(served) < BAR_BYTES
    assert run_of("flood").stop().complete is not False


def test_V3_followers_are_counted(runs):
    runs.start(["sleep", "300"], name="one")
    with serving(most_followers=2, most_streams=3) as served, contextlib.ExitStack() as stack:
        follow = "/runs/one/output?follow=1"
        open_ones = [stack.enter_context(served.events(path=follow)) for _ in range(2)]
        assert [next(messages)[1] for messages in open_ones] == ["begin", "begin"]
        refused = served.client.get(follow)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        with served.events() as messages:
            assert next(messages)[1] == "snapshot"
            assert served.client.get("/events").status_code == 503
        stack.close()

        def follows_again() -> bool:
            with served.client.stream("GET", follow) as answer:
                return answer.status_code == 200

        eventually(follows_again)


def test_V3_followers_are_counted_when_many_come_at_once(runs):
    runs.start(["sleep", "300"], name="one")
    with serving(most_followers=2) as served, contextlib.ExitStack() as stack:
        dialled = [stack.enter_context(dial(served)) for _ in range(40)]
        for one in dialled:
            one.sendall(request(served, "/api/v1/runs/one/output?follow=1"))
        codes = [one.recv(12)[-3:] for one in dialled]
        assert (codes.count(b"200"), codes.count(b"503")) == (2, 38)


def test_the_answer_to_a_HEAD_of_a_stream_ends(runs):
    runs.start(["sleep", "300"], name="one")
    with serving(most_followers=1, most_streams=1) as served:
        for path in ("/events", "/runs/one/output?follow=1"):
            for _ in range(2):  # over one connection, and none of them is counted
                head = served.client.head(path)
                assert head.status_code == 200
                assert head.headers["content-type"].startswith("text/event-stream")
        assert served.get("/health")["schema"] == 1


def test_V6_a_log_of_a_gigabyte_opens_at_its_tail(runs):
    runs.start(["true"], name="large").wait()
    path = run_of("large").directory.output_path
    with open(path, "r+b") as file:
        file.truncate(1 << 30)  # a hole, which is given to nobody
        file.seek(0, 2)
        file.write(b"".join(b"line %d\n" % number for number in range(10_000)))
    with serving() as served:
        tail = served.client.get("/runs/large/output", params={"tail": 2})
        assert tail.content == b"line 9998\nline 9999\n"
        assert int(tail.headers["holdfast-next-byte"]) > 1 << 30
        with served.events(path="/runs/large/output?follow=1&tail=2") as messages:
            kinds = [(kind, told.get("text")) for _, kind, told in messages]
        assert kinds == [("begin", None), ("chunk", "line 9998\nline 9999\n"), ("end", None)]
        found = served.get("/runs/large/output", find="LINE 77")
        assert found["count"] == 111
        assert memory_of(served) < BAR_BYTES
