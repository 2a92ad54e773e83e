"""T3: what the main screens look like, in every size, light, dark and without colour.

The pictures are those of docs/top.md. `UPDATE_PICTURES=1` writes them anew: look at them then.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path

import pytest
from rich.color import Color
from rich.style import Style
from textual.strip import Strip

from holdfast.manage.plaintext import width
from holdfast.manage.words.urgency import Urgency
from holdfast.manage.words.views import Figures, Row
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from holdfast.tui import pages
from holdfast.tui.app import TopApp
from holdfast.tui.dialogs import AnswerQuestion
from holdfast.tui.list_screen import ListScreen
from holdfast.tui.page_screens import LogScreen
from tests.support.top_pilot import TopPilot

PICTURES = Path(__file__).parents[2] / "docs" / "images" / "top"
SIZES = {"120x40": (120, 40), "80x24": (80, 24), "50x20": (50, 20)}
MINUTE, HOUR = 60, 3600
_CELL, _LINE, _MARGIN = 8.4, 18, 8
_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'
# Black, red, green, yellow, blue, magenta, cyan, white; then background and foreground.
PALETTES = {
    "dark": "#2e3436 #ef6b73 #8ccf7e #e5c76b #67b0e8 #c47fd5 #6cbfbf #b3b9b8 #141b1e #dadada",
    "light": "#2e3436 #b4232a #2f7d1f #8a6100 #1f5fa8 #8a3f9c #0f7276 #8a8f8e #ffffff #1f2328",
}


def _id(name: str) -> str:
    """One that no run has."""
    return f"{sum(map(ord, name)):020}"


def _row(name: str, state: State, urgency: Urgency, **known: object) -> Row:
    fields: dict[str, object] = {
        "outcome": None, "created": None, "ended": None, "figures": Figures(), "output": None,
        "tokens": None, "cost_usd": None, "note": "", "agent": None, "tags": {},
    }  # fmt: skip
    return Row(id=_id(name), name=name, state=state, urgency=urgency, **{**fields, **known})  # type: ignore[arg-type]


def _rows(now: float) -> list[Row]:
    """Ages end in the middle of their unit: a slow machine shows the same."""

    def ago(seconds: float) -> float:
        return now - seconds

    running, ended = (State.RUNNING, Urgency.RUNNING), (State.ENDED, Urgency.ENDED)
    return [
        _row("fix-412", State.RUNNING, Urgency.ATTENTION, created=ago(12.5 * MINUTE),
             figures=Figures(38.0, 432 << 20), output=ago(4.5 * MINUTE), tokens=81_300,
             cost_usd=0.31, agent="claude", note="needs you: permission for Bash: rm -r build"),
        _row("train", State.ORPHANED, Urgency.ORPHANED, created=ago(3.5 * HOUR),
             figures=Figures(790.0, 11 << 30), output=ago(1.5 * MINUTE), note="shim 902 gone"),
        _row("old", State.UNKNOWN, Urgency.UNKNOWN, created=ago(49 * HOUR),
             note="another PID namespace"),
        _row("leaky", State.RUNNING, Urgency.ANOMALY, created=ago(2.5 * HOUR),
             figures=Figures(3.0, 3 << 30), output=ago(9.5 * MINUTE), note="1 anomaly"),
        _row("docs-2", State.RUNNING, Urgency.LIMIT, created=ago(1.5 * HOUR), tokens=1_240_000,
             figures=Figures(0.0, 210 << 20), output=ago(31.5 * MINUTE), cost_usd=4.02,
             agent="codex", note="a quota is used up, again at 15:00:00"),
        _row("api", *running, created=ago(40.5 * MINUTE), figures=Figures(97.0, 612 << 20),
             output=ago(2.5 * MINUTE), tokens=9_400, cost_usd=0.08, agent="claude"),
        _row("web", *running, created=ago(5.5 * MINUTE), figures=Figures(12.0, 88 << 20),
             output=ago(3.5 * MINUTE)),
        _row("nightly", State.QUEUED, Urgency.QUEUED, created=ago(20.5 * MINUTE),
             note="in main: 1st"),
        _row("etl", *ended, outcome=Outcome.LOST, created=ago(6.5 * HOUR), ended=ago(5 * HOUR),
             note="reboot"),
        _row("lint", *ended, outcome=Outcome.SUCCEEDED, created=ago(7.5 * HOUR),
             ended=ago(6 * HOUR), tokens=2_100, cost_usd=0.01),
        _row("tests", *ended, outcome=Outcome.FAILED, created=ago(8.5 * HOUR), ended=ago(7 * HOUR),
             note="exit 3: 2 failed, 118 passed"),
    ]  # fmt: skip


_DETAIL = [
    (("fix-412 (0tq7kq2)  running", "bold"),),
    (("needs you  ", "label"), ("permission for Bash: rm -r build (p1, 4m ago)", "ask")),
    (("evidence   ", "label"), ("shim 48211 SAME holds the lock; workload 48213 SAME", "")),
    (),
    (("── tree ", "label"),),
    (("shim 48211 ", ""), ("SAME  ", "good"), ("sleeping", "")),
    (("  workload 48213 ", ""), ("SAME  ", "good"), ("sleeping  claude -p 'fix issue 412'", "")),
    (("    48260 ", ""), ("SAME  ", "good"), ("running  node server.js", "")),
    (),
    (("── use ", "label"),),
    (("now        ", "label"), ("RSS 412M, CPU 38%, 3 processes (2s ago)", "")),
    (("peak       ", "label"), ("RSS 612M, CPU 140%, 9 processes; 81k tokens, $0.31", "")),
    (("time       ", "label"), ("14:02:11 started, runs for 12m", "")),
    (),
    (("── over time ", "label"),),
    (("CPU        ▁▁▂▃▄▄▄▄▄▄▄▄▃▁▁▁▂▃▄▅▆█▇▄▂▁▁▂▄▄▄▄▄▃▂▁", ""),),
    (("Memory     ▁▁▁▂▂▂▃▃▃▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇▇███████", ""),),
    (),
    (("── output ", "label"),),
    (("> Bash: pytest -x", "label"),),
    (("118 passed in 4.2s", "good"),),
]  # fmt: skip


_QUESTION = """permission for Bash: git push --force origin main
  and then: rm -r build"""


async def _list(top: TopPilot) -> None:
    await top.shows("fix-412")


async def _detail(top: TopPilot) -> None:
    await top.press("enter")
    await top.shows("evidence")


async def _logs(top: TopPilot) -> None:
    await top.press(*["j"] * top.names().index("web"), "l")
    await top.dialog(LogScreen)
    screen = top.app.screen
    assert isinstance(screen, LogScreen)
    screen.directory = None  # the run is made up: it is not read again
    await top.until(lambda: not top.app.background._busy, "what was begun is over")
    screen.view.show([((f"[{number:02}] building module {number}", ""),) for number in range(60)])
    screen.view.add([(("warning: 2 deprecated calls", "warn"),), (("done in 4.2s", "good"),)], 5000)
    await top.shows("done in 4.2s")


async def _confirm(top: TopPilot) -> None:
    await top.press("s")
    await top.shows("stop fix-412?")


async def _question(top: TopPilot) -> None:
    asked = [{"id": f"q{number}", "text": _QUESTION, "is_cut": False} for number in (1, 2)]
    top.app.push_screen(AnswerQuestion("fix-412", asked))
    await top.shows("tab the next")


async def _help(top: TopPilot) -> None:
    await top.press("?")
    await top.shows("On a run, or")
    await top.shows("esc back")


async def _palette(top: TopPilot) -> None:
    await top.press(":", *"st")
    await top.shows("stop its whole tree")


async def _fleet(top: TopPilot) -> None:
    now = time.time()
    silent = "gpu2 does not answer since 14:02:11; last fact: running at 14:02:09"
    top.app.board.take(
        [
            _row("sweep-1", State.RUNNING, Urgency.RUNNING, created=now - 2.5 * HOUR, node="gpu1",
                 figures=Figures(790.0, 21 << 30), output=now - 3.5 * MINUTE),
            _row("sweep-2", State.UNKNOWN, Urgency.UNKNOWN, created=now - 2.5 * HOUR, node="gpu2",
                 output=now - 12.5 * MINUTE, note=silent),
            _row("sweep-3", State.QUEUED, Urgency.QUEUED, created=now - 2.5 * HOUR,
                 node="slurm:gpu", note="Slurm says PENDING"),
        ],
        (),
    )  # fmt: skip
    top.app._draw()
    await top.shows("? sweep-2")
    await top.shows("NODE")


Scene = Callable[[TopPilot], Awaitable[None]]
SCENES: dict[str, Scene] = {
    "list": _list,
    "detail": _detail,
    "logs": _logs,
    "confirm": _confirm,
    "question": _question,
    "palette": _palette,
    "help": _help,
    "fleet": _fleet,  # last: the column of nodes stays
}
SETTLE_SECONDS = 10
LOOKS = {"colour": ("dark", "light"), "plain": ("plain",)}
EVERY = [(size, look) for size in SIZES for look in LOOKS]


async def _take(runs, size: tuple[int, int], looks: tuple[str, ...]) -> dict[str, str]:
    """Every scene in turn, from the list and back to it, each once it looks as it did."""
    app, made = TopApp(runs, window="24h"), {}
    async with app.run_test(size=size) as pilot:
        top = TopPilot(app, pilot.press)
        await top.until(lambda: app.is_whole, "the model has begun")
        app.trends.note(_rows(time.time()))
        for name, scene in SCENES.items():
            app.board.take(_rows(time.time()), ())  # as old as they were
            app.board.move_to(0)
            app.say("")
            app._draw()
            await top.shows("needs you")
            await top.shows("! fix-412")
            await scene(top)
            made.update(await _settled(app, name, size, looks))
            while not isinstance(app.screen, ListScreen):
                await top.press("escape")
    return made


async def _settled(
    app: TopApp, name: str, size: tuple[int, int], looks: tuple[str, ...]
) -> dict[str, str]:
    """Its pictures: a layout may take several turns of the loop. What never fits is the last."""
    ends = time.monotonic() + SETTLE_SECONDS
    while True:
        app.screen.refresh()  # a dialogue keeps what it first saw of the screen below it
        await asyncio.sleep(0.05)
        strips, made = app.screen._compositor.render_strips(app.size), {}
        for look in looks:
            palette = "dark" if look == "plain" else look
            made[f"{name}-{size[0]}x{size[1]}-{look}"] = picture(strips, palette, size[0])
        if time.monotonic() > ends or all(_kept(one) == text for one, text in made.items()):
            return made


def _kept(name: str) -> str | None:
    path = PICTURES / f"{name}.svg"
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize(("size", "look"), EVERY, ids=map("-".join, EVERY))
def test_T3_every_screen_looks_as_it_did(runs, monkeypatch, size, look):
    if look == "plain":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setitem(pages.PAGES, "detail", lambda *_: _DETAIL)
    for name, made in asyncio.run(_take(runs, SIZES[size], LOOKS[look])).items():
        if os.environ.get("UPDATE_PICTURES"):
            (PICTURES / f"{name}.svg").write_text(made)
        assert made == _kept(name), f"see UPDATE_PICTURES above: {name}"


def test_there_is_no_picture_that_is_not_drawn():
    looks = [look for several in LOOKS.values() for look in several]
    every = {f"{name}-{size}-{look}.svg" for name in SCENES for size in SIZES for look in looks}
    assert {path.name for path in PICTURES.iterdir()} == every


# The screen as an SVG picture, in the colours of a light or a dark terminal.


def picture(strips: list[Strip], palette: str, columns: int) -> str:
    """The lines one below the other; nothing in it depends on the time or the machine."""
    colours = PALETTES[palette].split()
    wide, high = columns * _CELL + 2 * _MARGIN, len(strips) * _LINE + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" {_FONT}>',
        f'<rect width="100%" height="100%" rx="6" fill="{colours[8]}"/>',
    ]
    for row, strip in enumerate(strips):
        lines += _line(strip, _MARGIN + row * _LINE, colours)
    return "\n".join([*lines, "</svg>", ""])


def _line(strip: Strip, top: int, colours: list[str]) -> list[str]:
    parts, column = [], 0
    for text, given, _ in strip:
        taken = width(text)
        at, style = _MARGIN + column * _CELL, given or Style.null()
        column += taken
        ink, paper = _colour(style.color, colours, 9), _colour(style.bgcolor, colours, 8)
        if style.reverse:
            ink, paper = paper, ink
        if paper != colours[8]:
            size = f'x="{at:.1f}" y="{top}" width="{taken * _CELL:.1f}" height="{_LINE}"'
            parts.append(f'<rect {size} fill="{paper}"/>')
        if text.strip():
            parts.append(_text(text, style, at, top, ink))
    return parts


def _text(text: str, style: Style, at: float, top: int, ink: str) -> str:
    bare = text.rstrip()
    at += (width(bare) - width(bare.lstrip())) * _CELL
    bare = bare.lstrip()
    looks = ' font-weight="bold"' if style.bold else ""
    looks += ' opacity="0.6"' if style.dim else ""
    looks += ' text-decoration="line-through"' if style.strike else ""
    length = f'textLength="{width(bare) * _CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
    where = f'x="{at:.1f}" y="{top + _LINE - 5}"'
    return f'<text {where} {length} fill="{ink}" xml:space="preserve"{looks}>{escape(bare)}</text>'


def _colour(colour: Color | None, colours: list[str], default: int) -> str:
    number = None if colour is None or colour.is_default else colour.number
    return colours[default] if number is None else colours[number % 8]
