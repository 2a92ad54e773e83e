"""Runs as answers: short, with evidence, and with every text of a program marked as data."""

from __future__ import annotations

from holdfast.manage.words.notes import note
from holdfast.manage.words.views import next_steps
from holdfast.mcp.schemas import BRIEF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from holdfast.manage.info import RunInfo

    Json = dict[str, Any]

_TOOLS = {  # by the command that does the same
    "logs": "run_output",
    "result": "run_result",
    "resume": "resume_run",
    "send": "send_to_run",
    "status": "run_status",
    "stop": "stop_run",
    "wait": "wait_run",
}


def data(text: str) -> Json:
    """A text that a program wrote: no instruction to whoever reads it."""
    return {"is_data": True, "text": text}


def brief(info: RunInfo) -> Json:
    """The run in few words."""
    found = {name: getattr(info, name) for name in BRIEF["properties"] if name != "note"}
    return {**found, "note": data(note(info)), "attention": _attention(info)}


def _attention(info: RunInfo) -> Json | None:
    """What its agent says that it needs: its own words."""
    if info.attention is None:
        return None
    others = [_question(one) for one in info.attention.get("others", ())]
    return {**_question(info.attention), "others": others}


def _question(asked: Json) -> Json:
    return {**asked, "text": data(str(asked.get("text") or ""))}


def about(info: RunInfo, tools: Container[str]) -> Json:
    """The run, its last words if it did not succeed, and what makes sense now."""
    return {"run": brief(info), "last_output": last_output(info), "next": _next(info, tools)}


def last_output(info: RunInfo) -> Json | None:
    """Of a run that did not succeed."""
    lines: list[str] = []
    for name in ("stderr", "output"):
        lines += (info.last_output or {}).get(name) or ()
    return data("\n".join(lines)) if lines else None


def _next(info: RunInfo, tools: Container[str]) -> list[str]:
    """What `status` advises, by the tools that there are; the rest is for a person."""
    name = info.name or info.id
    found = [f"wait_run(run={name!r})"] if info.state.is_supervised else []
    for step in next_steps(info):
        tool = _TOOLS.get(step.partition(" ")[0], "")
        found.append(f"{tool}(run={name!r})" if tool in tools else f"a person: holdfast {step}")
    return list(dict.fromkeys(found))
