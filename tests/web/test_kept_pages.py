"""`GET runs` keeps what it has read of ended runs; what changes on the disk shows all the same."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from holdfast.manage.reading.kept_runs import KeptRuns
from tests.support.history import make_ended, template_of
from tests.support.running import run_of
from tests.support.serving import serving

MANY = 60  # more than are read without the index


def test_pages_agree_with_ls_before_and_after_changes_of_ended_runs(runs, holdfast, config):
    config("")
    template, now = template_of(runs.home), time.time()
    for number in range(MANY):
        make_ended(runs.home, template, now - 60 - number, f"old-{number}")

    def listed() -> dict[str, Any]:
        return {run["id"]: run for run in holdfast("ls", "--all", "--json").json["runs"]}

    with serving() as served:

        def shown() -> dict[str, Any]:
            return {run["id"]: run for run in served.get("/runs", limit=1000)["runs"]}

        first = shown()
        assert len(first) == MANY + 1
        assert first == shown() == listed()
        with open(run_of("old-1").directory.output_path, "ab") as output:
            output.write(b"a survivor wrote this\n")
        events = Path(run_of("old-2").directory.events_path)
        events.write_bytes(events.read_bytes().replace(b'"succeeded"', b'"failed"'))
        os.utime(events, (now, now))
        run_of("old-3").remove()
        again = shown()
        assert again == listed() != first
        by_name = {run["name"]: run for run in again.values()}
        assert by_name["old-1"]["log_bytes"] == 22
        assert "old-3" not in by_name
        assert by_name["old-2"]["outcome"] == "failed"


def test_what_is_kept_is_bounded_and_made_once(runs):
    infos: list[Any] = [runs.start(["true"], name=f"run-{number}").wait(60) for number in range(3)]
    made: list[str] = []
    kept = KeptRuns(most=2)
    last: Any = infos[2]

    def make(info):
        made.append(info.id)
        return info.id.encode()

    for info in infos:
        kept.keep(info, "stamp")
        assert kept.text_of(info, make) == kept.text_of(info, make) == info.id.encode()
    assert made == [info.id for info in infos]
    assert kept.get(infos[0].id, "stamp") is None
    assert kept.get(infos[1].id, "another") is None
    assert kept.get(infos[2].id, "stamp") is infos[2]
    changed = last.replace(log_bytes=7)
    kept.keep(changed, "stamp")
    kept.text_of(changed, make)
    kept.text_of(last, make)
    assert made[3:] == [changed.id, changed.id]
