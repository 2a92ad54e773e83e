"""Runs on other machines, for the API: shown as they were seen last, asked when one is opened.

What waits for a node has threads of its own, bounded in number: a node that does not answer holds
those, never the server's loop, nor a page about a run of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

from holdfast.errors import HoldfastError, Unavailable
from holdfast.manage.operations import run_steps
from holdfast.manage.overview import WINDOW
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.reading.disk_threads import DiskThreads
from holdfast.manage.reading.live_elsewhere import LiveElsewhere
from holdfast.manage.words.views import next_steps, row_of
from holdfast.run.directory import RunDirectory
from holdfast.run.names import is_id
from holdfast.web.feed import row_json
from holdfast.web.refusals import refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import Any

    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import Placement
    from holdfast.fleet.remote import RemoteRun
    from holdfast.fleet.remote_page import RemotePage
    from holdfast.manage.info import RunInfo
    from holdfast.manage.live import LiveChanges
    from holdfast.manage.run import Run
    from holdfast.manage.runs import Runs
    from holdfast.manage.selection import Selection

    Json = dict[str, Any]

_PATIENCE_SECONDS = 120.0  # with a node that does not answer
_MOST_HITS = 500
_MOST_LINE = 2000


class ServedElsewhere:
    """The runs that this home has placed on other machines."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._live: LiveElsewhere | None = None
        self.apart = DiskThreads(_PATIENCE_SECONDS)

    @contextlib.asynccontextmanager
    async def running(self, take: Callable[[LiveChanges], None]) -> AsyncIterator[None]:
        """Watched while this is open; `take` is called by the event loop."""
        loop = asyncio.get_running_loop()

        def tell(changes: LiveChanges) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(take, changes)

        self._live = LiveElsewhere(self._runs, tell, window=WINDOW)
        self._live.begin()
        try:
            yield
        finally:
            self._live.end()

    @property
    def is_any(self) -> bool:
        """Whether runs were placed elsewhere."""
        return self._live is not None and self._live.is_any

    @property
    def home(self) -> str:
        """From which they were placed."""
        return self._runs.home.path

    def apart_for(self, ref: str) -> DiskThreads | None:
        """The threads that may wait for a node, if the run may be elsewhere; nothing is read."""
        is_placed = self._live is not None and self._live.sight(ref) is not None
        return self.apart if self.is_any and (is_placed or not is_id(ref)) else None

    def look_again(self, run_id: str) -> None:
        """Something was done to it."""
        if self._live is not None:
            self._live.look_again(run_id)

    # What is shown

    def infos(self, selection: Selection, before: str | None) -> Iterator[RunInfo]:
        """Those that fit, the newest first; no node is asked. NoAnswer: the ledger is silent."""
        from holdfast.fleet.library import Fleet
        from holdfast.fleet.placement import Placement
        from holdfast.fleet.remote_info import unreadable_info

        with Fleet(self._runs) as fleet:
            for one in fleet.ledger.every():
                is_here = RunDirectory(self._runs.home, one.id).exists()
                if is_here or (before is not None and one.id >= before):
                    continue
                if isinstance(one, Placement):
                    info = self._info(fleet, one)
                else:
                    info = unreadable_info(one.id, one.fault)
                if selection.fits(info):
                    yield info

    def _info(self, fleet: Fleet, placement: Placement) -> RunInfo:
        from holdfast.fleet.listing import look_from_here

        sight = None if self._live is None else self._live.sight(placement.id)
        return look_from_here(fleet, placement).info if sight is None else sight.info

    def one_run(self, run: RemoteRun) -> Json:
        """As of a run here; where its node is silent, at once what is known of it."""
        from holdfast.fleet.remote_page import page_steps, unreached_page

        sight = None if self._live is None else self._live.sight(run.id)
        if sight is not None and not sight.is_reached:
            page = unreached_page(sight.info, run.placement)
        else:
            page = run_steps(page_steps(run))
        return {**page.info.to_json(), "shown": _words(page, run.placement.where)}

    def events(self, run: RemoteRun, since: str | None, most: int) -> Json:
        """The facts of one run, as its node has them."""
        from holdfast.fleet.remote_page import documents_steps

        more = [] if since is None else ["--since", since]
        found = run_steps(documents_steps(run, "events", run.id, *more))[:most]
        cursor = found[-1].get("cursor") if found else since
        return {"schema": 1, "id": run.id, "events": found, "cursor": cursor, "damage": None}

    def tree(self, run: RemoteRun) -> Json:
        """As its node has it."""
        from holdfast.fleet.reaching import ask_json

        found: Json = run_steps(ask_json(run._fleet, run.placement, ["tree", run.id])).document
        return found

    def found_lines(self, run: RemoteRun, text: str) -> Json:
        """The last lines that contain a text, the letters' case aside."""
        from holdfast.fleet.remote_page import documents_steps

        words = ("--json", "logs", "-i", "--grep", re.escape(text), "--tail", str(_MOST_HITS))
        try:
            found = run_steps(documents_steps(run, *words, run.id))
        except HoldfastError as error:
            if error.exit_code != 1:  # no line has it
                raise
            found = []
        hits = [
            {"at_byte": one["at_byte"], "text": str(one["text"])[:_MOST_LINE]}
            for one in found
            if isinstance(one.get("at_byte"), int) and "text" in one
        ]
        return {
            "schema": 1,
            "id": run.id,
            "hits": hits,
            "count": len(hits),
            "searched_from_byte": 0,
        }


def elsewhere(run: Run) -> RemoteRun:
    """That run, which is on another machine."""
    assert run.is_elsewhere
    return run  # type: ignore[return-value]


def not_from_here(what: str, command: str) -> Unavailable:
    """The error for what is not done over the link, with the command that does it."""
    return Unavailable(f"{what} of a run on another machine is not shown here", hint=command)


def _words(page: RemotePage, where: str) -> Json:
    return {
        "row": row_json(row_of(page.info).replace(node=where)),
        "headline": printable_lines(page.headline),
        "lines": [[label, printable_lines(text)] for label, text in page.lines],
        "tree": [[printable_lines(line), "", ""] for line in page.tree],
        "next": next_steps(page.info) if page.is_reached else [],
        "refusals": refusals(page.info, where),
    }
