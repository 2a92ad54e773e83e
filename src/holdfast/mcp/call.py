"""One call of a tool: what it was given, what it may use, what it has looked at."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.manage.aio import AsyncRun
    from holdfast.manage.info import RunInfo
    from holdfast.mcp.scope import Scope

    Json = dict[str, Any]
    Progress = Callable[[float, float, str], Coroutine[Any, Any, None]]


class ToolCall:
    """`given` fits the tool's schema. `info`: the last look at the run, for an error's answer."""

    def __init__(
        self,
        scope: Scope,
        given: Json,
        tools: frozenset[str],
        progress: Progress,
        *,
        is_near: bool = True,
    ) -> None:
        self.scope = scope
        self.given = given
        self.tools = tools  # that this server offers
        self.progress = progress
        self.is_near = is_near  # as of Access: the run that the client is in is known
        self.warnings: list[str] = []
        self.info: RunInfo | None = None
        self._run: AsyncRun | None = None

    @property
    def run(self) -> AsyncRun:
        """The run that is meant."""
        if self._run is None:
            self._run = self.scope.run(self.given["run"])
        return self._run

    def take(self, run: AsyncRun) -> None:
        """From now on, that one is meant."""
        self._run = run

    async def look(self) -> RunInfo:
        """Read it now."""
        self.info = await self.run.info()
        return self.info
