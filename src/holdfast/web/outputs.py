"""`GET runs/ID/output`: bytes, lines that contain a text, or a stream that follows."""

from __future__ import annotations

import re

from starlette.responses import Response

from holdfast.errors import InvalidOption, WrongUse
from holdfast.manage.reading.line_pattern import LinePattern
from holdfast.manage.reading.log_search import BLOCK_BYTES, LogSearch
from holdfast.run.output import OutputReader, read_from
from holdfast.web.elsewhere import elsewhere, not_from_here
from holdfast.web.following import follow
from holdfast.web.following_elsewhere import follow_elsewhere, read_elsewhere
from holdfast.web.pretty_lines import PrettyLines
from holdfast.web.request_fields import AskedQuery
from holdfast.web.responses import answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.reading.disk_threads import DiskThreads
    from holdfast.manage.run import Run
    from holdfast.web.reads import Reads
    from holdfast.web.settings import ServeSettings
    from holdfast.web.streams import OpenStreams

PARAMETERS = ("since_byte", "tail", "limit", "follow", "find", "stderr", "pretty")
MOST_BYTES = 8 << 20
_MOST_TAIL = 100_000
_TAIL_WINDOW = 4 << 20  # a tail reaches so far back at most, whatever the lines are
_MOST_HITS = 500
_MOST_LINE = 2000
_SEARCHED_BYTES = 1 << 30


class Outputs:
    """The output of runs."""

    def __init__(
        self, settings: ServeSettings, reads: Reads, streams: OpenStreams, apart: DiskThreads
    ) -> None:
        self._settings = settings
        self._reads = reads
        self._streams = streams
        self._apart = apart

    async def get(self, request: Request) -> Response:
        """What was asked of it."""
        asked = AskedQuery(request, *PARAMETERS)
        ref = request.path_params["ref"]
        apart = self._reads.elsewhere.apart_for(ref) or self._apart
        run = await apart.do(self._reads.run, ref)
        if run.is_elsewhere:
            return await self._get_elsewhere(elsewhere(run), asked)
        path = await self._apart.do(_path, run, asked.flag("stderr"))
        find, pretty = _text_to_find(asked), asked.flag("pretty")
        if find is not None:
            return answer(await self._apart.do(_found, run, path, find))
        at_byte = await self._apart.do(_begin, run, path, asked)
        if asked.flag("follow"):
            lines = await self._apart.do(_pretty, run) if pretty else None
            most = self._settings.most_followers
            return self._streams.answer(
                run.id, most, follow(self._apart, run, at_byte, path, lines)
            )
        limit = asked.number("limit", MOST_BYTES, MOST_BYTES, least=1)
        return await self._apart.do(_bytes, run, path, at_byte, limit, pretty)

    async def _get_elsewhere(self, run: RemoteRun, asked: AskedQuery) -> Response:
        """The same over the link to its node."""
        do = self._reads.elsewhere.apart.do
        if asked.flag("stderr"):
            raise not_from_here("the stderr", f"holdfast logs --stderr {run.id}")
        find = _text_to_find(asked)
        if find is not None:
            return answer(await do(self._reads.elsewhere.found_lines, run, find))
        since = asked.number("since_byte", 0) if asked.text("tail") is None else None
        tail = asked.number("tail", 0, _MOST_TAIL)
        agent = (await do(run.info)).agent if asked.flag("pretty") else None
        if asked.flag("pretty") and agent is None:
            raise WrongUse("it is not the run of an agent", hint="leave out pretty")
        lines = None if agent is None else PrettyLines(agent)
        if asked.flag("follow"):
            parts = follow_elsewhere(self._reads.elsewhere, run.id, since, tail, lines)
            return self._streams.answer(run.id, self._settings.most_followers, parts)
        limit = asked.number("limit", MOST_BYTES, MOST_BYTES, least=1)
        at_byte, data = await do(read_elsewhere, run, since, tail, limit)
        return _as_bytes(data, at_byte, at_byte + len(data), lines)


