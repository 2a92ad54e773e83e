"""A real browser for tests, driven over its debugging pipe: no driver and no network needed."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PROGRAM = "chromium"
ANSWER_SECONDS = 60.0


class Page:
    """One page. `requests` and `complaints` gather what it asked for and what went wrong."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer = b""
        self._last_id = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.events: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            answer = self._next()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._hear(answer)
        raise AssertionError(f"{method}: no answer within {ANSWER_SECONDS} s")

    def open(self, path: Path, *, scripts: bool = True) -> None:
        """Load a file, and wait until it is there."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.ask("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self.events:
            self._hear(self._next())

    def look(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def shape(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window, and whether its user likes it dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, *, whole: bool = False) -> bytes:
        """A PNG of what is to be seen."""
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._from, 1 << 16)
            if not data:
                raise AssertionError("the browser has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(params["args"]))


@contextmanager
def a_page(directory: Path) -> Iterator[Page]:
    """A browser of its own, with a fresh profile below the directory."""
    read_end, to_browser = os.pipe()
    from_browser, write_end = os.pipe()
    # The protocol's pipe is descriptors 3 and 4 of the browser.
    plumbing = f'exec "$0" "$@" 3<&{read_end} 4>&{write_end}'
    with open(directory / "browser.log", "wb") as log:
        browser = subprocess.Popen(
            ["bash", "-c", plumbing, PROGRAM, *OPTIONS, f"--user-data-dir={directory / 'profile'}"],
            pass_fds=(read_end, write_end),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(read_end)
    os.close(write_end)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)  # without its pipe the browser ends
        try:
            browser.wait(20)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait(20)
        os.close(from_browser)
