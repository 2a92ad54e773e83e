#!/usr/bin/env python3
"""Makes docs/images/attach.png: a real session in tmux, drawn by a real browser.

Needs tmux and Chromium. Run it with the project's own interpreter: .venv/bin/python.
"""

from __future__ import annotations

import html
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.interfaces.chromium import a_page  # noqa: E402
from tests.support.tmux import Tmux, tmux  # noqa: E402
from tests.support.waiting import eventually  # noqa: E402

TARGET = ROOT / "docs" / "images" / "attach.png"
COLUMNS, ROWS = 80, 32
COLOURS = ["#2e3436", "#ef5350", "#7cb342", "#ffb300", "#42a5f5", "#ab47bc", "#26c6da", "#d3d7cf"]
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #16191d; }}
pre {{ margin: 0; padding: 16px 20px; font: 15px/1.35 "DejaVu Sans Mono", monospace;
  color: #d8dce2; }}
</style><pre>{}</pre>"""


def play(terminal: Tmux) -> str:
    """The session, as a person would have it."""
    terminal.type("PS1='$ '; clear", enter=True)
    _await_prompt(terminal, "$")
    for line, prompt in (
        ("holdfast run --pty -n lab python3 -q", "$"),
        ("holdfast attach lab", ">>>"),
        ("squares = [n * n for n in range(10)]", ">>>"),
        ("sum(squares)", ">>>"),
    ):
        _enter(terminal, line, prompt)
    terminal.press("C-\\")
    for line, prompt in (
        ("holdfast ls", "$"),
        ("holdfast send lab 'max(squares)'", "$"),
        ("holdfast attach lab", ">>>"),
        ("exit()", "$"),
        ("holdfast ls", "$"),
    ):
        _await_prompt(terminal, "$" if "holdfast" in line else ">>>")
        _enter(terminal, line, prompt)
    return terminal.coloured_screen()


def _enter(terminal: Tmux, line: str, prompt: str) -> None:
    terminal.type(line, enter=True)
    terminal.wait_for(line)
    _await_prompt(terminal, prompt)


def _await_prompt(terminal: Tmux, prompt: str) -> None:
    eventually(lambda: terminal.screen().rstrip().split("\n")[-1] == prompt, 30, prompt)


def as_html(screen: str) -> str:
    """Text with colours, as a browser draws it."""
    return "".join(_pieces(screen.rstrip("\n")))


def _pieces(screen: str) -> Iterator[str]:
    style: dict[str, str] = {}
    for text, codes in re.findall(r"([^\x1b]*)(?:\x1b\[([0-9;]*)m)?", screen):
        if text:
            css = ";".join(f"{name}:{value}" for name, value in style.items())
            yield f'<span style="{css}">{html.escape(text)}</span>'
        for code in map(int, filter(None, (codes or "0").split(";") if codes else [])):
            _apply(code, style)
        if codes == "":
            style.clear()


def _apply(code: int, style: dict[str, str]) -> None:
    if code == 0:
        style.clear()
    elif code == 1:
        style["font-weight"] = "bold"
    elif code == 2:
        style["opacity"] = "0.6"
    elif 30 <= code <= 37:
        style["color"] = COLOURS[code - 30]
    elif code == 39:
        style.pop("color", None)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOLDFAST_HOME"] = f"{folder}/state"
        os.environ["PATH"] = f"{ROOT}/.venv/bin:{os.environ['PATH']}"
        os.environ["TERM"] = "screen-256color"
        os.chdir(folder)
        with tmux(COLUMNS, ROWS) as terminal:
            screen = play(terminal)
        page_path = Path(folder, "page.html")
        page_path.write_text(PAGE.format(as_html(screen)))
        with a_page(Path(folder)) as page:
            page.shape(770, 660)
            page.open(page_path)
            TARGET.write_bytes(page.picture())
    print(screen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
