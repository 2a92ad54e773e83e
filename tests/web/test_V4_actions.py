"""Every action of the API and its refusals; what it shows is what the command line shows."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.support.running import run_of
from tests.support.serving import serving
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually

CAT = ["cat"]


def test_V4_what_ends_pauses_changes_and_removes(runs):
    runs.start(["sleep", "300"], name="one", tags={"team": "a"}, timeout="1h")
    with serving() as served:
        served.post("/runs/one/pause")
        assert served.get("/runs/one")["paused"] is not None
        served.post("/runs/one/unpause")
        assert served.post("/runs/one/unpause", 409)["error"]["code"] == "refused"
        adjusted = served.post("/runs/one/adjust", timeout="2h")
        assert adjusted["wanted"]["timeout_seconds"] == 7200
        assert served.post("/runs/one/adjust", 400)["error"]["code"] == "wrong-use"
        assert served.post("/runs/one/adjust", 400, nonsense=1)
        assert served.client.delete("/runs/one").json()["error"]["code"] == "still-alive"
        assert served.post("/runs/one/approve", 409)["error"]["code"] == "refused"
        assert served.post("/runs/one/deny", 409, id="nothing")
        assert served.post("/runs/one/stop", 400, signal="SIGNOTHING")
        assert served.post("/runs/one/stop", 400, grace="soon")
        stopped = served.post("/runs/one/stop", grace=5)
        assert stopped["outcome"] == "stopped"
        assert stopped["stop"]["said"].startswith("stopped in")
        assert served.post("/runs/one/stop")["stop"]["was_over"] is True
        removed = served.client.delete("/runs/one")
        assert removed.status_code == 200
        assert served.client.get("/runs/one").status_code == 404
        assert served.post("/runs/one/stop", 404)["error"]["code"] == "run-not-found"


def test_V4_what_runs_code_is_off_unless_allowed(runs):
    runs.start(CAT, name="one", stdin="pipe")
    with serving() as served:
        assert served.post("/runs", 409, argv=["true"])["error"]["hint"].endswith("--allow-start")
        for verb in ("rerun", "resume", "send"):
            assert served.post(f"/runs/one/{verb}", 409)["error"]["code"] == "refused"
    assert len(runs.list()) == 1


def test_V4_what_runs_code_does_so_when_allowed(runs):
    assert runs.list() == []
    with serving("--allow-start") as served:
        started = served.post("/runs", 201, argv=CAT, name="one", key="k", stdin="pipe")
        assert (started["name"], started["state"]) == ("one", "running")
        assert served.post("/runs", 201, argv=CAT, key="k")["id"] == started["id"]
        assert served.post("/runs", 409, argv=CAT, name="one")["error"]["code"] == "already-running"
        true = {"argv": ["true"]}
        nothing: list[dict[str, Any]] = [{}, {"argv": []}, {"argv": "true"}, {"argv": [1]}]
        for bad in (*nothing, {**true, "x": 1}, {**true, "name": "../x"}, {**true, "given_by": {}}):
            assert served.post("/runs", 400, **bad)["error"]["message"]
        assert served.client.post("/runs", json={"argv": ["true"], "self": 1}).status_code == 400
        assert served.post("/runs/one/send", text="hello\n")["sent_bytes"] == 6
        assert served.post("/runs/one/send", 400)
        for base64 in ("*", "a", "\xe9"):
            assert served.post("/runs/one/send", 400, base64=base64)["error"]["message"]
        kind = {"content-type": "application/json"}
        sent = served.client.post("/runs/one/send", content=b'{"text":"\\ud800"}', headers=kind)
        assert (sent.status_code, sent.json()["error"]["code"]) == (400, "invalid-option")
        output = run_of("one").directory.output_path
        eventually(lambda: run_of("one").output() == b"hello\n", watching=lambda: [output])
        assert served.client.get("/runs/one/output", params={"since_byte": 2}).content == b"llo\n"
        limited = served.client.get("/runs/one/output", params={"limit": 3})
        assert (limited.content, limited.headers["holdfast-next-byte"]) == (b"hel", "3")
        served.post("/runs/one/stop")
        again = served.post("/runs/one/rerun")
        assert again["id"] != started["id"]
        assert served.post("/runs/one/resume", 409)["error"]["code"] == "refused"
        served.post("/runs/one/stop")


def test_V4_an_orphan_is_recovered(runs):
    run = runs.start(["sleep", "300"], name="one")
    with serving() as served, served.events() as messages:
        os.kill(run.info().shim["pid"], signal.SIGKILL)
        for _, kind, told in messages:
            if kind == "changes" and any(row["state"] == "orphaned" for row in told["rows"]):
                break
        done = served.post("/runs/one/recover")
        assert done["recovered"]["action"] == "adopted"
        assert done["state"] == "running"


def test_V4_a_survivor_is_named_and_the_stop_is_not_called_complete(runs):
    run = runs.start(["sleep", "300"], name="held")
    with held_at_exit(run.info().workload.pid), serving() as served:
        stopped = served.post("/runs/held/stop", grace=0)["stop"]
        assert stopped["said"].startswith("NOT stopped")
        assert [one["comm"] for one in stopped["survivors"]] == ["sleep"]
    eventually(lambda: run.id not in runs.home.run_ids(active=True))  # it ends once it is let go


def test_the_api_agrees_with_the_command_line(runs, holdfast, config):
    config("")
    for number in range(5):
        runs.start(["true"], name=f"run-{number}", tags={"n": str(number)}).wait()
    runs.start(["sh", "-c", "echo '<b>bold</b>'; exec sleep 300"], name="live")
    eventually(lambda: run_of("live").info().log_bytes)
    holdfast("queue", "set", "main", "--limit", "3", expect=0)
    with serving() as served:
        listed = holdfast("ls", "--all", "--json").json["runs"]
        shown = served.get("/runs")["runs"]
        assert {run["id"] for run in shown} == {run["id"] for run in listed}
        assert shown[0].keys() == listed[0].keys()
        pages, cursor = [], None
        while True:
            page = served.get("/runs", limit=2, **({} if cursor is None else {"cursor": cursor}))
            pages.append([run["id"] for run in page["runs"]])
            cursor = page["next"]
            if cursor is None:
                break
        assert [len(page) for page in pages] == [2, 2, 2]
        assert [one for page in pages for one in page] == [run["id"] for run in shown]
        assert [run["name"] for run in served.get("/runs", tag="n=3")["runs"]] == ["run-3"]
        assert [run["name"] for run in served.get("/runs", active=1)["runs"]] == ["live"]
        assert len(served.get("/runs", state=["ended", "running"], since="1h")["runs"]) == 6
        assert served.client.get("/runs", params={"state": "nonsense"}).status_code == 400
        assert served.client.get("/runs", params={"nonsense": "1"}).status_code == 400
        tree = holdfast("tree", "live", "--json").json
        assert [one["pid"] for one in served.get("/runs/live/tree")["processes"]] == [
            one["pid"] for one in tree["processes"]
        ]
        events = served.get("/runs/run-1/events")
        assert [event["kind"] for event in events["events"]] == [
            event["kind"] for event in holdfast("events", "run-1").json_lines
        ]
        assert served.get("/runs/run-1/events", since=events["cursor"])["events"] == []
        assert served.get("/queues") == holdfast("queue", "--json").json
        assert served.get("/usage", by="agent")["total"]["runs"] == 6
        assert served.get("/runs/live/report")["run"]["name"] == "live"
        assert {chart["key"] for chart in served.get("/runs/live/samples")["charts"]} >= {"cpu"}
        assert served.client.get("/runs/live/screen").json()["error"]["code"] == "refused"
        output = served.client.get("/runs/live/output")
        assert output.content == b"<b>bold</b>\n"
        assert output.headers["content-type"] == "application/octet-stream"
        assert output.headers["content-disposition"].startswith("attachment")
