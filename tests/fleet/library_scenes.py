"""What a program does with runs elsewhere, through the library; played as one user."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from holdfast import AsyncRuns, HoldfastError, Runs


def use_the_library() -> dict[str, Any]:
    """Every method of a run, on a node n1; the facts are judged by the test."""
    runs, facts = Runs(), dict[str, Any]()
    run = runs.start(
        ["sh", "-c", "echo one; read x; echo got $x; exit 3"], on="ssh:n1", stdin="pipe"
    )
    again = runs.get(run.id)
    facts["repr"] = repr(again)
    facts["states"] = [run.info().state, again.info().state]
    run.pause()
    facts["paused"] = run.info().paused is not None
    run.unpause()
    run.send(b"y\xff\n")
    ended = runs.wait([run.id])[0]
    facts["ended"] = [ended.outcome, ended.exit_code]
    facts["output"] = run.output().decode("latin-1")
    facts["tail"] = run.output(tail=1).decode("latin-1")
    facts["followed"] = b"".join(chunk.data for chunk in run.follow(4)).decode("latin-1")
    facts["lines"] = [line.decode("latin-1") for line in run.lines()]
    report = run.report()
    facts["report"] = [report.to_json()["run"]["id"] == run.id, "<html" in report.html()]
    second = run.rerun(stdin=b"z\n")
    second.wait()
    facts["rerun"] = second.output().decode()
    facts["resume"] = _error(second.resume)
    facts["diff"] = [_error(second.diff), _error(second.discard)]
    facts["removed"] = second.remove().evidence != ""
    facts["gone"] = _error(lambda: runs.get(second.id))
    facts["archived"] = run.id in os.path.basename(run.archive().path)
    facts["no directory"] = _error(lambda: run.directory)
    return facts


def use_many(on: list[str]) -> dict[str, Any]:
    """Several at once, on several nodes, with one key: a second call starts nothing."""
    runs = Runs()
    requests = [{"argv": ["sh", "-c", f"exit {n}"], "on": on[n % len(on)]} for n in range(6)]
    first: list[Any] = runs.start_many(requests, key="k")
    infos = runs.wait(first)
    second: list[Any] = runs.start_many(requests, key="k")
    local = runs.start(["sleep", "60"], name="here")
    any_of = runs.wait([first[0], local], any=True)
    local.stop()
    return {
        "codes": [info.exit_code for info in infos],
        "hosts": len({one.placement.node for one in first}),
        "same": [one.id for one in first] == [one.id for one in second],
        "any": [info.state for info in any_of],
    }


async def _use_asyncio() -> dict[str, Any]:
    runs = AsyncRuns()
    run = await runs.start(["sh", "-c", "echo hello; exec sleep 100"], on="ssh:n1", name="a")
    async for line in run.lines():
        said = line
        break
    await (await runs.get("a")).stop(grace=1)
    info = await run.wait()
    return {"said": said.decode(), "outcome": info.outcome, "output": (await run.output()).decode()}


def use_asyncio() -> dict[str, Any]:
    """The same names, awaitable."""
    return asyncio.run(_use_asyncio())


def _error(action: Any) -> str:
    try:
        action()
    except HoldfastError as error:
        return error.code
    return ""
