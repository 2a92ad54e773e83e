"""T2: the keys that are about agents, and both logs of a run that keeps its stderr apart."""

from __future__ import annotations

import pytest

from holdfast.tui.dialogs import AnswerQuestion, AskLine
from holdfast.tui.page_screens import LogScreen
from holdfast.tui.text_view import TextView
from tests.support import pretend_claude, pretend_talker
from tests.support.asking import asked, id_of, say, start_talk
from tests.support.running import ended, info_of, run_of, wait_for_output
from tests.support.top_pilot import TopPilot, in_top, top_of

STREAM = ("--output-format", "stream-json", "--verbose")


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@in_top
async def test_T2_r_goes_on_with_a_session_and_p_shows_it_as_it_was_written(runs, tmp_path):
    claude = pretend_claude.install(tmp_path)
    first = runs.start([claude, *STREAM, "-p", "one"], name="a")
    first.wait(60)
    async with top_of(runs) as top:
        await top.knows("a")
        await top.press("r")
        await top.dialog(AskLine)
        await top.shows("what a is to do next:")
        await top.press("escape")
        await top.says("resume: left as it is")
        await top.press("r")
        await top.dialog(AskLine)
        await top.press(*"two", "enter")
        await top.says("a goes on as ")
        assert ended("a").resumed_from == first.id
        assert (info_of("a").result or {})["text"] == "done: two"
        await top.until(lambda: len(top.app.board.ids) == 2, "both are in the list")
        await top.press("l")
        await top.dialog(LogScreen)
        await top.until(lambda: "pretty" in top.line("state"), "an agent's stream is made readable")
        await top.shows("done: ")
        assert '"type": "result"' not in top.screen()
        await top.press("p")
        await top.shows('"type": "result"')
        assert "pretty" not in top.line("state")
        await top.press("p")
        await top.until(lambda: '"type": "result"' not in top.screen(), "it is readable again")


def _asks(top: TopPilot, text: str) -> bool:
    return isinstance(top.app.screen, AnswerQuestion) and text in top.screen()


@in_top
async def test_T2_tab_shows_the_next_question_and_each_is_answered_by_its_own(
    runs, holdfast, tmp_path
):
    start_talk(holdfast, pretend_talker.install(tmp_path), "--approve", "ask")
    say(holdfast, "ask touch one;; ask touch two")
    asked(2)
    async with top_of(runs) as top:
        await top.knows("a")
        await top.press("y")
        await top.dialog(AnswerQuestion)
        await top.shows("(1 of 2)")
        is_first = "touch one" in top.screen()
        here, there = ("one", "two") if is_first else ("two", "one")
        await top.press("tab")
        await top.until(lambda: _asks(top, f"touch {there}"), "the other question is shown")
        await top.shows(id_of(f"touch {there}"))
        assert f"touch {here}" not in top.screen()
        await top.press("tab")
        await top.until(lambda: _asks(top, f"touch {here}"), "and the first again")
        await top.press("tab", "n")
        await top.says("denied")
        asked(1)
        await top.press("y")
        await top.until(lambda: _asks(top, f"touch {here}"), "what is still asked")
        await top.press("y")
        await top.says("approved")
        wait_for_output("a", f"ran touch {here}".encode())
        wait_for_output("a", f"refused touch {there}".encode())


@in_top
async def test_T2_a_question_that_is_longer_than_the_screen_is_scrolled_to_its_end(
    runs, holdfast, tmp_path
):
    start_talk(holdfast, pretend_talker.install(tmp_path), "--approve", "ask")
    say(holdfast, f"ask echo begin {'x' * 2500} the-end")
    asked()
    async with top_of(runs, (80, 24)) as top:
        await top.knows("a")
        await top.press("y")
        await top.dialog(AnswerQuestion)
        await top.shows("echo begin")
        await top.shows("down and up: the rest")
        assert "the-end" not in top.screen()
        view = top.app.screen.query_one(TextView)
        await top.press(*["j"] * view.max_scroll_y)
        await top.shows("the-end")
        await top.press(*["up"] * view.max_scroll_y)
        await top.shows("echo begin")
        await top.press("q")
        await top.says("a still waits for an answer")


@in_top
async def test_both_logs_are_shown_of_a_run_that_keeps_its_stderr_apart(runs):
    program = "echo to-out; echo to-err >&2; read go; echo more-err >&2; echo more-out; read go"
    runs.start(["sh", "-c", program], name="split", split_stderr=True, stdin="pipe")
    wait_for_output("split", b"to-out")
    async with top_of(runs) as top:
        await top.knows("split")
        await top.press("l")
        await top.shows("to-out")
        await top.shows("err to-err")
        run_of("split").send(b"\n")
        await top.shows("err more-err")
        await top.shows("more-out")
        await top.press("/", *"more-err", "enter")
        await top.until(lambda: "f follows" in top.line("state"), "it was found")
        await top.press("enter")
        await top.shows("── stderr")
        await top.shows("more-err")
