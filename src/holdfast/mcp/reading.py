"""The tools that only look."""

from __future__ import annotations

from itertools import islice

from holdfast.errors import Failed, InvalidOption, NotFound, WrongUse
from holdfast.manage.info import RunInfo
from holdfast.manage.overview import WINDOW, Overview
from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.log_search import BLOCK_BYTES, FoundLine, LogSearch
from holdfast.mcp.documents import about, brief, data
from holdfast.mcp.tools import MOST_OUTPUT_BYTES, OUTPUT_BYTES
from holdfast.run.output import OutputReader, read_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.aio import AsyncRun
    from holdfast.mcp.call import ToolCall
    from holdfast.run.output import Chunk

    Json = dict[str, Any]

_LISTED = 50
_TAIL_LINES = 50
_MOST_SEARCHED_BYTES = 64 << 20  # by one call: a moment of work; the answer says where to go on
_MOST_LINE_BYTES = 4096  # of a hit


async def list_runs(call: ToolCall) -> Json:
    """The rows of `ls`."""
    given = dict(call.given)
    limit, since = given.pop("limit", _LISTED), given.pop("since", WINDOW)
    window = None if since == "all" else since
    overview = Overview(call.scope.home, call.scope.selection(**given), window=window)
    found = list(islice(overview, limit + 1))
    shown = found[:limit]
    steps = (
        ["run_status(run=NAME)"] if shown else ["start_run"] if "start_run" in call.tools else []
    )
    return {
        "runs": [brief(info) for info in shown],
        "summary": overview.summary(),
        "is_cut": len(found) > limit,
        "next": [*steps, *overview.hints()],
    }


async def run_status(call: ToolCall) -> Json:
    """Everything known."""
    info = await call.look()
    document = {"is_data": True, "document": info.to_json()}
    return {**about(info, call.tools), "status": document}


async def run_result(call: ToolCall) -> Json:
    """An agent's final answer."""
    info = await call.look()
    text = (info.result or {}).get("text")
    if info.result is None or text is None:
        why = "has given no answer (yet)" if info.agent else "is no agent's run: it has output only"
        error = Failed(f"{info.name} {why}", hint=f"run_output(run={info.name!r})", run=info.id)
        error.code = "no-result"
        raise error
    is_error = bool(info.result.get("is_error"))
    return {**about(info, call.tools), "result": data(str(text)), "is_error": is_error}


async def queue_status(call: ToolCall) -> Json:
    """How the queues stand; of runs of others only how many there are."""
    wanted = call.given.get("queue")
    queues = await call.scope.runs(call.warnings.append).queues()
    found = [one.to_json() for one in queues if wanted in (None, one.name)]
    if wanted is not None and not found:
        names = ", ".join(one.name for one in queues) or "none"
        raise NotFound(f"there is no queue {wanted}", hint=f"there are: {names}")
    evidence = "the plan that the waiting runs make, from the markers in the queue's directory"
    return {"queues": [_within(call, one) for one in found], "evidence": evidence}


def _within(call: ToolCall, queue: Json) -> Json:
    others = 0
    for name in ("active", "waiting", "unknown", "circle"):
        ours = [row for row in queue[name] if call.scope.holds(row["id"])]
        others += len(queue[name]) - len(ours) if name != "circle" else 0
        queue[name] = ours
    return {**queue, "others": others}


async def doctor(call: ToolCall) -> Json:
    """What was tried on this machine."""
    found = await call.scope.runs(call.warnings.append).doctor(
        agents=bool(call.given.get("agents"))
    )
    document = found.to_json()
    document.pop("schema")
    return {**document, "evidence": "each was tried just now, by a process of its own"}


# Output


