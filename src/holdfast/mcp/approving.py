"""`approve_tool`: puts what claude asks under `--print` to the person who supervises its run.

The run's shim has the question, as it has those of hooks: `holdfast approve` and `deny` answer it,
and when its time is up it is denied. Whatever goes wrong is a denial, with the reason. Loads
nothing of the SDK: see approve_server.py.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.manage.aio import run_steps_async
from holdfast.manage.changing.questioning import put_question
from holdfast.process.this_host import STAMP, STAMP_HOME
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


async def ask_person(given: Json) -> Json:
    """What claude is to be told about a tool that it wants to use."""
    run_id, home = os.environ.get(STAMP), os.environ.get(STAMP_HOME)
    if run_id is None or not is_id(run_id) or not home:
        return denied("this agent is in no run, so there is nobody to ask: holdfast run claude -p")
    directory = RunDirectory(Home(home), run_id)
    asked = {"tool_name": given["tool_name"], "tool_input": given["input"]}
    try:
        decision = await run_steps_async(put_question(directory, asked))
    except HoldfastError as error:
        return denied(f"nobody could be asked: {error.message}")
    if decision.is_allowed:
        return {"behavior": "allow", "updatedInput": given["input"]}
    return denied(decision.message)


def denied(why: str) -> Json:
    """The answer no, with the reason that the model reads."""
    return {"behavior": "deny", "message": why}