def _text_to_find(asked: AskedQuery) -> str | None:
    find = asked.text("find")
    if find is not None and (not find or len(find) > 200):
        raise InvalidOption("find: a text of at most 200 characters", option="find")
    return find


def _path(run: Run, stderr: bool) -> str:
    run._check_known()
    if not stderr:
        return run.directory.output_path
    if not run.directory.read_spec().wanted.split_stderr:
        raise WrongUse("it has its stderr and stdout in one log", hint="leave out stderr")
    return run.directory.stderr_path


def _pretty(run: Run) -> PrettyLines:
    agent = run.directory.read_spec().agent
    if agent is None:
        raise WrongUse("it is not the run of an agent", hint="leave out pretty")
    return PrettyLines(agent)


def _begin(run: Run, path: str, asked: AskedQuery) -> int:
    tail = asked.text("tail")
    if tail is None:
        return asked.number("since_byte", 0)
    if asked.text("since_byte") is not None:
        raise WrongUse("since_byte and tail both say where to begin", hint="use one of them")
    lines = asked.number("tail", 0, _MOST_TAIL)
    reader = OutputReader(path, first_kept=run.directory.first_kept_byte(path))
    try:
        end = reader.size
        reader.seek_tail(lines)
        return max(reader.at_byte, end - _TAIL_WINDOW)
    finally:
        reader.close()


def _bytes(run: Run, path: str, at_byte: int, limit: int, pretty: bool) -> Response:
    """As it is; the headers say from which byte on, and where to go on."""
    kept = run.directory.first_kept_byte(path)
    lines = _pretty(run) if pretty else None
    parts: list[bytes] = []
    first, place = None, at_byte
    for chunk in read_from(path, at_byte, first_kept=kept, most_bytes=min(limit, 1 << 16)):
        first = chunk.at_byte if first is None else first
        room = limit - sum(map(len, parts))
        parts.append(chunk.data[:room])
        place = chunk.at_byte + len(parts[-1])
        if room <= len(chunk.data):
            break
    return _as_bytes(b"".join(parts), at_byte if first is None else first, place, lines)


def _as_bytes(data: bytes, at_byte: int, place: int, lines: PrettyLines | None) -> Response:
    headers = {
        "holdfast-at-byte": str(at_byte),
        "holdfast-next-byte": str(place),
        "content-disposition": 'attachment; filename="output"',
    }
    if lines is not None:
        data = lines.feed(data).encode("utf-8", "replace")
    return Response(data, media_type="application/octet-stream", headers=headers)


def _found(run: Run, path: str, text: str) -> dict[str, Any]:
    """The last lines that contain a text, the letters' case aside. No pattern: it could take
    hours. Of a log over 1 GiB, the end is searched."""
    search, kept = LogSearch(_literal(text)), run.directory.first_kept_byte(path)
    reader = OutputReader(path, first_kept=kept)
    size = reader.size
    reader.close()
    begin = max(kept, size - _SEARCHED_BYTES)
    search.restart(begin)
    hits: list[dict[str, Any]] = []
    count = 0
    for chunk in read_from(path, begin, first_kept=kept, most_bytes=BLOCK_BYTES):
        for line in search.feed(chunk.data):
            count += 1
            shown = line.data[:_MOST_LINE].decode("utf-8", "replace")
            hits.append({"at_byte": line.at_byte, "text": shown})
        del hits[:-_MOST_HITS]
    for line in search.end():
        count += 1
        shown = line.data[:_MOST_LINE].decode("utf-8", "replace")
        hits.append({"at_byte": line.at_byte, "text": shown})
    return {"schema": 1, "id": run.id, "hits": hits, "count": count, "searched_from_byte": begin}


def _literal(text: str) -> LinePattern:
    return LinePattern(re.escape(text), ignore_case=True)
