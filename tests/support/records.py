"""Rewrites what a run has recorded: what time, other versions and damage would make of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.manage.run import Run
from holdfast.process.identity import ProcessIdentity
from holdfast.run.lifecycle import fold
from holdfast.run.usage.kept import add_line, usage_line

Json = dict[str, Any]


def _when_over(run: Run) -> Run:
    """A shim that is about to end still cuts its log to the length that it knows."""
    document = run.info().shim
    assert document is not None
    assert ProcessIdentity.from_json(document).wait(20)
    return run


def read_events(run: Run) -> list[Json]:
    """The lines of events.jsonl."""
    return [json.loads(line) for line in Path(run.directory.events_path).read_text().splitlines()]


def rewrite_events(run: Run, change: Callable[[Json], Json]) -> None:
    """Put every event through `change`."""
    lines = [json.dumps(change(event)) + "\n" for event in read_events(_when_over(run))]
    Path(run.directory.events_path).write_text("".join(lines))


def rewrite_spec(run: Run, **changes: Any) -> None:
    """Change fields of spec.json, or add some."""
    path = Path(run.directory.spec_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def append_events(run: Run, *events: Json) -> None:
    """Record more facts, as the holder of the lock would have; before the last one."""
    *before, last = read_events(_when_over(run))
    seq = before[-1]["seq"] if before else 0
    base = {"at": last["at"], "boottime": last["boottime"]}
    added = [{"seq": seq + place, **base, **event} for place, event in enumerate(events, 1)]
    after = {**last, "seq": seq + len(events) + 1}
    lines = [json.dumps(event) + "\n" for event in (*before, *added, after)]
    Path(run.directory.events_path).write_text("".join(lines))
    _keep_usage(run)


def _keep_usage(run: Run) -> None:
    """The line that is kept of an ended run says what its record says."""
    directory = run.directory
    facts = fold(directory.read_events().events)
    if facts.has_ended:
        add_line(directory.home, usage_line(directory.id, directory.read_spec(), facts))


def iso(seconds_from_now: float) -> str:
    """A time as Holdfast writes it."""
    then = time.time() + seconds_from_now
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(then)) + ".000000Z"
