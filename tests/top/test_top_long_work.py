"""Work on many runs goes on beside the screen: it says how far it is, and can be left. Errors are
shown, and never end the screen. T5: keys are answered whatever there is to read."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time
from pathlib import Path

from holdfast.errors import Refused
from holdfast.manage.reading.live_run import LiveRun
from holdfast.manage.words.possible import Deed
from holdfast.run.names import is_id
from holdfast.tui import deeds, pages
from holdfast.tui.background import Background
from holdfast.tui.dialogs import Confirm, HelpPage
from holdfast.tui.list_screen import ListScreen
from tests.support.history import id_of, make_ended, template_of
from tests.support.running import info_of, run_of
from tests.support.shims import kill_shim
from tests.support.top_pilot import in_top, top_of

MANY, ACTIVE = 120, 150


def _make_many(runs, count: int) -> None:
    template, now = template_of(runs.home), time.time()
    for number in range(count):
        make_ended(runs.home, template, now - 60 - number, f"old-{number}")


class Gate:
    """Lets something be done so many times, and no more until it is opened."""

    def __init__(self, monkeypatch, where: object, name: str, count: int) -> None:
        self._left, self._opened, self._is_end = count, threading.Event(), False
        self.reached = threading.Event()
        done = getattr(where, name)

        def one(*given, **named):
            if self._left == 0:
                self.reached.set()
                assert self._opened.wait(60)
            if self._is_end:
                raise Refused("the command has ended")
            self._left -= 1
            return done(*given, **named)

        monkeypatch.setattr(where, name, one)

    def open(self) -> None:
        self._opened.set()

    def end(self) -> None:
        self._is_end = True
        self._opened.set()


@in_top
async def test_T2_to_remove_many_says_how_far_it_is_and_can_be_left(runs, monkeypatch):
    _make_many(runs, MANY)
    gate = Gate(monkeypatch, deeds, "remove_run", 20)
    async with top_of(runs, window=None) as top:
        board = top.app.board
        await top.until(lambda: len(board.ids) == MANY + 1, "all rows are there")
        board.marked.update(one for one in board.ids if board.rows[one].name != "template")
        await top.press("d")
        await top.dialog(Confirm)
        await top.shows(f"remove {MANY} runs (")
        await top.press("y")
        await top.until(gate.reached.is_set, "some were removed")
        await top.says(f"remove {MANY} runs: 20 of {MANY}")
        await top.until(lambda: len(board.ids) == MANY + 1 - 20, "the list goes with it")
        await top.press("G")
        assert board.place == MANY - 20
        await top.press("q")
        await top.dialog(Confirm)
        await top.shows(f"Still under way: remove {MANY} runs")
        await top.press("n")
        await top.dialog(ListScreen)
        await top.press("q", "y")
        await top.until(lambda: not top.app.is_running, "it was left")
    gate.end()
    assert len([one for one in runs.home.entries() if is_id(one)]) == MANY + 1 - 20


@in_top
async def test_T2_a_recovery_and_an_archive_of_many_say_how_far_they_are(runs, monkeypatch):
    for number in range(5):
        kill_shim(runs.start(["sleep", "1000"], name=f"orphan-{number}", grace="1s"))
    told: list[str] = []
    said: list[str] = []
    begun = deeds.carry_out

    def listened(library, asked, tell):
        def both(progress):
            tell(progress)
            told.append(progress)
            said.append(top.app._doing[0].text(0.0))

        return begun(library, asked, both)

    monkeypatch.setattr("holdfast.tui.app.carry_out", listened)
    async with top_of(runs) as top:
        await top.knows("orphan-0")
        await top.press("v")
        await top.until(lambda: all(info_of(f"orphan-{n}").state == "running" for n in range(5)),
                        "all are supervised")  # fmt: skip
        await top.until(lambda: not top.app._doing, "it is over")
        assert [one.split()[0] for one in told] == ["1", "2", "3", "4", "5"]
        assert told[-1] == "5 of 5 looked at"
        assert said[-1] == "recover: 5 of 5 looked at", "it is not of the run under the cursor"
        for number in range(5):
            run_of(f"orphan-{number}").stop()
        board, gate = top.app.board, Gate(monkeypatch, deeds, "archive_run", 2)
        await top.until(lambda: not any(board.rows[one].state.is_active for one in board.ids),
                        "all have ended")  # fmt: skip
        board.marked.update(board.ids)
        await top.press("A")
        await top.dialog(Confirm)
        await top.shows("archive 5 runs (")
        await top.press("y")
        await top.until(gate.reached.is_set, "some were packed")
        await top.says("archive 5 runs: 2 of 5")
        await top.press("enter")
        await top.shows("evidence")  # meanwhile
        gate.open()
        await top.says("5 archived")


@in_top
async def test_errors_are_shown_where_they_belong_and_the_screen_goes_on(runs, monkeypatch):
    runs.start(["sleep", "1000"], name="sleeper")

    def broken(*_):
        raise KeyError("what was not foreseen")

    monkeypatch.setitem(pages.PAGES, "charts", broken)
    monkeypatch.setitem(deeds._DEEDS, Deed.PAUSE, broken)
    async with top_of(runs) as top:
        await top.knows("sleeper")
        await top.press("c")
        await top.shows("unexpected KeyError: 'what was not foreseen'; this is a bug in Holdfast")
        await top.press("t")
        await top.shows("SAME")
        await top.press("escape", "z")
        await top.says("unexpected KeyError")
        monkeypatch.setattr(
            "holdfast.tui.app.attach", lambda *_: (_ for _ in ()).throw(OSError(11, "no more"))
        )
        monkeypatch.setattr(type(top.app), "suspend", lambda _: open(os.devnull))
        top.app.attach(top.app.board.rows[top.app.board.ids[0]])
        await top.says("attach: no more")
        spec = Path(run_of("sleeper").directory.spec_path)
        kept = spec.read_bytes()
        spec.write_bytes(b"{")
        await top.press("enter")
        await top.shows("is not JSON")
        spec.write_bytes(kept)
        await top.shows("evidence")


def test_work_under_a_key_begins_when_the_result_of_the_one_before_was_taken():
    """Otherwise a log that is read twice at once would show its lines twice."""
    done: list[str] = []

    def taken(result: str) -> None:
        time.sleep(0.05)  # the next one would have begun by now
        done.append(f"{result} was taken")

    def work(name: str) -> str:
        done.append(name)
        return name

    async def scene() -> None:
        background, over = Background(asyncio.get_running_loop()), asyncio.Event()
        background.do("key", lambda: work("first"), taken)
        background.do("key", lambda: work("dropped"), taken)
        background.do("key", lambda: work("last"), lambda _: over.set())
        await asyncio.wait_for(over.wait(), 60)

    asyncio.run(scene())
    assert done == ["first", "first was taken", "last"]


def _make_orphans(runs, first, count: int) -> None:
    """Copies of a run whose shim is dead: each of them is read at every look, which is more than a
    supervised run asks for."""
    directory = first.directory
    spec = json.loads(Path(directory.spec_path).read_bytes())
    events = Path(directory.events_path).read_bytes()
    for number in range(count):
        run_id = id_of(int(time.time()) - 1)
        path = Path(runs.home.runs_path, run_id)
        path.mkdir(0o700)
        copied = {**spec, "id": run_id, "name": f"orphan-{number}"}
        (path / "spec.json").write_text(json.dumps(copied))
        (path / "events.jsonl").write_bytes(events)
        (path / "lock").touch()
        Path(runs.home.active_path, run_id).touch()


@in_top
async def test_T5_keys_are_answered_while_many_active_runs_are_read(runs, monkeypatch):
    """How soon is for bench/top.py, which has a thousand that are supervised."""
    first = runs.start(["sleep", "1000"], name="first", grace="1s")
    kill_shim(first)
    _make_orphans(runs, first, ACTIVE)
    gate = Gate(monkeypatch, LiveRun, "look", ACTIVE - 50)
    # Each look is told by itself: a fast machine makes all of these in one slice of time.
    monkeypatch.setattr("holdfast.manage.live._SLICE_SECONDS", 0.0)
    try:
        async with top_of(runs, wait=False) as top:
            board = top.app.board
            await top.until(gate.reached.is_set, "some were read")
            await top.until(lambda: board.ids, "and the first are shown")
            await top.press("G")
            assert board.place == len(board.ids) - 1
            for _ in range(3):
                await top.press("question_mark")
                await top.dialog(HelpPage)
                await top.press("escape")
                await top.dialog(ListScreen)
            gate.open()
            await top.until(lambda: len(board.ids) == ACTIVE + 1, "all are shown")
            await top.press("end")
            assert board.place == ACTIVE
            await top.press("/", *f"orphan-{ACTIVE - 1}", "enter")
            await top.until(lambda: len(board.ids) == 1, "the filter has narrowed it")
    finally:
        gate.open()
        for one in runs.home.run_ids(active=True):
            if one != first.id:
                os.unlink(Path(runs.home.active_path, one))
                shutil.rmtree(Path(runs.home.runs_path, one))
