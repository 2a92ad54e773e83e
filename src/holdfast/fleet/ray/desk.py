"""The node's half: one detached actor on each Ray node, which runs that node's own holdfast.

It is sent to the node as it stands, by value: the standard library alone, and nothing of Holdfast
is imported. A worker of Ray has an environment and an oom score of its own, which a run must not
inherit: each command begins as in a login. A group whose run has a recorded ending is given back.
Before that the node's facts are exported, if its config names a database.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pwd
import struct
import subprocess
import sys
import termios
import threading
import time
from typing import Any

READ_SECONDS = 5.0  # a read without output returns then
_ABANDONED_SECONDS = 90.0  # nobody reads any more
_SWEEP_SECONDS = 3.0
_EXPORT_SECONDS = 20.0
_NO_DATABASE = 2  # the exit code of an export
_NO_DATABASE_SECONDS = 600.0  # until its config is asked again
_EXPORT_AGAIN_SECONDS = 30.0
_READ_BYTES = 1 << 16
_HELD_BYTES = 1 << 20  # of output that nobody has read yet
_MARK = b"\0holdfast "
_START = "start"  # the words of a start
_PATH = "/usr/local/bin:/usr/bin:/bin"
_CALM = "echo 0 2>/dev/null >/proc/self/oom_score_adj;"  # a worker of Ray has 1000


class Desk:
    """Commands of one node's holdfast, by a token that the caller has made."""

    def __init__(self, command: str, home: str, ray_node: str) -> None:
        self._line = _line_of(command, home)
        self._ray_node = ray_node
        self._calls: dict[str, _Call] = {}
        self._starts = 0  # answers of starts, and a few more
        self._facts: dict[str, Any] | None = None
        threading.Thread(target=self._sweep, daemon=True).start()

    async def node(self) -> dict[str, Any]:
        """What the node's holdfast says about itself."""
        if self._facts is None:
            finder = await asyncio.to_thread(_Finder, self._line)
            self._facts = finder.facts
            finder.close()
        return self._facts

    async def open(
        self, token: str, words: str, size: tuple[int, int] | None = None, term: str = ""
    ) -> None:
        """Begin a command; with a size, on a terminal of that kind."""
        call = self._calls[token] = _Call(size, {"TERM": term} if term else {})
        call.is_start = words == _START
        await call.begin(["/bin/sh", "-lc", f"{_CALM} exec {self._line} {words}"])
        call.tasks.append(asyncio.ensure_future(self._forget(token, call)))

    async def read(self, token: str) -> tuple[list[tuple[int, bytes]], int | None]:
        """What it wrote, each with its descriptor, and its exit code once all was read."""
        call = self._calls[token]
        pieces, code = await call.read()
        self._starts += call.is_start and bool(pieces)
        return pieces, code

    async def write(self, token: str, data: bytes, is_last: bool) -> None:
        """To its stdin."""
        await self._calls[token].write(data, is_last)

    async def resize(self, token: str, size: tuple[int, int]) -> None:
        """Of its terminal."""
        self._calls[token].resize(size)

    async def close(self, token: str) -> None:
        """End it, if it has not ended."""
        call = self._calls.pop(token, None)
        if call is not None:
            call.close()

    async def _forget(self, token: str, call: _Call) -> None:
        """A caller that is gone leaves nothing behind."""
        while time.monotonic() - call.asked_at < _ABANDONED_SECONDS:
            await asyncio.sleep(_ABANDONED_SECONDS / 4)
        await self.close(token)

    def _sweep(self) -> None:
        """Give groups of this node back once their run has a recorded ending, or was removed."""
        finder: _Finder | None = None
        exporting = _Exporting(self._line)
        while True:
            time.sleep(_SWEEP_SECONDS)
            try:
                starts = self._starts  # one that comes from here on is for the next round
                names = _groups_on(self._ray_node)
                if names and finder is None:
                    finder = _Finder(self._line)
                over = {}
                for name in names:
                    assert finder is not None
                    over[name] = finder.is_over(name.removeprefix("hf-"))
                exporting.see(over, starts)
                for name in names:
                    if over[name]:
                        _remove_group(name)
                if not names:
                    _close(finder)
                    finder = None
            except Exception as error:  # noqa: BLE001 - Ray or the node's holdfast; tried again
                print(f"holdfast: groups are not given back: {error}", file=sys.stderr, flush=True)
                _close(finder)
                finder = None


