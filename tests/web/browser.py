"""A real chromium, by Playwright: one for all tests of a file, a fresh context for each page."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python  # type: ignore[import-untyped]
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.features import missing, needs
from tests.support.serving import Served

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser | None]:
    """Started before any test's own world: it is no leftover of one."""
    if missing("chromium") is not None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"],
        )
        yield browser
        browser.close()


class Tab:
    """A page that is open, and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        if "Security Policy" in message.text or "TrustedHTML" in message.text:
            self.faults.append(message.text)

    def until(self, condition: str, *values: Any) -> None:
        """Until a JavaScript expression of `value` holds."""
        self.page.wait_for_function(f"(value) => {condition}", arg=values[0] if values else None)

    def until_text(self, where: str, text: str) -> None:
        self.until(
            "document.querySelector(value[0])?.textContent.includes(value[1])", [where, text]
        )

    def violations(self) -> list[str]:
        """What axe-core calls serious or critical."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("() => axe.run()")["violations"]
        return [
            f"{one['id']}: {[node['html'] for node in one['nodes']]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@contextlib.contextmanager
def opened(
    chromium: Browser | None, served: Served, where: str = "/", **options: Any
) -> Iterator[Tab]:
    """The page of a server in a context of its own; no fault may have come up in it."""
    needs("chromium")
    assert chromium is not None
    with contextlib.closing(chromium.new_context(**options)) as context:
        tab = Tab(context.new_page())
        tab.page.goto(served.page)
        tab.page.wait_for_selector("#summary, #title")
        if where != "/":
            tab.page.evaluate("(where) => { location.hash = where; }", f"#{where}")
            tab.page.wait_for_selector("#title")
        yield tab
        assert tab.faults == []
