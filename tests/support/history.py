"""Makes a long history quickly: directories of ended runs, copied from one real run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from holdfast.manage.runs import Runs
from holdfast.process.clock import iso_time
from holdfast.process.identity import ProcessIdentity
from holdfast.run.home import Home
from holdfast.run.names import CROCKFORD, ID_LENGTH

DAY = 86400.0


def make_history(
    home: Home, count: int, *, oldest_days: float = 30, newest_days: float = 2
) -> None:
    """So many runs that ended between those days ago; each has files as a real one has."""
    template = template_of(home)
    now = time.time()
    for number in range(count):
        days = newest_days + (oldest_days - newest_days) * (number + 1) / count
        make_ended(home, template, now - days * DAY, f"old-{number}")


def make_ended(home: Home, template: dict[str, Any], at: float, name: str) -> str:
    """One run that ended at that time; its id."""
    run_id = id_of(int(at))
    path = f"{home.runs_path}/{run_id}"
    os.mkdir(path, 0o700)
    when = iso_time(at)
    spec = {**template["spec"], "id": run_id, "name": name, "created_at": when}
    _write(f"{path}/spec.json", spec)
    with open(f"{path}/events.jsonl", "w") as file:
        file.writelines(json.dumps({**event, "at": when}) + "\n" for event in template["events"])
    _write(f"{path}/summary.json", {**template["summary"], "id": run_id, "name": name})
    for empty in ("lock", "output.log"):
        with open(f"{path}/{empty}", "wb"):
            pass
    with open(f"{home.names_path}/{name}", "w") as claim:
        claim.write(f"{run_id}\n")
    return run_id


def id_of(seconds: int) -> str:
    """An id that was made at that time."""
    number = seconds << 64 | int.from_bytes(os.urandom(8))
    return "".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(ID_LENGTH)))


def template_of(home: Home) -> dict[str, Any]:
    """What a real run leaves behind."""
    run = Runs(home.path).start(["true"], name="template")
    # Its copies name its shim as theirs: while that lives, none of them may be removed.
    shim = run.wait(30).shim
    assert shim is not None
    assert ProcessIdentity.from_json(shim).wait(30)
    directory = run.directory
    return {
        "spec": json.loads(Path(directory.spec_path).read_bytes()),
        "events": [event.to_json() for event in directory.read_events().events],
        "summary": json.loads(Path(directory.summary_path).read_bytes()),
    }


def _write(path: str, document: dict[str, Any]) -> None:
    with open(path, "w") as file:
        json.dump(document, file)
