"""The parts on the way to Ray that need none: what is asked for, a desk's commands, who is told."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys

import pytest

from holdfast.errors import Unavailable
from holdfast.fleet.ray import desk as desks
from holdfast.fleet.ray.placer import RayPlacer, bundle_of
from holdfast.fleet.settings import EngineSettings, FleetTarget
from tests.fleet.fake_engine import request_of, wanted
from tests.support.waiting import eventually


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    placer = RayPlacer(FleetTarget("ray", "ray", "", EngineSettings("ray")))
    with pytest.raises(Unavailable) as raised:
        list(placer.reserve(wanted(None, request_of()), True))
    assert raised.value.hint == "pip install 'holdfast[ray]'"
    assert "ray" not in sys.modules


def test_what_ray_is_asked_to_set_aside():
    placement = wanted(None, request_of())
    assert bundle_of(placement) == {"CPU": 1}
    asked = {"resources": {"cpus": 4, "memory_bytes": 1 << 30, "gpus": 2}}
    assert bundle_of(placement.replace(request=asked)) == {"CPU": 4, "memory": 1 << 30, "GPU": 2}


def test_a_command_at_a_desk_begins_as_in_a_login(monkeypatch):
    for name in ("RAY_JOB_ID", "OMP_NUM_THREADS", "PYTHONBREAKPOINT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOLDFAST_HOME", "/there")
    monkeypatch.setenv("HOLDFAST_RUN_ID", "of the run in which Ray was started")
    shown = play("env").decode()
    assert "HOLDFAST_HOME=/there\n" in shown
    for name in ("RAY_", "OMP_", "PYTHON", "HOLDFAST_RUN_ID"):
        assert f"\n{name}" not in f"\n{shown}"


def test_the_home_may_have_any_name():
    assert play(desks._line_of("echo", "it's $HOME") + " a") == b"fleet a\n"
    line = desks._line_of("sh -c 'echo \"$HOLDFAST_HOME\"'", "it's $HOME")
    assert play(line) == b"it's $HOME\n"


def test_output_errors_and_exit_code_come_each_on_its_own():
    pieces, code = asyncio.run(talk("cat; echo wrong >&2; exit 7", b"in"))
    assert b"".join(data for fd, data in pieces if fd == 1) == b"in"
    assert b"".join(data for fd, data in pieces if fd == 2) == b"wrong\n"
    assert code == 7


def test_more_output_than_is_held_waits_until_it_is_read():
    pieces, code = asyncio.run(talk("head -c 5000000 /dev/zero"))
    assert (sum(len(data) for _, data in pieces), code) == (5_000_000, 0)


def test_a_command_on_a_terminal_has_its_size():
    pieces, code = asyncio.run(talk("stty size; tty", size=(31, 97)))
    assert b"".join(data for _, data in pieces).startswith(b"31 97\r\n/dev/pts/")
    assert code == 0


def test_a_command_that_nobody_reads_is_ended(tmp_path):
    async def leave() -> int:
        call = desks._Call(None, {})
        await call.begin(["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"])
        while not (text := _read(tmp_path / "pid")):
            await asyncio.sleep(0.01)
        call.close()
        assert call._process is not None
        assert await call._process.wait() == -9
        return int(text)

    pid = asyncio.run(leave())
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), 60)


def test_a_run_is_exported_whose_group_another_desk_gave_back(monkeypatch):
    exports: list[int] = []
    exporting = desks._Exporting("holdfast fleet")

    def export() -> bool:
        exports.append(1)
        return True

    monkeypatch.setattr(exporting, "_export", export)
    exporting.see({}, 0)
    exporting.see({"hf-a": None}, 0)
    exporting.see({}, 1)
    exporting.see({}, 1)
    assert len(exports) == 1
    exporting.see({"hf-b": False}, 2)
    exporting.see({}, 2)  # it ended, and the other desk was first
    assert len(exports) == 3


def test_the_answer_of_a_start_is_counted(monkeypatch):
    monkeypatch.setattr(desks.Desk, "_sweep", lambda _: None)

    async def ask(words: str) -> int:
        desk = desks.Desk("echo", "", "n1")
        await desk.open("t", words)
        while (await desk.read("t"))[1] is None:
            pass
        await desk.close("t")
        return desk._starts

    assert asyncio.run(ask("relay")) == 0
    assert asyncio.run(ask("start")) > 0


def _read(path) -> str:
    return path.read_text().strip() if path.exists() else ""


def play(line: str) -> bytes:
    pieces, _ = asyncio.run(talk(line))
    return b"".join(data for _, data in pieces)


async def talk(line: str, data: bytes = b"", size: tuple[int, int] | None = None):
    """One command to its end, as a bridge would have it."""
    call = desks._Call(size, {})
    await call.begin(["/bin/sh", "-c", line])
    if size is None:
        await call.write(data, True)
    every: list[tuple[int, bytes]] = []
    while True:
        pieces, code = await call.read()
        every += pieces
        if code is not None:
            call.close()
            return every, code
