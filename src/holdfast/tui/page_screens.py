"""Pages about one run: detail, tree, charts, events; and its log."""

from __future__ import annotations

from textual.binding import Binding
from textual.widgets import Input

from holdfast.errors import HoldfastError
from holdfast.manage.plaintext import printable
from holdfast.run.directory import RunDirectory
from holdfast.tui.acting import ActingScreen
from holdfast.tui.log_lines import MOST_LINES, RunLog
from holdfast.tui.pages import PAGES
from holdfast.tui.remote_pages import RemoteLog, RemotePages
from holdfast.tui.text_view import TextLine, TextView
from holdfast.tui.verbs import VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from textual import events
    from textual.app import ComposeResult

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.words.views import Row
    from holdfast.tui.table import Spans

_AGAIN_SECONDS = 2.0  # what processes do changes no file
_AGAIN_ELSEWHERE_SECONDS = 5.0
_ACTS = ("approve", "deny", "stop", "attach", "send", "pause")


class PageScreen(ActingScreen):
    """One page of one run, read again while it is shown."""

    DEFAULT_CSS = "PageScreen Input { height: 1; border: none; padding: 0 1; }"
    BINDINGS = [
        Binding("escape,q", "back", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space,ctrl+f", "scroll_page(1)", show=False),
        Binding("pageup,ctrl+b", "scroll_page(-1)", show=False),
        Binding("home,g", "to_begin", show=False),
        Binding("end,G", "to_end", show=False),
        Binding("slash", "search", show=False),
        Binding("n", "search_or_deny", show=False),
        Binding("N", "search_on(True)", show=False),
    ]

    def __init__(self, row: Row, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.view = TextView()
        self.row = row
        self.directory: RunDirectory | None = None
        self.remote: RemotePages | None = None  # of a run elsewhere
        self._is_gone = False
        self._searched = ""

    def compose(self) -> ComposeResult:
        yield TextLine(id="state")
        yield self.view
        yield TextLine(id="unfinished")
        field = Input(placeholder="search for", compact=True, id="search")
        field.display = False
        yield field
        yield TextLine(id="message")
        yield TextLine(id="keys")

    def on_mount(self) -> None:
        self.directory = RunDirectory(self.top.library.home, self.row.id)
        if self.row.node:
            self.remote = RemotePages(self.top.library, self.row.id)
        self.show_head()
        self.call_after_refresh(self.read)
        again = _AGAIN_SECONDS if self.remote is None else _AGAIN_ELSEWHERE_SECONDS
        self.set_interval(again, self.read)

    def on_unmount(self) -> None:
        if self.remote is not None:
            self.remote.close()

    def on_resize(self, event: events.Resize) -> None:
        del event
        self.call_after_refresh(self.read)
        self.call_after_refresh(self.show_keys)

    def targets(self) -> list[Row]:
        return [] if self._is_gone else [self.row]

    def take(self, told: LiveChanges) -> None:
        changed = next((row for row in told.rows if row.id == self.row.id), None)
        if changed is not None:
            self.row = changed
            self.show_head()
            self.read()
            self.read_info()
        if self.row.id in told.gone and not self._is_gone:
            self._is_gone = True
            self.show_head()
            self.top.say(f"{self.row.name} is not in the list any more")

    def read(self) -> None:
        """Have the page made again, elsewhere."""
        if self.app.screen is not self or self.directory is None or self._is_gone:
            return
        directory, room, make = self.directory, self.size.width, PAGES[self.kind]
        remote, kind = self.remote, self.kind
        work = (
            (lambda: make(directory, room)) if remote is None else (lambda: remote.make(kind, room))
        )
        self.top.background.do(f"page {id(self)}", work, self._show)

    def _show(self, made: Any) -> None:
        if isinstance(made, HoldfastError):
            made = [((printable(made.message), "bad"),), ((printable(made.hint or ""), ""),)]
        self.view.show(made)

    def show_head(self) -> None:
        """Which run, which page, and how it stands."""
        row = self.row
        word = row.outcome.value if row.outcome and not row.state.is_active else row.state.value
        said = "gone" if self._is_gone else word
        note = f"  {row.note}" if row.note and not self._is_gone else ""
        where = f"on {row.node} " if row.node else ""
        head = (f"{self.kind} ", "label"), (f"{row.name} ", "head"), (printable(where), "label")
        self.write("state", *head, (printable(f"{said}{note}"), ""), *self.more_head())

    def more_head(self) -> tuple[tuple[str, str], ...]:
        """What else the first line says."""
        return ()

    def keys(self) -> Iterator[tuple[str, str, str]]:
        yield "esc", "back", ""
        for name in ("detail", "logs", "tree", "charts", "events"):
            if name != self.kind:
                yield VERBS[name].key, VERBS[name].label, ""
        for name in _ACTS:
            refusal = self.refusal(VERBS[name])
            if not refusal:
                yield VERBS[name].key, VERBS[name].label, refusal
        yield "/", "search", ""

    # Keys

    def action_back(self) -> None:
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        self.view.scroll_by_lines(by)
        self._scrolled(self.view)

    def action_scroll_page(self, by: int) -> None:
        self.action_scroll(by * max(1, self.view.size.height - 1))

    def action_to_begin(self) -> None:
        self.action_scroll(-self.view.virtual_size.height)

    def action_to_end(self) -> None:
        self.action_scroll(self.view.virtual_size.height)

    def _scrolled(self, view: TextView) -> None:
        """For pages that follow their end."""

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.value = ""
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.set_focus(None)
        event.input.display = False
        self._searched = event.value
        if not self.view.search(event.value):
            self.top.say(f"{event.value}: {self.nothing_found()}", "warn")
        self.show_head()
        self.show_keys()

    def nothing_found(self) -> str:
        """In which lines it was looked for."""
        return "not on this page"

    def action_search_or_deny(self) -> None:
        """`n` goes on with a search; without one it denies, as in the list."""
        if self._searched:
            self.action_search_on()
        else:
            self.action_verb("deny")

    def action_search_on(self, backward: bool = False) -> None:
        if not self.view.search_on(backward=backward):
            self.top.say("nothing is searched for: / does", "warn")
        self.show_head()


class LogScreen(PageScreen):
    """The end of a run's output, followed as it comes."""

    BINDINGS = [
        Binding("f", "follow", show=False),
        Binding("p", "pretty", show=False),
    ]

    def __init__(self, row: Row) -> None:
        super().__init__(row, "logs")
        self._log: RunLog | RemoteLog | None = None
        self._wants_pretty = row.agent is not None
        self._is_pretty = False

    def on_mount(self) -> None:
        super().on_mount()
        self.view.follows = True
        self.top.feed.open_output(self.row.id)

    def on_unmount(self) -> None:
        self.top.feed.close_output(self.row.id)
        super().on_unmount()
        if self._log is not None:
            self._log.close()

    def take(self, told: LiveChanges) -> None:
        super().take(told)
        if self.row.id in told.grown:
            self.read()

    def read(self) -> None:
        if self.directory is None:
            return
        self.top.background.do(f"page {id(self)}", self._read_on, self._show)

    def _read_on(self) -> tuple[RunLog | RemoteLog, list[Spans], Spans]:
        """In a thread of its own, one at a time."""
        log = self._log
        if log is None:
            log = self._open_log()
        return log, log.read(), log.unfinished()

    def _open_log(self) -> RunLog | RemoteLog:
        assert self.directory is not None
        if self.remote is None:
            return RunLog(self.directory, is_pretty=self._wants_pretty)
        agent = self.row.agent if self._wants_pretty else None
        home, background = self.top.library.home.path, self.top.background
        return RemoteLog(home, self.row.id, agent, lambda: background.hand_over(self.read))

    def _show(self, made: Any) -> None:
        if isinstance(made, HoldfastError):
            super()._show(made)
            return
        log, lines, unfinished = made
        if self._log is None:
            self._log, self._is_pretty = log, log.is_pretty
            self.view.show(lines)
        elif lines:
            self.view.add(lines, MOST_LINES)
        self.write("unfinished", *unfinished)
        self.show_head()
        if log.has_more:
            self.read()

    def more_head(self) -> tuple[tuple[str, str], ...]:
        following = "  following" if self.view.follows else "  f follows"
        return ((following + ("  pretty" if self._is_pretty else ""), "label"),)

    def keys(self) -> Iterator[tuple[str, str, str]]:
        yield "esc", "back", ""
        yield "f", "follow", ""
        yield "/", "search", ""
        yield "n N", "next", "" if self._searched else "no search"
        yield "p", "pretty", "" if self.row.agent is not None else "no agent"
        yield from list(super().keys())[1:]

    def nothing_found(self) -> str:
        return f"not in the last {MOST_LINES} lines: holdfast logs --grep searches all"

    def _scrolled(self, view: TextView) -> None:
        view.follows = view.scroll_offset.y >= view.max_scroll_y
        self.show_head()

    def action_follow(self) -> None:
        view = self.view
        view.follows = not view.follows
        if view.follows:
            self.action_to_end()
        self.show_head()

    def action_pretty(self) -> None:
        if self.row.agent is None:
            self.top.say(f"{self.row.name} is not the run of an agent", "warn")
            return
        self._wants_pretty = not self._wants_pretty
        old, self._log = self._log, None
        if old is not None:
            old.close()
        self.read()
