"""The stream of changes: nothing lost or doubled over a broken connection or a killed server."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.support.running import run_of
from tests.support.serving import Served, serving
from tests.support.waiting import eventually


def facts_until(served: Served, last_id: str | None, kind: str, run: str) -> tuple[str, list[Any]]:
    """The facts that come, up to one of a run; and the id to go on from."""
    found = []
    with served.events(last_id) as messages:
        for number, what, told in messages:
            if what == "fact":
                found.append((told["run"], told["seq"]))
                if (told["kind"], told["name"]) == (kind, run):
                    return number, found
    raise AssertionError("the stream ended")


def recorded(*names: str) -> list[tuple[str, int]]:
    runs = [run_of(name) for name in names]
    return [(run.id, event.seq) for run in runs for event in run.directory.read_events().events]


def test_V5_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(runs):
    with serving() as served:
        with served.events() as messages:
            first, kind, told = next(messages)
            assert (kind, told["rows"], told["lost"]) == ("snapshot", [], 0)
        runs.start(["true"], name="one").wait()
        at, before = facts_until(served, first, "ended", "one")
        runs.start(["true"], name="two").wait()  # while nobody listens
        runs.start(["true"], name="three").wait()
        _, after = facts_until(served, at, "ended", "three")
        assert sorted(before + after) == sorted(recorded("one", "two", "three"))
        with served.events(f"{at[:-1]}999999") as messages:
            assert next(messages)[1] == "snapshot"
        with served.events("another-1") as messages:
            assert next(messages)[1] == "snapshot"


def test_V5_rows_agree_with_ls_after_any_changes(runs, holdfast):
    with serving() as served, served.events() as messages:
        rows: dict[str, Any] = {}

        def follow_until(condition) -> None:
            for _, kind, told in messages:
                if kind == "snapshot":
                    rows.clear()
                if kind in ("snapshot", "changes"):
                    rows.update((row["id"], row) for row in told["rows"])
                    for gone in told.get("gone", ()):
                        rows.pop(gone, None)
                if condition():
                    return

        def states() -> dict[str, str]:
            return {row["name"]: row["state"] for row in rows.values()}

        for number in range(4):
            runs.start(["sleep", "300"], name=f"run-{number}")
        follow_until(lambda: list(states().values()).count("running") == 4)
        run_of("run-0").stop()
        run_of("run-1").stop()
        run_of("run-1").remove()
        follow_until(lambda: states().get("run-0") == "ended" and "run-1" not in states())
        assert states() == {
            run["name"]: run["state"] for run in holdfast("ls", "--json").json["runs"]
        }


def test_V9_a_killed_server_harms_no_run_and_starts_again(runs):
    with serving("--allow-start") as served:
        served.post("/runs", 201, argv=["sleep", "300"], name="from-web")
        before = runs.start(["sleep", "300"], name="before")
        with served.events() as messages:
            at = next(messages)[0]
        os.kill(served.pid, signal.SIGKILL)
        served.process.wait()
    assert run_of("from-web").info().state == "running"
    assert before.info().state == "running"
    with serving() as again:
        with again.events(at) as messages:
            _, kind, told = next(messages)
            assert kind == "snapshot"
            assert told["lost"] is None, "nobody knows how many"
        eventually(lambda: len(again.get("/runs", active=1)["runs"]) == 2)
        assert again.post("/runs/from-web/stop")["outcome"] == "stopped"
