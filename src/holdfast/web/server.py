"""Runs the application: its socket, its address, and the line that leads a person there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat

import uvicorn

from holdfast.errors import Refused, Unavailable, WrongUse
from holdfast.web.app import make_app
from holdfast.web.connections import OpenConnections
from holdfast.web.guard import Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import FrameType

    from holdfast.web.app import MountedApp
    from holdfast.web.settings import ServeSettings

_BACKLOG = 128
_LEAVING_SECONDS = 0.3  # for requests that are under way when it is to end; then they are cut
_LAST_SECONDS = 2  # should something hold on nevertheless


def listen_on(host: str, port: int) -> socket.socket:
    """A socket at an address; Unavailable when another program has it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        opened = socket.socket(family, kind)
    except OSError as error:
        raise WrongUse(f"{host}:{port}: {error.strerror or error}") from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise Unavailable(
            f"{host}:{port}: {error.strerror or error}", hint="--port 0 takes a free one"
        ) from None
    return opened


def listen_at(path: str) -> socket.socket:
    """A unix socket for its owner alone. One that a dead server left is replaced."""
    opened = socket.socket(socket.AF_UNIX)
    try:
        _clear(path)
        before = os.umask(0o177)
        try:
            opened.bind(path)
        finally:
            os.umask(before)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise Unavailable(f"{path}: {error.strerror or error}") from None
    except BaseException:
        opened.close()
        raise
    return opened


def _clear(path: str) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise Refused(f"{path} is there and is no socket", hint="name another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise Refused(f"another server listens at {path}")


def run_server(
    settings: ServeSettings,
    listening: socket.socket,
    ready: Callable[[], None],
    mounts: Mapping[str, MountedApp] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is called once requests are answered."""
    connections = OpenConnections(settings)
    guard = make_app(settings, mounts)
    config = uvicorn.Config(
        guard,
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,  # its own needs a stdout
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_LAST_SECONDS,
        h11_max_incomplete_event_size=32 << 10,
    )

    async def serve() -> None:
        server = _Server(config, guard, connections, (mounts or {}).values())
        watching = asyncio.create_task(connections.watch())
        told = asyncio.create_task(_tell(server, ready))
        try:
            await server.serve(sockets=[listening])
        finally:
            for task in (watching, told):
                task.cancel()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


class _Server(uvicorn.Server):
    """Ends at once, and without a word about the clients that it had."""

    def __init__(
        self,
        config: uvicorn.Config,
        guard: Guard,
        connections: OpenConnections,
        mounted: Iterable[MountedApp],
    ) -> None:
        super().__init__(config)
        self._guard = guard
        self._mounted = mounted
        self._connections = connections

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._guard.is_leaving = (
            True  # first: the SDK of /mcp hears of it here, and ends its streams
        )
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        leaving = asyncio.create_task(self._leave())
        await super().shutdown(sockets)
        await leaving
        self._captured_signals.clear()  # heeded: it does not die of them, its caller goes on

    async def _leave(self) -> None:
        ends = asyncio.get_running_loop().time() + _LEAVING_SECONDS
        while self._guard.is_busy and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(0.02)
        self._guard.leave()
        for app in self._mounted:
            await app.end()
        await asyncio.sleep(0.05)  # what they were told last is sent
        self._connections.cut_all()


async def _tell(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    ready()
