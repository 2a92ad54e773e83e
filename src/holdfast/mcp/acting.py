"""The tools that start, stop and change runs; only where the server was told to allow that."""

from __future__ import annotations

import anyio

from holdfast.errors import AlreadyRunning, Refused
from holdfast.manage.aio import run_steps_async
from holdfast.manage.changing.stop_attempt import Attempted, attempt
from holdfast.manage.starting.config import layered, preset_names
from holdfast.mcp.documents import about
from holdfast.options import PLACING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.aio import AsyncRun
    from holdfast.mcp.call import ToolCall

    Json = dict[str, Any]

STOP_SECONDS = 45.0  # then it goes on, and the answer says so


async def start_run(call: ToolCall) -> Json:
    """Start one, as `holdfast run` does, [defaults] of config.toml included."""
    given = dict(call.given)
    argv, presets = given.pop("command"), preset_names(given.pop("preset", []))
    options = call.scope.within(layered(given, presets, with_defaults=True))
    if any(options.get(name) is not None for name in PLACING):
        raise Refused(
            "a run on another machine can't be started from here",
            hint="a preset or [defaults] says where: a person can, with holdfast run --on",
        )
    try:
        run = await call.scope.runs(call.warnings.append).start(argv, **options)
    except AlreadyRunning:
        if options.get("name") is not None:
            call.scope.refuse_taken(options["name"])
        raise
    return await _started(call, run)


async def resume_run(call: ToolCall) -> Json:
    """Go on with an agent's session."""
    await call.look()
    return await _started(call, await call.run.resume(call.given.get("prompt")))


async def _started(call: ToolCall, run: AsyncRun) -> Json:
    # Looked up again: the run of a key that was used before must be in the scope, too.
    call.take(call.scope.run(run.id))
    info = await call.look()
    return {**about(info, call.tools), "warnings": call.warnings}


async def stop_run(call: ToolCall) -> Json:
    """Stop the whole tree. What takes longer goes on without us."""
    before = await call.look()
    call.scope.refuse_own(before.id)
    one = Attempted(before.name or before.id, call.scope.plain_run(before.id))
    with anyio.move_on_after(STOP_SECONDS) as patience:
        await run_steps_async(attempt(one, call.given.get("grace"), None))
    if patience.cancelled_caught:
        info = await call.look()
        sentence = f"still stopping after {STOP_SECONDS:.0f} s; it goes on by itself"
        return {**about(info, call.tools), "has_stopped": False, "sentence": sentence}
    info = one.info or before
    stopped = {"has_stopped": not one.survivors, "sentence": one.sentence()}
    return {**about(info, call.tools), **stopped}


async def send_to_run(call: ToolCall) -> Json:
    """Write to its stdin. Over HTTP nobody can tell an agent that answers its own question."""
    info = await call.look()
    if not call.is_near and (info.attention or {}).get("kind") in ("permission", "question"):
        raise Refused(
            f"{info.name} asks a person, and over HTTP nobody can tell who answers",
            hint=f"a person: holdfast status {info.name}, then approve, deny or send",
            run=info.id,
        )
    text: str = call.given["text"]
    sent = (text + "\n" if call.given.get("newline", True) else text).encode()
    await call.run.send(sent)
    return {**about(await call.look(), call.tools), "sent_bytes": len(sent)}
