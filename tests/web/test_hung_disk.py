"""A disk that hangs holds the requests that read it, and nothing else; and the end of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.features import needs

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 20.0  # far below the time after which a read is given up

# In mounts of its own: a server whose home stops to answer once it is up.
SCENE = """
import json, os, signal, subprocess, sys, time
import anyio, httpx, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from holdfast.run.home import Home
from tests.support.fuse_server import mounted
from tests.support.serving import serving
from tests.support.waiting import eventually

async def hold(session, is_held):
    async with httpx2.AsyncClient(headers=served.bearer, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{served.url}mcp/", http_client=http)
        async with Client(transport, mode="auto") as client:
            async def ask(tool, given):
                await client.call_tool(tool, given)
                is_held.append("it answered")
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "list_runs", {})
                group.start_soon(ask, "run_status", {"run": "sleeper"})
                await anyio.sleep(1.0)  # that they are held can't be awaited
                began = time.monotonic()
                await client.list_tools()
                is_held.append(time.monotonic() - began)
                group.cancel_scope.cancel()

home = Home.locate()
with serving() as served:
    served.get("/runs")
    with served.events() as messages:
        assert next(messages)[1] == "snapshot"
        with mounted(home.runs_path) as server:
            os.kill(server, signal.SIGSTOP)
            try:
                held = []
                acts = httpx.Client(headers=served.bearer, timeout=1.0, trust_env=False)
                try:
                    acts.post(f"{served.url}api/v1/runs/sleeper/pause", json={})
                    held.append("an action was answered")
                except httpx.ReadTimeout:
                    pass
                anyio.run(hold, served, held)
                began = time.monotonic()
                for path in ("", "api/v1/openapi.json", "static/app.js"):
                    httpx.get(f"{served.url}{path}", headers=served.bearer, timeout=20)
                page = time.monotonic() - began
                trouble = next(told["trouble"] for _, _, told in messages if told.get("trouble"))
                began = time.monotonic()
                served.process.send_signal(signal.SIGINT)
                code = served.process.wait(30)
                ended = time.monotonic() - began
            finally:
                os.kill(server, signal.SIGCONT)
print(json.dumps({"held": held, "page": page, "code": code, "ended": ended, "trouble": trouble}))
"""


def test_V3_a_disk_that_hangs_holds_neither_other_requests_nor_the_end_of_the_server(runs):
    needs("root", "fuse")
    runs.start(["sleep", "1000"], name="sleeper")
    words = ["unshare", "-m", sys.executable, "-c", SCENE]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    (tools,) = told["held"]
    assert max(tools, told["page"], told["ended"]) < MOST_SECONDS, told
    assert told["code"] == 0
    assert "does not answer" in told["trouble"]["message"]
    assert done.stderr == ""
