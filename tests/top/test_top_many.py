"""T2: keys about many runs at once, and what the head says of the order."""

from __future__ import annotations

from holdfast.tui.dialogs import Confirm
from tests.support.top_pilot import in_top, top_of


@in_top
async def test_T2_M_marks_all_that_are_shown_and_they_are_removed_together(runs):
    for name in ("old-1", "old-2", "old-3", "kept"):
        runs.start(["true"], name=name).wait()
    async with top_of(runs) as top:
        await top.until(lambda: len(top.app.board.ids) == 4, "all are in the list")
        await top.press("/", *"old", "enter")
        await top.until(lambda: len(top.app.board.ids) == 3, "the rest is not shown")
        await top.press("M")
        await top.shows("3 marked")
        await top.press("d")
        await top.dialog(Confirm)
        await top.shows("remove 3 runs")
        await top.press("y")
        await top.says("3 removed")
        await top.press("escape")
        await top.until(lambda: top.names() == ["kept"], "what was not shown is left")
        await top.press("M", "u", ":", *"mark all", "enter")
        await top.shows("1 marked")


@in_top
async def test_T2_the_head_says_which_way_a_column_is_sorted(runs):
    for name in ("a", "b"):
        runs.start(["true"], name=name).wait()
    async with top_of(runs, (120, 24)) as top:
        await top.until(lambda: len(top.app.board.ids) == 2, "both are in the list")
        await top.press("o", "n")
        await top.until(lambda: top.names() == ["a", "b"], "by name")
        await top.shows("NAME(n)\u25be")
        await top.press("o", "n")
        await top.until(lambda: top.names() == ["b", "a"], "turned round")
        await top.shows("NAME(n)\u25b4")
        await top.press("o", "o")
        await top.until(lambda: "\u25b4" not in top.screen(), "by need again")
