"""Ctrl-C and SIGTERM: `serve` ends at once, with exit code 0 and nothing on the terminal, whoever
is connected, and leaves no socket behind."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.support.cli import CommandLine
from tests.support.mcp_client import MODES
from tests.support.serving import Served
from tests.support.waiting import eventually
from tests.web.test_mcp_http import connected


@contextlib.contextmanager
def _serving(*words: str, stdout: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """It ends with the block, also where that fails: else a later test would fail of it too."""
    errors = subprocess.PIPE
    with subprocess.Popen(words, stdout=stdout, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _serve(*words: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return _serving(*CommandLine().argv("serve", "--json", *words), stdout=subprocess.PIPE)


def _follow(served: Served, is_there: threading.Event) -> None:
    """A page: it ends whole, so a browser connects again at once."""
    with served.events() as messages:
        for _ in messages:
            is_there.set()


def _wait(served: Served, is_there: threading.Event, mode: str) -> None:
    async def play(call):
        async def told(*_):
            is_there.set()

        await call.client.call_tool("wait_run", {"run": "sleeper"}, progress_callback=told)

    with contextlib.suppress(Exception):  # whatever the SDK says of a server that is gone
        anyio.run(functools.partial(connected, served, play, mode))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_V9_a_page_and_mcp_clients_that_wait_do_not_hold_it(runs, number):
    runs.start(["sleep", "1000"], name="sleeper")
    with _serve("--port", "0") as process:
        assert process.stdout is not None
        served = Served(process, json.loads(process.stdout.readline()))
        threads = _joined_by_all_kinds(served)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
    for one in threads:
        one.join(60)
    served.client.close()
    assert runs.get("sleeper").info().state == "running"


def _joined_by_all_kinds(served: Served) -> list[threading.Thread]:
    threads = []
    clients: list[Callable[..., None]] = [_follow]
    clients += [functools.partial(_wait, mode=mode) for mode in MODES]
    for client in clients:
        is_there = threading.Event()
        threads.append(threading.Thread(target=client, args=(served, is_there)))
        threads[-1].start()
        assert is_there.wait(60)
    return threads


def test_a_unix_socket_goes_with_its_server(tmp_path):
    path = tmp_path / "at"
    with _serve("--socket", str(path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert path.is_socket()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
    assert not path.exists()


def test_it_serves_without_a_stdout(tmp_path):
    """As a service may start it: whoever has the token file knows the rest."""
    path = tmp_path / "at"
    argv = CommandLine().argv("serve", "--socket", str(path))
    transport = httpx.HTTPTransport(uds=str(path))
    with (
        _serving("sh", "-c", 'exec "$@" >&-', "sh", *argv) as process,
        httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as client,
    ):
        early = (FileNotFoundError, ConnectionRefusedError)
        eventually(lambda: process.poll() is not None or _is_listened_at(path), ignoring=early)
        assert client.get("/").status_code == 200
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def _is_listened_at(path: Path) -> bool:
    """A socket has its name a moment before somebody listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
    return True
