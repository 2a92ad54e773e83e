"""T2: every key of `top`, what it asks, and what it says when it can't."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from holdfast.manage.runs import Runs
from holdfast.tui.dialogs import AnswerQuestion, AskLine, Confirm, HelpPage, Palette
from holdfast.tui.list_screen import ListScreen
from holdfast.tui.page_screens import LogScreen, PageScreen
from holdfast.tui.text_view import TextView
from holdfast.tui.verbs import VERBS
from tests.support.asking import asked, say, start_talk
from tests.support.history import make_ended, template_of
from tests.support.pretend_talker import install
from tests.support.running import info_of, run_of, wait_for, wait_for_output
from tests.support.shims import kill_shim
from tests.support.top_pilot import TopPilot, in_top, top_of

IGNORES_SIGTERM = "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True)\n"


@pytest.fixture
def sleeper(runs):
    return runs.start(["sleep", "1000"], name="sleeper")


@pytest.fixture
def failed(runs):
    run = runs.start(["sh", "-c", "echo last words; exit 3"], name="failed")
    run.wait(60)
    return run


@in_top
async def test_T2_the_cursor_moves_by_every_key_and_stays_with_its_run(runs):
    template = template_of(runs.home)
    now = time.time()
    for number in range(60):
        make_ended(runs.home, template, now - 60 - number, f"run-{number:02}")
    async with top_of(runs, window=None) as top:
        board = top.app.board
        await top.until(lambda: len(board.ids) == 61, "all rows are there")
        places = []
        for key in ("j", "down", "k", "up", "G", "g", "end", "home", "pagedown", "pageup"):
            await top.press(key)
            places.append(board.place)
        page = places[8]
        assert places[:8] == [1, 2, 1, 0, 60, 0, 60, 0]
        assert 10 < page < 30
        assert places[9] == 0
        await top.press("j", "j")
        kept = board.current
        await top.press("o", "n", "o", "n")  # by name, and turned round
        assert board.current == kept
        assert top.names()[0] == "template"
        await top.press("o", "o")
        assert top.names()[0] != "template" or board.order.column is None
        await top.press("o", "escape")
        assert board.order.column is None
        await top.press("o", "x")
        await top.says("no column has the letter x")


@pytest.mark.usefixtures("sleeper", "failed")
@in_top
async def test_T2_a_filter_narrows_as_it_is_typed_and_esc_takes_it_off(runs):
    async with top_of(runs) as top:
        await top.press("/")
        await top.press(*"state:failed")
        await top.until(lambda: top.names() == ["failed"], "only the failed run is shown")
        await top.tells("state", "1 shown")
        await top.press("enter")
        await top.press("/")
        await top.press(*["backspace"] * 12, *"!fail")
        await top.until(lambda: top.names() == ["sleeper"], "only the others are shown")
        await top.press("enter", "escape")
        await top.until(lambda: len(top.names()) == 2, "all are shown again")


@pytest.mark.usefixtures("sleeper", "failed")
@in_top
async def test_T2_enter_l_t_c_and_e_open_pages_and_esc_goes_back(runs):
    async with top_of(runs) as top:
        await top.knows("failed")
        await top.press("enter")
        await top.shows("evidence")
        await top.shows("last words")
        await top.shows("exit code: 3")
        for key, text in (
            ("t", "GONE"),
            ("c", "root exited 3"),
            ("e", "root_exited"),
            ("l", "last words"),
            ("enter", "evidence"),
        ):
            await top.press(key)
            await top.shows(text)
        assert len(top.app.screen_stack) == 3  # a page takes the place of a page
        await top.press("escape")
        await top.dialog(ListScreen)
        await top.knows("sleeper")
        await top.press("t")
        await top.shows("SAME")
        await top.press("q")
        await top.dialog(ListScreen)


@in_top
async def test_T2_logs_follow_and_are_searched(runs):
    runs.start(["sh", "-c", "seq 1 200; echo needle; seq 1 100; read go; echo more"], name="w",
               stdin="pipe")  # fmt: skip
    wait_for_output("w", b"needle\n")
    async with top_of(runs) as top:
        await top.knows("w")
        await top.press("l")
        await top.until(lambda: isinstance(top.app.screen, LogScreen), "the log is shown")
        await top.shows("100")
        await top.tells("state", "following")
        run_of("w").send(b"go\n")
        await top.shows("more")
        await top.press("/", *"needle", "enter")
        await top.shows("needle")
        await top.tells("state", "f follows")
        await top.press("n")
        await top.shows("needle")
        await top.press("N")
        await top.shows("needle")
        await top.press("/", *"no such text", "enter")
        await top.says("not in the last 5000 lines")
        await top.press("f")
        await top.shows("more")
        await top.press("p")
        await top.says("is not the run of an agent")
        await top.press("g")
        await top.until(lambda: "f follows" in top.line("state"), "it stays at its beginning")


@in_top
async def test_T2_s_asks_once_counts_down_and_K_hurries_it(runs):
    program = IGNORES_SIGTERM + "time.sleep(1000)"
    runs.start([sys.executable, "-c", program], name="deaf", grace="100s")
    wait_for_output("deaf", b"up")
    async with top_of(runs) as top:
        await top.knows("deaf")
        await top.press("K")
        await top.says("deaf is not being stopped")
        await top.press("s")
        await top.dialog(Confirm)
        await top.shows("stop deaf?")
        await top.press("n")
        await top.says("left as it is")
        assert info_of("deaf").state == "running"
        await top.press("s", "y")
        await top.says("SIGKILL in")
        await top.until(
            lambda: top.acting.info and top.acting.info.state == "stopping",
            "it is stopping",
        )
        await top.press("K")
        await top.says("SIGKILL")
        await top.until(lambda: info_of("deaf").outcome == "stopped", "it has ended")
        await top.says("deaf stopped in")
        await top.press("s")
        await top.until(lambda: "has ended (stopped)" in top.app.message[0], "it says why not")


@pytest.mark.usefixtures("sleeper", "failed")
@in_top
async def test_T2_what_is_impossible_is_greyed_and_says_why(runs):
    async with top_of(runs, (140, 30)) as top:
        await top.knows("sleeper")
        for key, why in (
            ("a", "sleeper has no terminal: it was started without --pty"),
            ("i", "sleeper was started without a stdin"),
            ("y", "sleeper asks nothing"),
            ("n", "sleeper asks nothing"),
            ("r", "sleeper is running: a session goes on once"),
            ("R", "sleeper is running: stop it first"),
            ("d", "sleeper is running: stop it first"),
            ("A", "sleeper is running: stop it first"),
            ("v", "sleeper is supervised"),
        ):
            await top.press(key)
            await top.says(why)
        await top.until(lambda: {"a", "i", "d", "v"} <= top.greyed(), "they are greyed")
        await top.until(lambda: not {"s", "l", "enter"} & top.greyed(), "these can be used")
        await top.knows("failed")
        for key, why in (
            ("s", "failed has ended (failed)"),
            ("z", "failed has ended (failed)"),
            ("a", "failed has no terminal"),
            ("r", "failed has no session of an agent"),
            ("v", "failed has ended"),
        ):
            await top.press(key)
            await top.says(why)
        await top.until(lambda: {"s", "a", "z"} <= top.greyed(), "they are greyed")
        await top.dialog(ListScreen)


@pytest.mark.usefixtures("sleeper", "failed")
@in_top
async def test_T2_a_key_right_after_a_move_is_judged_by_the_run_it_is_about(runs):
    async with top_of(runs) as top:
        await top.knows("sleeper")
        assert top.acting.refusal(VERBS["remove"])
        top.app.board.move_to(top.names().index("failed"))  # and nothing was read since
        assert top.acting.refusal(VERBS["remove"]) == ""
        await top.press("d")
        await top.dialog(Confirm)
        await top.shows("remove failed?")


@pytest.mark.usefixtures("sleeper")
@in_top
async def test_T2_z_pauses_and_goes_on(runs):
    async with top_of(runs) as top:
        await top.knows("sleeper")
        await top.press("z")
        await top.says("sleeper is paused")
        assert info_of("sleeper").paused is not None
        await top.press("z")
        await top.says("sleeper goes on")
        assert info_of("sleeper").paused is None


@in_top
async def test_T2_i_sends_a_line(runs):
    runs.start(["cat"], name="cat", stdin="pipe")
    async with top_of(runs) as top:
        await top.knows("cat")
        await top.press("i")
        await top.dialog(AskLine)
        await top.press("escape")
        await top.says("left as it is")
        await top.press("i")
        await top.dialog(AskLine)
        await top.press(*"hallo", "enter")
        await top.says("sent to cat")
        wait_for_output("cat", b"hallo\n")


@pytest.mark.usefixtures("failed")
@in_top
async def test_T2_R_runs_it_again_and_w_copies_its_token(runs):
    async with top_of(runs) as top:
        await top.knows("failed")
        await top.press("R")
        await top.says("failed runs again as")
        await top.until(lambda: len(top.app.board.ids) == 2, "both are in the list")
        await top.press("w")
        await top.says("copied: hf1.")
        assert top.app.clipboard.startswith("hf1.")


@in_top
async def test_T2_marked_runs_are_removed_and_archived_after_one_question(runs):
    template = template_of(runs.home)
    for number in range(5):
        make_ended(runs.home, template, time.time() - 60 - number, f"old-{number}")
    async with top_of(runs, window=None) as top:
        board = top.app.board
        await top.until(lambda: len(board.ids) == 6, "all rows are there")
        await top.knows("old-0")
        await top.press("space", "space", "space")
        assert len(board.marked) == 3
        await top.tells("state", "3 marked")
        await top.press("a")
        await top.says("attach is for one run: 3 are marked")
        await top.press("d")
        await top.dialog(Confirm)
        await top.shows("remove 3 runs (old-0, old-1, old-2)?")
        await top.press("x")
        await top.says("left as it is")
        await top.press("d", "y")
        await top.says("3 removed")
        await top.until(lambda: len(board.ids) == 3, "they are gone")
        assert not board.marked
        await top.press("space", "u")
        assert not board.marked
        await top.knows("old-4")
        await top.press("A", "y")
        await top.says("old-4 archived")
        await top.until(lambda: len(board.ids) == 2, "it has left the list")


@in_top
async def test_T2_v_recovers_an_orphan(runs, sleeper):
    kill_shim(sleeper)
    wait_for("sleeper", lambda info: info.state == "orphaned")
    async with top_of(runs) as top:
        await top.until(lambda: "orphaned" in top.screen(), "the orphan is shown")
        await top.until(
            lambda: top.app.board.rows[top.app.board.ids[0]].urgency == "orphaned", "it is first"
        )
        await top.knows("sleeper")
        await top.press("v")
        await top.says("sleeper adopted")
        await top.until(lambda: info_of("sleeper").state == "running", "it is supervised")


@in_top
async def test_T2_y_and_n_show_the_question_and_answer_it(runs, holdfast, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    start_talk(holdfast, install(tmp_path), "--approve", "ask")
    async with top_of(runs) as top:
        for answer, told in (("y", b"ran touch made"), ("n", b"refused touch made")):
            say(holdfast, "ask touch made")
            asked()
            await top.until(lambda: "needs you" in top.line("state"), "it is told at the top")
            await top.knows("a")
            await top.until(
                lambda: not top.acting.refusal(VERBS["approve"]), "the question is known"
            )
            await top.tells("keys", "y/n answer")
            await top.until(lambda: "y/n" not in top.greyed(), "they can be used")
            await top.press("y")
            await top.dialog(AnswerQuestion)
            await top.press("escape")
            await top.says("a still waits for an answer")
            await top.press("n")
            await top.dialog(AnswerQuestion)
            await top.shows("permission for Bash: touch made")
            await top.press(answer)
            await top.says("approved" if answer == "y" else "denied")
            wait_for_output("a", told)
            await top.until(
                lambda: top.acting.refusal(VERBS["approve"]), "no permission is asked for"
            )


@pytest.mark.usefixtures("sleeper")
@in_top
async def test_T2_the_palette_and_the_help_name_every_command(runs):
    async with top_of(runs, (120, 50)) as top:
        await top.knows("sleeper")
        await top.press("?")
        await top.dialog(HelpPage)
        for words in ("stop its whole tree", "its output, followed", "state:failed"):
            await top.shows(words)
        await top.press("pagedown")
        await top.shows("orphaned: its supervisor is gone")
        await top.press("pageup")
        await top.shows("stop its whole tree")
        await top.press("j", "k", "escape")
        await top.press(":")
        await top.dialog(Palette)
        await top.press(*"attach")
        await top.shows("can't: sleeper has no terminal")
        await top.press("enter")
        await top.says("sleeper has no terminal")
        for command, screen in (("detail", PageScreen), ("help", HelpPage)):
            await top.press(":", *command, "enter")
            await top.dialog(screen)
            await top.press("escape")
        await top.press(":", *"order", "down", "up", "enter")
        await top.says("sort by")
        await top.press("escape", ":", *"filter", "enter")
        await top.press(*"zzz")
        await top.until(lambda: not top.names(), "nothing fits")
        await top.press("enter", "s")
        await top.says("there is no run here")
        await top.press("escape", ":", "escape")
        await top.press(":", *"quit", "enter")
        await top.until(lambda: not top.app.is_running, "it has ended")


@pytest.mark.usefixtures("sleeper")
@in_top
async def test_T3_the_palette_of_a_small_screen_breaks_lines_between_words(runs):
    async with top_of(runs, (50, 24)) as top:
        await top.knows("sleeper")
        await top.press(":")
        await top.dialog(Palette)
        view = top.app.screen.query_one(TextView)
        await top.until(lambda: "evidence first" in _texts(view), "it is drawn")
        for name in ("detail", "logs", "tree", "charts", "events"):  # whatever is possible
            assert VERBS[name].help in _texts(view)
        for _ in range(40):  # the chosen one stays in view, also where it has several lines
            await top.press("down")
            shown = view.text.split("\n")[view.scroll_offset.y :][: view.size.height]
            assert any(line.startswith(">") for line in shown)


def _texts(view: TextView) -> str:
    """What it says, however it is wrapped; a word that is cut stays so."""
    return " ".join(line[19:].strip() for line in view.text.split("\n"))


@in_top
async def test_T2_leaving_while_something_is_under_way_asks(runs):
    program = IGNORES_SIGTERM + "time.sleep(1000)"
    runs.start([sys.executable, "-c", program], name="deaf", grace="100s")
    wait_for_output("deaf", b"up")
    async with top_of(runs) as top:
        await top.knows("deaf")
        await top.press("s", "y")
        await top.says("SIGKILL in")
        await top.press("q")
        await top.dialog(Confirm)
        await top.shows("Still under way: stop deaf")
        await top.press("n")
        await top.dialog(ListScreen)
        await top.press("q", "y")
        await top.until(lambda: not top.app.is_running, "it has ended")


@pytest.mark.usefixtures("sleeper", "failed")
def test_T2_a_click_moves_the_cursor_and_two_open_the_run(runs: Runs):
    async def scene() -> None:
        from holdfast.tui.app import TopApp
        from holdfast.tui.run_table import RunTable

        app = TopApp(runs, window="24h")
        async with app.run_test(size=(100, 30)) as pilot:
            top = TopPilot(app, pilot.press)
            await top.until(lambda: len(app.board.ids) == 2, "both are there")
            await pilot.click(RunTable, offset=(5, 1))
            assert app.board.place == 1
            await pilot.click(RunTable, offset=(5, 1), times=2)
            await top.shows("evidence")

    asyncio.run(scene())
