"""What the API shows: each answer is the contract's JSON, from `manage`. Runs in threads."""

from __future__ import annotations

from heapq import merge
from itertools import islice

from holdfast import __version__
from holdfast.errors import InvalidOption, WrongUse
from holdfast.manage.listing import select_runs
from holdfast.manage.metrics.exposition import exposition
from holdfast.manage.metrics.figures import MetricsCollector
from holdfast.manage.operations import run_steps
from holdfast.manage.plaintext import KEPT_SPACE, LINE_BREAK, printable_lines
from holdfast.manage.processes import look_at_processes
from holdfast.manage.reading.events import EventStream
from holdfast.manage.reading.kept_runs import KeptRuns
from holdfast.manage.reading.run_status import read_status
from holdfast.manage.reading.run_tree import inner_runs, tree_document
from holdfast.manage.runs import Runs
from holdfast.manage.selection import Selection
from holdfast.manage.state import read_facts
from holdfast.manage.words.status_page import lines_of
from holdfast.manage.words.tree_lines import lines_of_tree
from holdfast.manage.words.views import next_steps, row_of
from holdfast.run.names import is_id
from holdfast.web.elsewhere import ServedElsewhere, elsewhere, not_from_here
from holdfast.web.feed import row_json
from holdfast.web.refusals import refusals
from holdfast.web.responses import json_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.run import Run
    from holdfast.manage.words.status_page import StatusFacts
    from holdfast.web.request_fields import AskedQuery
    from holdfast.web.settings import ServeSettings

    Json = dict[str, Any]

SELECTORS = (
    *("state", "outcome", "agent", "name", "tag", "since", "active"),
    *("limit", "cursor", "fleet"),
)
MOST_PAGE = 1000
_MOST_EVENTS = 10_000


class Reads:
    """One home, looked at."""

    def __init__(self, settings: ServeSettings) -> None:
        self.runs = Runs(settings.home)
        self._settings = settings
        self._metrics = MetricsCollector(self.runs.home)
        self._kept = KeptRuns()
        self.elsewhere = ServedElsewhere(self.runs)

    def run(self, ref: str) -> Run:
        """By name, id or the beginning of an id; here, or on another machine."""
        return self.runs.get(ref)

    def health(self) -> Json:
        is_there = self.runs.home.check()
        return {
            "schema": 1,
            "version": __version__,
            "home": self._settings.home,
            "home_exists": is_there,
            "read_only": self._settings.is_read_only,
            "may_start": self._settings.may_start and not self._settings.is_read_only,
        }

    def page_of_runs(self, asked: AskedQuery) -> bytes:
        """Newest first, as it is sent; `next` is the cursor of the following page."""
        active = asked.text("active")
        if active not in (None, "0", "1", "true", "false"):
            raise InvalidOption("active: 1 or 0", option="active")
        selection = Selection.of(
            active=None if active is None else active in ("1", "true"),
            state=asked.texts("state"),
            outcome=asked.texts("outcome"),
            agent=asked.texts("agent"),
            name=asked.texts("name"),
            tags=asked.tags(),
            since=asked.since(),
        )
        limit, cursor = asked.number("limit", 100, MOST_PAGE, least=1), asked.text("cursor")
        if cursor is not None and not is_id(cursor):
            raise InvalidOption("cursor: not one of `next`", option="cursor")
        fleet = asked.text("fleet")
        if fleet not in (None, "0", "1", "true", "false"):
            raise InvalidOption("fleet: 1 or 0", option="fleet")
        if not self.runs.home.check() and not self.elsewhere.is_any:
            return _page([], None)
        ids = selection.candidates(self.runs.home)
        if cursor is not None:
            ids = {one for one in ids if one < cursor}
        every = select_runs(self.runs.home, selection, ids=ids, kept=self._kept)
        if self.elsewhere.is_any and fleet not in ("0", "false"):
            placed = self.elsewhere.infos(selection, cursor)
            every = merge(every, placed, key=lambda info: info.id, reverse=True)
        found = list(islice(every, limit + 1))
        texts = [self._kept.text_of(info, _document) for info in found[:limit]]
        return _page(texts, found[limit - 1].id if len(found) > limit else None)

    def one_run(self, ref: str) -> Json:
        """The contract's document, with the words that `status` has for people."""
        run = self.run(ref)
        if run.is_elsewhere:
            return self.elsewhere.one_run(elsewhere(run))
        known = read_status(run.directory)
        return {**known.info.to_json(), "shown": _words(known)}

    def tree(self, ref: str) -> Json:
        run = self.run(ref)
        if run.is_elsewhere:
            return self.elsewhere.tree(elsewhere(run))
        directory = run.directory
        found = look_at_processes(directory, read_facts(directory))
        return tree_document(directory, found, inner_runs(directory))

    def samples(self, ref: str) -> Json:
        """The charts of the report, without the rest."""
        whole = self.report(ref)
        kept = ("origin_at", "seconds", "interval_seconds", "samples", "charts", "unmeasured")
        return {
            "schema": 1,
            "id": whole["run"]["id"],
            **{name: whole[name] for name in kept},
            "marks": whole["marks"],
            "anomalies": whole["anomalies"],
        }

    def report(self, ref: str) -> Json:
        return self.run(ref).report().to_json()

    def events(self, ref: str, asked: AskedQuery) -> Json:
        """The facts of one run, with a cursor to go on from."""
        run, since = self.run(ref), asked.text("since")
        most = asked.number("limit", _MOST_EVENTS, _MOST_EVENTS, least=1)
        if run.is_elsewhere:
            return self.elsewhere.events(elsewhere(run), since, most)
        events: list[Json] = []
        with EventStream(run.directory.home, since=since, follow=False, run=run.id) as stream:
            while len(events) < most:
                event = run_steps(stream.next_event())
                if event is None:
                    break
                events.append(event.to_json())
            damage = stream.damage.get(run.id)
        cursor = events[-1]["cursor"] if events else since
        return {"schema": 1, "id": run.id, "events": events, "cursor": cursor, "damage": damage}

    def signals(self, ref: str) -> Json:
        run = self.run(ref)
        if run.is_elsewhere:
            raise not_from_here("the list of signals", "serve there")
        return {"schema": 1, "id": run.id, "signals": run.directory.read_signals()}

    def queues(self) -> Json:
        return {"schema": 1, "queues": [queue.to_json() for queue in self.runs.queues()]}

    def usage(self, asked: AskedQuery) -> Json:
        by = asked.text("by")
        if by == "":
            raise WrongUse("by: agent, tag or day")
        return self.runs.usage(since=asked.since(), by=by).to_json()

    def metrics(self) -> str:
        return exposition(self._metrics.families())


def _page(runs: list[bytes], following: str | None) -> bytes:
    after = json_bytes(following)
    return b'{"schema":1,"runs":[' + b",".join(runs) + b'],"next":' + after + b"}"


def _document(info: RunInfo) -> bytes:
    return json_bytes(info.to_json())


def _words(known: StatusFacts) -> Json:
    return {
        "row": row_json(row_of(known.info)),
        "headline": _plain(known.headline()),
        "lines": [[label, _plain(text)] for label, text in lines_of(known)],
        "tree": [[one.head, one.verdict, one.tail] for one in lines_of_tree(known.processes)],
        "next": next_steps(known.info),
        "refusals": refusals(known.info),
    }


def _plain(text: str) -> str:
    return printable_lines(text.replace(KEPT_SPACE, " ").replace(LINE_BREAK, "\n"))
