"""The pages of a run elsewhere, asked of its node away from the screen's thread."""

from __future__ import annotations

import threading

from holdfast.manage.operations import run_steps
from holdfast.manage.plaintext import printable
from holdfast.manage.reading.shown_lines import ShownLines
from holdfast.manage.runs import Runs
from holdfast.tui.log_lines import MOST_LINES, pretty_printer, shown_line
from holdfast.tui.pages import FIRST, event_lines, heading, labelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.fleet.live.following import OutputFollower
    from holdfast.fleet.remote import RemoteRun
    from holdfast.tui.table import Spans


# Of every event; the rest are its facts.
_COMMON = ("at", "kind", "cursor", "run", "name", "seq", "boottime", "schema")


class RemotePages:
    """Of one run; used by one thread at a time."""

    def __init__(self, library: Runs, run_id: str) -> None:
        self._library = library
        self._id = run_id
        self._run: RemoteRun | None = None
        self._lock = threading.Lock()

    def make(self, kind: str, room: int) -> list[Spans]:
        """The lines of a page."""
        with self._lock:
            if self._run is None:
                from holdfast.fleet.library import placed_run

                self._run = placed_run(self._library, self._id)
            return _PAGES[kind](self._run, room)

    def close(self) -> None:
        """Nothing stays open; nobody waits for a node that does not answer."""
        if self._lock.acquire(blocking=False):
            try:
                if self._run is not None:
                    self._run._fleet.close()
            finally:
                self._lock.release()


def _detail(run: RemoteRun, room: int) -> list[Spans]:
    from holdfast.fleet.remote_page import NODE, page_steps

    page = run_steps(page_steps(run))
    said = dict(page.lines)
    lines: list[Spans] = [((printable(page.headline), "bold"),)]
    for label in (*FIRST, NODE):
        lines += labelled(label, said.pop(label, ""), room)
    if page.is_reached:
        lines += [(), *heading("tree"), *_text("\n".join(page.tree))]
    lines += [(), *heading("use" if page.is_reached else "known here")]
    for label, text in said.items():
        lines += labelled(label, text, room)
    if page.is_reached:
        tail = page.output.removesuffix(b"\n").split(b"\n") if page.output else []
        lines += [(), *heading("output"), *map(shown_line, tail)]
    return lines


def _tree(run: RemoteRun, room: int) -> list[Spans]:
    return _printed(run, room, "tree", run.id)


def _charts(run: RemoteRun, room: int) -> list[Spans]:
    return _printed(run, room, "report", run.id, "--plot")


def _events(run: RemoteRun, room: int) -> list[Spans]:
    del room
    from holdfast.fleet.remote_page import documents_steps

    found = run_steps(documents_steps(run, "events", run.id))
    return event_lines(
        (
            str(one.get("at")),
            printable(str(one.get("kind"))),
            {name: value for name, value in one.items() if name not in _COMMON},
            "",
        )
        for one in found
    )


def _printed(run: RemoteRun, room: int, *words: str) -> list[Spans]:
    from holdfast.fleet.remote_page import text_steps

    output = run_steps(text_steps(run, *words, columns=room - 1))
    return _text(output.decode("utf-8", "surrogateescape").rstrip("\n"))


def _text(text: str) -> list[Spans]:
    return [shown_line(line.encode("utf-8", "surrogateescape")) for line in text.split("\n")]


_PAGES: dict[str, Callable[[RemoteRun, int], list[Spans]]] = {
    "detail": _detail,
    "tree": _tree,
    "charts": _charts,
    "events": _events,
}


class RemoteLog:
    """The end of its output, followed over the link; a cut is told, and mended."""

    has_more = False  # `tell` is called for what comes

    def __init__(self, home: str, run_id: str, agent: str | None, tell: Callable[[], None]) -> None:
        """`agent`: whose stream is to be made readable."""
        from holdfast.fleet.library import placed_run
        from holdfast.fleet.live.following import OutputFollower

        self._notices: list[str] = []
        self._tell = tell
        self._pretty = None if agent is None else pretty_printer(agent)
        self.is_pretty = self._pretty is not None
        self._lines = ShownLines()
        self._place: int | None = None
        run = placed_run(Runs(home, notice=self._note), run_id)
        self._follower: OutputFollower = OutputFollower(run, tell, tail=MOST_LINES)

    def _note(self, text: str) -> None:
        self._notices.append(text)
        self._tell()

    def read(self) -> list[Spans]:
        """The lines that came since the last time."""
        found: list[Spans] = []
        for chunk in self._follower.take():
            if chunk.at_byte != self._place:
                self._lines.restart(chunk.at_byte)
                if self._place is not None:
                    found.append((("(output is missing here: it was cut)", "warn"),))
            self._place = chunk.at_byte + len(chunk.data)
            for line in self._lines.feed(chunk.data):
                found += self._shown(line.text)
        while self._notices:
            found.append(((printable(f"({self._notices.pop(0)})"), "warn"),))
        if self._follower.error is not None:
            raise self._follower.error
        return found

    def unfinished(self) -> Spans:
        """The last line as it is now, if it has no end yet."""
        rest = self._lines.rest()
        return shown_line(rest[-1].text) if rest else ()

    def close(self) -> None:
        """Nothing stays open."""
        self._follower.close()

    def _shown(self, line: bytes) -> list[Spans]:
        if self._pretty is None:
            return [shown_line(line)]
        shown = self._pretty.line(line + b"\n")
        parts = shown.removesuffix(b"\n").split(b"\n") if shown else []
        return [shown_line(part) for part in parts]
