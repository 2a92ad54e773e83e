"""The application: one live model, the screens that show it, and the deeds that are under way."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from textual.app import App, SuspendNotSupported

from holdfast.errors import HoldfastError
from holdfast.manage.reading.live_elsewhere import LiveElsewhere
from holdfast.manage.runs import Runs
from holdfast.manage.words.possible import Deed
from holdfast.tui.acting import ActingScreen
from holdfast.tui.background import Background, attempted, start
from holdfast.tui.board import Board
from holdfast.tui.deeds import DeedResult, carry_out
from holdfast.tui.dialogs import Confirm
from holdfast.tui.feed import Feed
from holdfast.tui.handing_over import attach
from holdfast.tui.list_screen import ListScreen
from holdfast.tui.page_screens import LogScreen, PageScreen
from holdfast.tui.trends import Trends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.live import LiveChanges
    from holdfast.manage.selection import Selection
    from holdfast.manage.words.views import Row
    from holdfast.tui.deeds import DeedRequest

_DRAW_SECONDS = 0.1  # changes that come together are drawn together
_LEAVING = (signal.SIGTERM, signal.SIGHUP)
_MESSAGE_SECONDS = 20.0


class Doing:
    """A deed that is under way."""

    def __init__(self, asked: DeedRequest, ends_grace: float | None) -> None:
        self.asked = asked
        self.ends_grace = ends_grace  # when SIGKILL is due, of a stop
        self.progress = ""

    def text(self, now: float) -> str:
        """`stop web: SIGKILL in 7s (K: now)`, `remove 200 runs: 57 of 200`."""
        said = f"{self.asked.deed}{self._what()}"
        if self.ends_grace is not None:
            left = self.ends_grace - now
            return (
                f"{said}: SIGKILL in {left:.0f}s (K: now)" if left > 0 else f"{said}: SIGKILL sent"
            )
        return f"{said}: {self.progress or 'under way'}"

    def _what(self) -> str:
        names = [name for _, name in self.asked.runs]
        if self.asked.deed is Deed.RECOVER:  # of every run, whichever the cursor is on
            return ""
        return f" {names[0]}" if len(names) == 1 else f" {len(names)} runs"


class TopApp(App[int]):
    """`holdfast top`."""

    CSS = """
    ActingScreen { background: ansi_default; color: ansi_default; }
    ModalScreen { background: transparent; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = []

    def __init__(
        self,
        library: Runs,
        *,
        selection: Selection | None = None,
        window: str | None = None,
        is_plain: bool = True,
    ) -> None:
        self._environment = dict(os.environ)  # Textual takes NO_COLOR out of it
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.library = library
        self.window = window
        self.board = Board()
        self.trends = Trends()
        self.is_whole = False
        self.unstarted = 0
        self.trouble = ""
        self.trouble_elsewhere = ""
        self.message = ("", "")
        self._said_at = 0.0
        self._doing: list[Doing] = []
        self._is_draw_due = False
        self._given = {"selection": selection, "window": window, "is_plain": is_plain}
        self.background: Background
        self.feed: Feed
        self.elsewhere: LiveElsewhere

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        self.background = Background(loop)
        self.feed = Feed(self.library.home, self.background, self._take, **self._given)  # type: ignore[arg-type]
        if not self.is_headless:
            for number in _LEAVING:
                loop.add_signal_handler(number, self.exit, 128 + number)
        self.elsewhere = LiveElsewhere(self.library, self._hear_elsewhere, **self._given)  # type: ignore[arg-type]
        self.push_screen(ListScreen(self.board, self.trends))
        self.feed.begin()
        self.elsewhere.begin()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        self.feed.end()
        self.elsewhere.end()

    # What the live model tells

    def _take(self, told: LiveChanges) -> None:
        changed = told.is_whole != self.is_whole or told.unstarted != self.unstarted
        self.is_whole, self.unstarted = told.is_whole, told.unstarted
        trouble = "" if told.trouble is None else told.trouble.message
        changed = changed or trouble != self.trouble
        self.trouble = trouble
        self._take_rows(told, is_draw_due=changed)

    def _hear_elsewhere(self, told: LiveChanges) -> None:
        """In a thread of the fleet's."""
        self.background.hand_over(self._take_elsewhere, told)

    def _take_elsewhere(self, told: LiveChanges) -> None:
        """Rows of runs elsewhere; or why they may be old."""
        is_about_rows = bool(told.rows or told.gone)
        if not is_about_rows:
            self.trouble_elsewhere = "" if told.trouble is None else told.trouble.message
        self._take_rows(told, is_draw_due=not is_about_rows)

    def _take_rows(self, told: LiveChanges, *, is_draw_due: bool) -> None:
        self.board.take(told.rows, told.gone)
        self.trends.note(told.rows)
        self.trends.forget(told.gone)
        for screen in self.screen_stack:
            if isinstance(screen, ActingScreen) and not isinstance(screen, ListScreen):
                screen.take(told)
        if (is_draw_due or told.rows or told.gone) and not self._is_draw_due:
            self._is_draw_due = True
            self.set_timer(_DRAW_SECONDS, self._draw)

    def _draw(self) -> None:
        self._is_draw_due = False
        for screen in self.screen_stack:  # none is left when it is being closed
            if isinstance(screen, ListScreen):
                screen.follow()
                screen.read_info()

    def _tick(self) -> None:
        """Ages, countdowns, and whether the disk still answers."""
        silent = self.feed.silent_seconds
        if silent is not None:
            self.trouble = (
                f"the disk of {self.library.home.path} has not answered for {silent:.0f}s"
            )
        if isinstance(self.screen, ListScreen):
            self.screen.follow()
        if self._doing:
            self._show_doing()
        elif self.message[0] and time.monotonic() - self._said_at > _MESSAGE_SECONDS:
            self.say("")

    # Messages

    def say(self, text: str, look: str = "") -> None:
        """In the line above the keys, whatever screen is shown."""
        self.message, self._said_at = (text, look), time.monotonic()
        for screen in self.screen_stack:
            if isinstance(screen, ActingScreen):
                screen.show_message(text, look)

    # Deeds

    def begin(self, asked: DeedRequest) -> None:
        """In a thread of its own; the screen goes on."""
        doing = Doing(asked, self._grace_of(asked))
        self._doing.append(doing)
        self._show_doing()

        def work() -> None:
            result = attempted(lambda: carry_out(self.library, asked, tell))
            self.background.hand_over(self._done, doing, result)

        def tell(progress: str) -> None:
            doing.progress = progress

        start(work)

    def _grace_of(self, asked: DeedRequest) -> float | None:
        if asked.deed is not Deed.STOP:
            return None
        info = (
            self.screen_stack[-1].info if isinstance(self.screen_stack[-1], ActingScreen) else None
        )
        wanted = (info.wanted if info is not None else None) or {}
        return time.monotonic() + float(wanted.get("grace_seconds") or 10.0)

    def _show_doing(self) -> None:
        now = time.monotonic()
        self.say("   ".join(one.text(now) for one in self._doing[-3:]), "label")

    def _done(self, doing: Doing, result: Any) -> None:
        self._doing.remove(doing)
        if isinstance(result, HoldfastError):
            result = DeedResult(result.message, True, result.hint or "")
        for run_id, _ in doing.asked.runs:
            self.look_again(run_id)
            self.board.marked.discard(run_id)
        if doing.asked.deed is Deed.TOKEN and not result.is_refused:
            self.copy_to_clipboard(result.text)
            result = DeedResult(f"copied: {result.text}")
        hint = f"  hint: {result.hint}" if result.hint else ""
        self.say(f"{result.text}{hint}", "bad" if result.is_refused else "good")
        if isinstance(self.screen, ActingScreen):
            self.screen.read_info()

    # Pages

    def open_page(self, kind: str, row: Row) -> None:
        """A page takes the place of another one of the same run."""
        page = LogScreen(row) if kind == "logs" else PageScreen(row, kind)
        if isinstance(self.screen, PageScreen):
            self.switch_screen(page)
        else:
            self.push_screen(page)

    def attach(self, row: Row) -> None:
        """Give the terminal to `holdfast attach`, and take it back."""
        try:
            with self.suspend():
                code = attach(row.id, self.library.home.path, self._environment)
        except SuspendNotSupported:
            self.say("this terminal can't be handed over: holdfast attach, in another one", "bad")
            return
        except OSError as error:  # no more processes or descriptors: it was not begun
            self.say(f"attach: {error.strerror or error}", "bad")
            return
        self.say(f"back from {row.name}" if not code else f"attach: exit code {code}")
        self.look_again(row.id)

    def look_again(self, run_id: str) -> None:
        """Something was done to it."""
        self.feed.look_again(run_id)
        self.elsewhere.look_again(run_id)

    def leave(self) -> None:
        """At once, unless something is under way that would be cut short."""
        if not self._doing:
            self.exit(0)
            return
        under_way = "; ".join(one.text(time.monotonic()) for one in self._doing)

        def then(is_sure: bool | None) -> None:
            if is_sure:
                self.exit(0)

        self.push_screen(Confirm(f"Still under way: {under_way}.\nLeave, and cut it short?"), then)
