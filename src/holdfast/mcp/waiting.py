"""`wait_run`: until a run has ended or needs a person, for less than a client's own patience.

Progress is told meanwhile. To give up waiting, or to die, does nothing to the run.
"""

from __future__ import annotations

import anyio

from holdfast.errors import HoldfastError
from holdfast.manage.aio import run_steps_async
from holdfast.manage.waiting import wait_for_runs
from holdfast.mcp.documents import about
from holdfast.mcp.tools import MOST_WAIT_SECONDS
from holdfast.process.clock import boottime
from holdfast.run.units import duration, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.mcp.call import ToolCall

    Json = dict[str, Any]

_TOLD_SECONDS = 2.0  # between two words about the progress


async def wait_run(call: ToolCall) -> Json:
    """Wait, and tell how it goes."""
    seconds = float(call.given.get("seconds", MOST_WAIT_SECONDS))
    began = boottime()
    first = await call.look()
    if first.is_active and first.attention is None:
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, call, first, began, seconds)
            steps = wait_for_runs([call.run.directory], attention=True, timeout=seconds)
            (call.info,) = await run_steps_async(steps)
            group.cancel_scope.cancel()
    info = call.info or first
    waited = {"has_ended": not info.is_active, "waited_seconds": round(boottime() - began, 1)}
    return {**about(info, call.tools), **waited}


async def _tell(call: ToolCall, info: RunInfo, began: float, seconds: float) -> None:
    while True:
        passed = boottime() - began
        parts = [f"{info.name} is {info.state}"]
        if info.duration_seconds is not None:
            parts.append(f"for {duration(info.duration_seconds)}")
        if info.log_bytes:
            parts.append(f"{size(info.log_bytes)} of output")
        await call.progress(passed, seconds, ", ".join(parts))
        await anyio.sleep(_TOLD_SECONDS)
        try:
            info = await call.run.info()
        except HoldfastError:  # it was removed: the wait itself says so
            return
