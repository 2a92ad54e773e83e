"""F5: `top` shows runs elsewhere with their node, and goes on when one is silent."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.fleet.screens_world import runs, world
from tests.support.top_pilot import in_top, top_of

__all__ = ["runs", "world"]

ASKS = "echo ready; read word; echo got $word; exec sleep 1000"


@in_top
async def test_F5_top_lists_runs_elsewhere_and_acts_on_them(runs, world):
    runs.start(["sleep", "1000"], name="here")
    async with top_of(runs, (120, 40)) as top:
        await top.knows("here")
        assert "NODE" not in top.screen()
        far = runs.start(["sh", "-c", ASKS], name="far", on="ssh:n1", stdin="pipe")
        where = far.placement.where
        await top.knows("far")
        await top.shows("NODE")
        current = top.app.board.current
        assert current is not None
        assert far.id == current.id
        await top.until(lambda: top.app.board.rows[far.id].node == where, "its node is known")
        await top.press("/", *f"node:{where[:3]}", "enter")
        await top.until(lambda: top.names() == ["far"], "only the run elsewhere is shown")
        await top.press("escape")
        await top.knows("far")
        await top.press("v")
        await top.says(f"far is on {where}: `holdfast recover` there")
        await top.press("enter")
        await top.shows("evidence")
        await top.shows(f"{where} (ssh:n1)")
        await top.shows("SAME")
        await top.shows("ready")
        for key, text in (("t", "SAME"), ("e", "attempt_started"), ("c", "Made by Holdfast")):
            await top.press(key)
            await top.shows(text)
        await top.press("l")
        await top.shows("ready")
        await top.press("i", *"hello", "enter")
        await top.says("sent to far")
        await top.shows("got hello")
        await top.press("escape")
        await top.press("s", "y")
        await top.says(f"far stopped on {where}")
        await top.until(lambda: top.app.board.rows[far.id].outcome == "stopped", "it has ended")
        await top.knows("far")
        await top.until(lambda: _is_over(top.acting.info), "so its keys say")
        await top.press("d", "y")
        await top.says("far removed from its node")
        await top.until(lambda: "far" not in top.names(), "it is gone")
    assert world.run_ids(world.nodes["n1"]) == []


@in_top
async def test_F5_a_node_that_stops_answering_while_it_is_shown(runs, world):
    far = runs.start(["sh", "-c", "echo words; exec sleep 1000"], name="far", on="ssh:n1")
    runs.start(["sleep", "1000"], name="here")
    async with top_of(runs, (120, 40)) as top:
        await top.knows("far")
        world.nodes["n1"].stop()
        await top.until(lambda: top.app.board.rows[far.id].state == "unknown", "it is unknown")
        row = top.app.board.rows[far.id]
        assert "does not answer since 20" in row.note
        assert "last fact: running at 20" in row.note
        assert row.node == far.placement.where
        await top.press("enter")
        await top.shows("does not answer since")
        await top.shows("holdfast fleet check ssh:n1")
        await top.press("escape")
        await top.knows("far")
        await top.press("s", "y")
        await top.until(lambda: top.app.message[1] == "bad", "it is refused")
        await top.says("Connection refused")
        await top.knows("here")
        await top.press("enter")
        await top.shows("SAME")
        await top.press("escape")
        world.nodes["n1"].start()
        await top.until(lambda: top.app.board.rows[far.id].state == "running", "it is back")


def test_F5_without_placements_nothing_of_the_fleet_is_loaded(runs):
    code = (
        "import sys, time, asyncio\n"
        "from holdfast.manage.runs import Runs\n"
        "from holdfast.tui.app import TopApp\n"
        "async def main():\n"
        "    app = TopApp(Runs(), window='24h')\n"
        "    async with app.run_test() as pilot:\n"
        "        while not app.is_whole: await asyncio.sleep(0.02)\n"
        "        await pilot.press('enter', 'escape')\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('holdfast.fleet')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "HOLDFAST_HOME": str(runs.home.path)},
    )
    assert done.stdout == "[]\n"


def _is_over(info):
    return info is not None and not info.is_active
