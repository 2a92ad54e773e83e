"""The screen of `top` without a terminal: keys are pressed, and what is shown is read."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from holdfast.manage.runs import Runs
from holdfast.tui.acting import ActingScreen
from holdfast.tui.app import TopApp
from holdfast.tui.text_view import TextLine

SECONDS = 60


class TopPilot:
    """Presses keys, and awaits what they do."""

    def __init__(self, app: TopApp, press: Callable[..., object]) -> None:
        self.app = app
        self._press = press

    async def press(self, *keys: str) -> None:
        await self._press(*keys)  # type: ignore[misc]

    async def until(self, holds: Callable[[], object], why: str) -> None:
        """Until that holds; what is on the screen is told when it does not."""
        ends = time.monotonic() + SECONDS
        while not holds():
            if time.monotonic() > ends:
                raise AssertionError(f"not within {SECONDS} s: {why}\n{self.screen()}")
            await asyncio.sleep(0.02)

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.screen(), f"the screen shows {text!r}")

    async def says(self, text: str) -> None:
        """In the line of messages."""
        await self.until(lambda: text in self.app.message[0], f"it says {text!r}")

    async def tells(self, line: str, text: str) -> None:
        """In one of its own lines."""
        await self.until(lambda: text in self.line(line), f"its line {line} has {text!r}")

    async def knows(self, name: str) -> None:
        """The cursor is on that run, and all about it was read: its keys are greyed rightly."""
        board = self.app.board

        def is_known() -> bool:
            rows = [place for place, one in enumerate(board.ids) if board.rows[one].name == name]
            if not rows:
                return False
            if board.place != rows[0]:
                board.move_to(rows[0])
                self.acting._moved()  # type: ignore[attr-defined]
            info = self.acting.info
            return info is not None and info.name == name

        await self.until(is_known, f"the run {name} is known")

    async def dialog(self, kind: type) -> None:
        await self.until(lambda: isinstance(self.app.screen, kind), f"{kind.__name__} is shown")

    def names(self) -> list[str]:
        """Of the runs that are shown, in their order."""
        return [self.app.board.rows[one].name for one in self.app.board.ids]

    @property
    def acting(self) -> ActingScreen:
        """The screen on top, on which runs can be acted on."""
        assert isinstance(self.app.screen, ActingScreen)
        return self.app.screen

    def screen(self) -> str:
        """What is on it now, line by line."""
        strips = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join(strip.text.rstrip() for strip in strips)

    def line(self, name: str) -> str:
        """One of its own lines: state, message, keys."""
        return self.app.screen.query_one(f"#{name}", TextLine).text

    def greyed(self) -> set[str]:
        """The keys in the last line that can't be used now."""
        said = self.app.screen.query_one("#keys", TextLine).said
        return {text for text, look in said if look == "off" and not text.startswith(" ")}


def in_top(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """For a test that is a coroutine; its first argument is the library's runs."""

    @functools.wraps(test)
    def run(runs: Runs, *given: Any, **named: Any) -> None:
        asyncio.run(test(runs, *given, **named))

    return run


@contextlib.asynccontextmanager
async def top_of(
    runs: Runs, size: tuple[int, int] = (100, 30), *, window: str | None = "24h", wait: bool = True
) -> AsyncIterator[TopPilot]:
    """The screen of those runs; `wait`: once all of them were read."""
    app = TopApp(runs, window=window)
    async with app.run_test(size=size) as pilot:
        top = TopPilot(app, pilot.press)
        if wait:
            await top.until(lambda: app.is_whole, "all runs were read")
        yield top
