"""F5: `serve` shows runs elsewhere with their node, and goes on when one is silent.

Apart from `top`: a browser that Playwright drives keeps an event loop in the thread of its tests.
"""

from __future__ import annotations

from tests.fleet.screens_world import runs, world
from tests.support.serving import serving
from tests.support.sshd import write_program
from tests.support.waiting import eventually
from tests.web.browser import chromium, opened

__all__ = ["chromium", "runs", "world"]
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
ASKS = "echo ready; read word; echo got $word; exec sleep 1000"


def test_F5_serve_lists_runs_elsewhere_and_acts_on_them(runs, world):
    here = runs.start(["sleep", "1000"], name="here")
    far = runs.start(["sh", "-c", ASKS], name="far", on="ssh:n1", stdin="pipe")
    where = far.placement.where
    with serving("--allow-start") as served:
        eventually(lambda: _row(served, far.id), 60, "its row comes")
        assert _row(served, far.id)["node"] == where
        assert _row(served, here.id)["node"] == ""
        listed = {one["id"]: one for one in served.get("/runs")["runs"]}
        newest = sorted((far.id, here.id), reverse=True)
        assert [*listed] == newest
        assert listed[far.id]["placement"]["target"] == "ssh:n1"
        assert [one["id"] for one in served.get("/runs", fleet=0)["runs"]] == [here.id]
        first = served.get("/runs", limit=1)
        second = served.get("/runs", limit=1, cursor=first["next"])
        assert [first["runs"][0]["id"], second["runs"][0]["id"]] == newest
        assert served.client.get("/runs", params={"fleet": "x"}).status_code == 400
        shown = served.get("/runs/far")["shown"]
        assert shown["row"]["node"] == where
        assert dict(shown["lines"])["node"].startswith(f"{where} (ssh:n1)")
        assert any("SAME" in head for head, _, _ in shown["tree"])
        assert shown["refusals"]["recover"].startswith(f"far is on {where}: ")
        assert shown["refusals"]["stop"] == ""
        assert served.get("/runs/far/tree")["processes"]
        assert served.get("/runs/far/events")["events"][0]["kind"] == "supervised"
        assert served.get("/runs/far/samples")["id"] == far.id
        assert served.client.get("/runs/far/screen").status_code == 503
        assert served.post("/runs/far/recover", 409)["error"]["hint"] == "holdfast recover, there"
        path = f"/runs/{far.id}/output?follow=1&tail=10"
        with served.events(path=path) as messages:
            assert next(messages)[1:] == ("begin", {"at_byte": 0})
            assert next(messages)[2]["text"] == "ready\n"
            served.post("/runs/far/send", text="hello\n")
            assert next(messages)[2]["text"] == "got hello\n"
        assert served.get("/runs/far/output", find="HELLO")["hits"][0]["text"] == "got hello"
        assert served.client.get("/runs/far/output", params={"tail": 1}).content == b"got hello\n"
        served.post("/runs/far/pause")
        served.post("/runs/far/unpause")
        stopped = served.post("/runs/far/stop")
        assert (stopped["outcome"], stopped["stop"]["said"]) == ("stopped", f"stopped on {where}")
        eventually(lambda: _row(served, far.id)["outcome"] == "stopped", 60, "the row follows")
        again = served.post("/runs/far/rerun")
        assert (again["name"], again["shown"]["row"]["node"]) == ("far", where)
        served.post(f"/runs/{again['id']}/stop")
        assert served.client.delete(f"/runs/{far.id}").status_code == 200
        assert served.client.get(f"/runs/{far.id}").status_code == 404
    assert len(world.run_ids(world.nodes["n1"])) == 1


def test_F5_serve_with_a_silent_node_and_hostile_text(runs, world, chromium):
    here = runs.start(["sleep", "1000"], name="here")
    far = runs.start(["sh", "-c", f"echo '{EVIL}'; exec sleep 1000", EVIL], name="far", on="ssh:n1")
    where = far.placement.where
    with serving() as served, opened(chromium, served) as tab:
        tab.until_text("table.runs.fleet", where)
        tab.page.fill("#filter", f"node:{where}")
        tab.until("document.querySelectorAll('table.runs tbody tr').length === 1")
        tab.page.click("text=far")
        tab.until_text("#output", EVIL)
        tab.until_text("#facts", EVIL)
        assert tab.page.query_selector("main img, main script") is None
        _spoil(world.nodes["n1"].program)
        eventually(lambda: _row(served, far.id)["state"] == "unknown", 60, "what it says is odd")
        world.nodes["n1"].stop()
        eventually(lambda: "does not answer since" in _row(served, far.id)["note"], 60, "silent")
        tab.until_text("#facts", "does not answer since")
        tab.until_text("#facts", "holdfast fleet give-up")
        listed = {one["id"]: one for one in served.get("/runs")["runs"]}
        assert listed[far.id]["state"] == "unknown"
        assert served.get("/runs/here")["id"] == here.id
        assert served.post("/runs/far/stop", 503)["error"]["code"] == "no-answer"
        assert tab.page.query_selector("main img, main script") is None
    write_program(world.nodes["n1"].program, world.uid)


def _row(served, run_id):
    with served.events() as messages:
        rows = next(messages)[2]["rows"]
    return next((one for one in rows if one["id"] == run_id), None)


def _spoil(program):
    """From now on the node says of its runs what none would."""
    program.write_text(
        program.read_text().replace(
            "program()",
            "import holdfast.manage.info as info\n"
            f"evil = {{'name': ['x'], 'tags': {EVIL!r}, 'created_at': {EVIL!r}, 'now': 3}}\n"
            "whole = info.RunInfo.to_json\n"
            "info.RunInfo.to_json = lambda self: {**whole(self), **evil}\n"
            "program()",
        )
    )