async def run_output(call: ToolCall) -> Json:
    """From a byte, the last lines, or the lines with a text."""
    given = call.given
    if "search" not in given and "since_byte" in given and "tail" in given:
        raise WrongUse("since_byte says where to begin, and so does tail", hint="give one of them")
    info = await call.look()
    run = call.run
    path = _path(run, info, bool(given.get("stderr")))
    first_kept = run.directory.first_kept_byte(path)
    if "search" in given:
        found = _search(path, given, first_kept)
    else:
        found = read_output(
            path,
            first_kept,
            since_byte=given.get("since_byte"),
            tail=given.get("tail"),
            most=given.get("max_bytes", OUTPUT_BYTES),
        )
    name, steps = info.name or info.id, []
    if not found["is_all"]:
        steps = [f"run_output(run={name!r}, since_byte={found['next_byte']})"]
    elif info.state.is_supervised:
        steps = [f"wait_run(run={name!r})"]
    return {"run": brief(info), **found, "next": steps}


def _path(run: AsyncRun, info: RunInfo, wants_stderr: bool) -> str:
    if not wants_stderr:
        return run.directory.output_path
    if not (info.wanted or {}).get("split_stderr"):
        raise InvalidOption(
            f"{info.name} was not started with split_stderr: its stderr is in the output",
            hint="leave out stderr",
            option="stderr",
            value=True,
        )
    return run.directory.stderr_path


def read_output(
    path: str,
    first_kept: int,
    *,
    since_byte: int | None = None,
    tail: int | None = None,
    most: int = MOST_OUTPUT_BYTES,
) -> Json:
    """A piece of output, of which the head is kept from a byte on, and the end from a tail on."""
    is_tail = since_byte is None
    lines = (_TAIL_LINES if tail is None else tail) if is_tail else None
    chunks: list[Chunk] = []
    size, begun = 0, since_byte
    for chunk in read_from(path, since_byte or 0, tail=lines, first_kept=first_kept):
        begun = chunk.at_byte - chunk.skipped_bytes if begun is None else begun
        chunks.append(chunk)
        size += len(chunk.data)
        if not is_tail and size > most:
            break
        while is_tail and size - len(chunks[0].data) >= most:
            size -= len(chunks.pop(0).data)
    text = b"".join(chunk.data for chunk in chunks)
    piece = text[-most:] if is_tail else text[:most]
    end = chunks[-1].at_byte + len(chunks[-1].data) if chunks else _size(path)
    at_byte = end - len(text if not is_tail else piece)
    return {
        "output": data(piece.decode("utf-8", "replace")),
        "at_byte": at_byte,
        "next_byte": at_byte + len(piece),
        "skipped_bytes": max(0, at_byte - begun) if chunks and begun is not None else 0,
        "is_all": is_tail or len(piece) == len(text),
    }


def _size(path: str) -> int:
    reader = OutputReader(path)
    try:
        return reader.size
    finally:
        reader.close()


def _search(path: str, given: Json, first_kept: int) -> Json:
    """The lines with a plain text. No expression of a client's is run: one could take hours."""
    import re

    begin, most = given.get("since_byte") or 0, given.get("max_bytes", OUTPUT_BYTES)
    tail = given.get("tail")
    pattern = LinePattern(re.escape(given["search"]), ignore_case=bool(given.get("ignore_case")))
    search, at, is_all = LogSearch(pattern, begin), begin, True
    hits: list[FoundLine] = []
    shown: list[Json] = []
    size = skipped = 0
    for chunk in read_from(path, begin, first_kept=first_kept, most_bytes=BLOCK_BYTES):
        if chunk.skipped_bytes or chunk.was_truncated:
            skipped += chunk.skipped_bytes
            search.restart(chunk.at_byte)
        hits += search.feed(chunk.data)
        at = chunk.at_byte + len(chunk.data)
        if at - begin >= _MOST_SEARCHED_BYTES:
            is_all = False
            break
    else:
        hits += search.end()
    hits = hits if tail is None else hits[len(hits) - tail :] if tail else []
    for hit in hits:
        line = hit.data[:_MOST_LINE_BYTES]
        if shown and size + len(line) > most:
            at, is_all = hit.at_byte, False
            break
        size += len(line)
        shown.append({"at_byte": hit.at_byte, "line": data(line.decode("utf-8", "replace"))})
    text = "\n".join(one["line"]["text"] for one in shown)
    found = {"output": data(text), "at_byte": begin, "next_byte": at, "skipped_bytes": skipped}
    return {**found, "is_all": is_all, "hits": shown}
