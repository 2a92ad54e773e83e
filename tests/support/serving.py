"""A real `holdfast serve` in a process of its own, at a port of the kernel's choice; its client."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.support.cli import CommandLine

# With other bounds than a user's, so that a test need not wait for them.
BOUNDED = """
import json, os, sys
from holdfast.run.home import Home
from holdfast.web.server import listen_on, run_server
from holdfast.web.settings import ServeSettings
from holdfast.web.token import own_token
home = Home.locate().prepare()
settings = ServeSettings(home.path, own_token(home), **json.loads(sys.argv[1]))
listening = listen_on("127.0.0.1", 0)
url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
told = {"url": url, "token": settings.token, "pid": os.getpid()}
run_server(settings, listening, lambda: print(json.dumps(told), flush=True))
"""


class Served:
    """A server under test."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self.process = process
        self.url: str = told["url"]
        self.token: str = told["token"]
        self.pid: int = told["pid"]
        port = self.url.rstrip("/").rpartition(":")[2]
        self.port = int(port) if port.isdigit() else 0  # none: a unix socket
        self.bearer = {"authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(
            base_url=f"{self.url}api/v1", headers=self.bearer, timeout=60, trust_env=False
        )

    @property
    def page(self) -> str:
        """What a person opens."""
        return f"{self.url}#token={self.token}"

    def get(self, path: str, **params: Any) -> Any:
        """A document; the test fails when there is none."""
        found = self.client.get(path, params=params)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, path: str, expect: int = 200, **document: Any) -> Any:
        """What an action answers."""
        done = self.client.post(path, json=document)
        assert done.status_code == expect, done.text
        return done.json()

    def events(
        self, last_id: str | None = None, path: str = "/events"
    ) -> contextlib.AbstractContextManager[Iterator[tuple[str, str, Any]]]:
        """`(id, kind, document)` of each message."""
        return _events(self.client, path, {} if last_id is None else {"last-event-id": last_id})


@contextlib.contextmanager
def _events(
    client: httpx.Client, path: str, headers: Mapping[str, str]
) -> Iterator[Iterator[tuple[str, str, Any]]]:
    with client.stream("GET", path, headers=dict(headers)) as answer:
        assert answer.status_code == 200, answer.read()

        def messages() -> Iterator[tuple[str, str, Any]]:
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if line and name:
                    fields[name] = value
                elif "event" in fields:
                    yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                    fields = {}

        yield messages()


@contextlib.contextmanager
def serving(*options: str, **bounds: Any) -> Iterator[Served]:
    """Ends with the block. `bounds`: of `ServeSettings`, instead of the command's options."""
    if bounds:
        argv = [sys.executable, "-c", BOUNDED, json.dumps(bounds)]
    else:
        where = () if {"--port", "--listen", "--socket"}.intersection(options) else ("--port", "0")
        argv = CommandLine().argv("serve", "--json", *where, *options)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    with process.stdout:
        try:
            told = process.stdout.readline()
            assert told, f"it did not start: exit {process.wait()}"
            served = Served(process, json.loads(told))
            with served.client:
                yield served
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise
