"""A2 through a server: a run does not answer its own agent, though it has read the token."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys

import pytest

from holdfast.process.connections import processes_at
from holdfast.process.identity import ProcessIdentity
from tests.support import pretend_talker
from tests.support.asking import asked, id_of, say, start_talk
from tests.support.running import events_of, wait_for_output
from tests.support.serving import serving
from tests.support.waiting import eventually

# What an agent that has read the token would do.
POST = r"""
import json, socket, sys
place, path, token, document = json.loads(sys.argv[1])
one = socket.socket(socket.AF_UNIX if isinstance(place, str) else socket.AF_INET)
one.connect(place if isinstance(place, str) else tuple(place))
body = json.dumps(document)
lines = [f"POST /api/v1/runs/a/{path} HTTP/1.1", "host: localhost", "connection: close",
         "content-type: application/json",
         f"authorization: Bearer {token}", f"content-length: {len(body)}", "", body]
one.sendall("\r\n".join(lines).encode())
print(b"".join(iter(lambda: one.recv(65536), b"")).decode())
"""


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.usefixtures("runs")
def test_A2_an_agent_that_has_the_token_cannot_answer_itself(holdfast, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "post.py").write_text(POST)
    start_talk(holdfast, pretend_talker.install(tmp_path), "--approve", "ask")
    say(holdfast, "ask sh self.sh;; ask touch made")
    asked(2)
    mine = id_of("touch made")
    documents = {"approve": {"id": mine}, "deny": {"id": mine}, "send": {"text": "y"},
                 "adjust": {"on_budget": "pause"}}  # fmt: skip
    where = () if kind == "tcp" else ("--socket", str(tmp_path / "at"))
    with serving("--allow-start", *where) as served:
        place = ["127.0.0.1", served.port] if kind == "tcp" else str(tmp_path / "at")

        def words(verb):
            given = json.dumps([place, verb, served.token, documents[verb]])
            return [sys.executable, "post.py", given]

        lines = [f"{shlex.join(words(verb))} >{verb}.txt" for verb in documents]
        lines[1] = f"env -u HOLDFAST_RUN_ID setsid {lines[1]}"
        (tmp_path / "self.sh").write_text("\n".join([*lines, "touch tried", ""]))
        holdfast("approve", "a", id_of("self.sh"), expect=0)
        eventually((tmp_path / "tried").exists, why="the tool has tried")
        for verb in documents:
            said = (tmp_path / f"{verb}.txt").read_text()
            assert "HTTP/1.1 409" in said, said
            assert "from inside the run" in said, said
        assert [one["id"] for one in asked()] == [mine], "it is open still"
        assert not (tmp_path / "made").exists()
        done = subprocess.run(words("approve"), capture_output=True, text=True, timeout=60)
        assert "HTTP/1.1 200" in done.stdout, done
        wait_for_output("a", b"ran touch made")
    assert events_of("a", "attention_over")[-1]["how"] == "approved"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ends_of_a_connection_are_found(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        with socket.create_connection(server.getsockname()[:2]) as one:
            there, _ = server.accept()
            with there:
                ends = one.getsockname()[:2], one.getpeername()[:2]
                assert processes_at(*ends) == [ProcessIdentity.current()]
                assert processes_at(*reversed(ends)) == [ProcessIdentity.current()]
        assert processes_at((host, 1), (host, 1)) == []
