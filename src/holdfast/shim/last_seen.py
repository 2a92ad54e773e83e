"""When a run was last seen alive: what its files say about the time before its shim died."""

from __future__ import annotations

import os

from holdfast.process.clock import iso_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts


def last_seen_at(directory: RunDirectory, facts: RunFacts) -> str | None:
    """The latest of the last event, the last sample and the last output."""
    seen = [facts.last_at] if facts.last_at is not None else []
    for path in (directory.trace_path, directory.output_path, directory.stderr_path):
        try:
            status = os.stat(path)
        except OSError:  # there is no such file: nothing was seen there
            continue
        if status.st_size:
            seen.append(iso_time(status.st_mtime))
    return max(seen, default=None)