class _Call:
    """One command, and what of its output nobody has read yet."""

    def __init__(self, size: tuple[int, int] | None, env: dict[str, str]) -> None:
        self._env = {**_login(), **env}
        self.asked_at = time.monotonic()
        self.tasks: list[asyncio.Future[Any]] = []
        self._size = size
        self._terminal = -1
        self._pieces: list[tuple[int, bytes]] = []
        self._code: int | None = None
        self.is_start = False
        self._changed = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self, argv: list[str]) -> None:
        pipe, far = asyncio.subprocess.PIPE, -1
        more: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        if self._size is not None:
            self._terminal, far = os.openpty()
            self.resize(self._size)
            more = {"stdin": far, "stdout": far, "stderr": far}
            argv = ["setsid", "--ctty", *argv]
        self._process = await asyncio.create_subprocess_exec(
            *argv, **more, env=self._env, cwd="/", start_new_session=self._size is None
        )
        if far >= 0:
            os.close(far)
        self.tasks.append(asyncio.ensure_future(self._take_all(self._process)))

    async def _take_all(self, process: asyncio.subprocess.Process) -> None:
        """Until it has ended, and all that it wrote is kept."""
        if self._size is None:
            await asyncio.gather(self._take(1, process.stdout), self._take(2, process.stderr))
        else:
            await self._take_terminal()
        code = await process.wait()
        async with self._changed:
            self._code = code
            self._changed.notify_all()

    async def _take(self, fd: int, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while data := await stream.read(_READ_BYTES):
            await self._keep(fd, data)

    async def _take_terminal(self) -> None:
        """Until nobody has its other side."""
        while True:
            try:
                data = await asyncio.to_thread(os.read, self._terminal, _READ_BYTES)
            except OSError:
                return
            await self._keep(1, data)

    async def _keep(self, fd: int, data: bytes) -> None:
        async with self._changed:
            while sum(len(piece) for _, piece in self._pieces) > _HELD_BYTES:
                await self._changed.wait()
            self._pieces.append((fd, data))
            self._changed.notify_all()

    async def read(self) -> tuple[list[tuple[int, bytes]], int | None]:
        self.asked_at = time.monotonic()
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(self._has_news), READ_SECONDS)
            except TimeoutError:
                return [], None
            pieces, self._pieces = self._pieces, []
            self._changed.notify_all()
            return pieces, self._code

    def _has_news(self) -> bool:
        return bool(self._pieces) or self._code is not None

    async def write(self, data: bytes, is_last: bool) -> None:
        assert self._process is not None
        if self._terminal >= 0:
            await asyncio.to_thread(os.write, self._terminal, data)
            return
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(data)
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # its end is told by the next read
        if is_last:
            stdin.close()

    def resize(self, size: tuple[int, int]) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.kill()  # our own child, which is not reaped yet
            except ProcessLookupError:
                pass  # it has just ended
        for task in self.tasks:
            task.cancel()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


class _Finder:
    """A `fleet start` of the node that starts nothing: asked which runs are over."""

    def __init__(self, line: str) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-lc", f"{_CALM} exec {line} start"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_login(),
            cwd="/",
            start_new_session=True,
        )
        self.facts: dict[str, Any] = self._said()["hello"]

    def is_over(self, run_id: str) -> bool | None:
        """Whether its ending is recorded, or it was removed; None: it was not started here."""
        asked = {"id": run_id, "node": self.facts["node"], "do": "find"}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        found = self._said().get("answer") or {}
        run = found.get("run")
        if not found.get("was_before"):
            return None
        return run is None or (run["state"] == "ended" and run.get("is_recorded") is True)

    def _said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at = line.find(_MARK)
            if at >= 0:
                said: dict[str, Any] = json.loads(line[at + len(_MARK) :])
                return said
        raise OSError("the node's holdfast hung up")

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


class _Exporting:
    """Has the node's facts exported when a run has begun, and when it is over."""

    def __init__(self, line: str) -> None:
        self._argv = ["/bin/sh", "-lc", f"{_CALM} exec {line} export --quiet"]
        self._seen: dict[str, bool] = {}
        self._starts = 0
        self._is_due = False
        self._not_before = 0.0

    def see(self, over: dict[str, bool | None], starts: int) -> None:
        """Which groups there are, and what became of their runs (None: not started).

        `starts`: how many had been made by this desk before. Another desk of this node may have
        given the group of one back before it was ever seen here.
        """
        begun = {name: is_over for name, is_over in over.items() if is_over is not None}
        self._is_due = self._is_due or begun != self._seen or starts != self._starts
        self._seen, self._starts = begun, starts
        if not self._is_due or time.monotonic() < self._not_before:
            return
        try:
            self._is_due = not self._export()
        except (OSError, subprocess.TimeoutExpired) as error:
            _say_not_exported(str(error))
        if self._is_due:
            self._not_before = time.monotonic() + _EXPORT_AGAIN_SECONDS

    def _export(self) -> bool:
        """False: it is to be tried again."""
        done = subprocess.run(
            self._argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_login(),
            cwd="/",
            start_new_session=True,
            timeout=_EXPORT_SECONDS,
            check=False,
        )
        if done.returncode == _NO_DATABASE:
            self._not_before = time.monotonic() + _NO_DATABASE_SECONDS
        elif done.returncode:
            _say_not_exported(done.stderr.decode(errors="replace").strip())
        return done.returncode in (0, _NO_DATABASE)


def _say_not_exported(why: str) -> None:
    print(f"holdfast: facts are not exported: {why}", file=sys.stderr, flush=True)


def _close(finder: _Finder | None) -> None:
    if finder is not None:
        finder.close()


def _line_of(command: str, home: str) -> str:
    """A shell's text. Without another word the holdfast beside Ray's own interpreter is meant."""
    beside = os.path.join(os.path.dirname(sys.executable), "holdfast")
    if command == "holdfast" and os.path.exists(beside):
        command = f"'{beside}'"
    quoted = home.replace("'", "'\\''")
    return f"env HOLDFAST_HOME='{quoted}' {command} fleet" if home else f"{command} fleet"


def _login() -> dict[str, str]:
    """The environment of a login, and the home that `ray start` was told."""
    who = pwd.getpwuid(os.getuid())
    made = {"HOME": who.pw_dir, "USER": who.pw_name, "LOGNAME": who.pw_name, "PATH": _PATH}
    made["SHELL"] = who.pw_shell or "/bin/sh"
    kept = ("HOLDFAST_HOME", "LANG", "TZ")
    return {**made, **{name: os.environ[name] for name in kept if name in os.environ}}


def _groups_on(ray_node: str) -> list[str]:
    import importlib

    table = importlib.import_module("ray.util.placement_group").placement_group_table()
    return [
        str(one["name"])
        for one in table.values()
        if one["state"] == "CREATED"
        and str(one["name"]).startswith("hf-")
        and ray_node in one["bundles_to_node_id"].values()
    ]


def _remove_group(name: str) -> None:
    import importlib

    util = importlib.import_module("ray.util")
    util.remove_placement_group(util.get_placement_group(name))
