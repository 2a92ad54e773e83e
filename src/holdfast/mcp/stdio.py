"""The server on stdin and stdout, for the agent that started it; it ends when stdin does."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from holdfast.mcp.server import make_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.mcp.scope import Access, Scope


def serve_stdio(scope: Scope, access: Access) -> None:
    """Until the client hangs up."""
    anyio.run(_serve, scope, access)


async def _serve(scope: Scope, access: Access) -> None:
    server = make_server(scope, access)
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
