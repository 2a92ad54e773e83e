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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp

    from holdfast.web.settings import ServeSettings

_BACKLOG = 128
_LEAVING_SECONDS = 2


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
    mounts: Mapping[str, ASGIApp] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is called once requests are answered."""
    connections = OpenConnections(settings)
    config = uvicorn.Config(
        make_app(settings, mounts),
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_LEAVING_SECONDS,
        h11_max_incomplete_event_size=32 << 10,
    )

    async def serve() -> None:
        server = uvicorn.Server(config)
        watching = asyncio.create_task(connections.watch())
        told = asyncio.create_task(_tell(server, ready))
        try:
            await server.serve(sockets=[listening])
        finally:
            for task in (watching, told):
                task.cancel()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())


async def _tell(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    ready()
