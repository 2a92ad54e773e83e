"""Starts retention and bundling in the background when they are due.

On the launch path: a look at one directory.
"""

from __future__ import annotations

import os
import time

from holdfast.manage.starting.launch import start_bundling, start_tidying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.operations import Steps
    from holdfast.run.home import Home

RUNS_BEFORE = 550  # the newest 500 are kept unless told otherwise; fewer need no cleaning
EVERY_SECONDS = 3600.0


def tidy_when_due(home: Home) -> Steps[None]:
    """Apply the retention of the configuration, from time to time, in the background."""
    stamp = f"{home.path}/tidied"
    try:
        # The time first: where the file system does not count, directories have to be listed.
        is_due = _is_long_ago(stamp) and home.count_runs(RUNS_BEFORE + 1) > RUNS_BEFORE
        if is_due:
            _touch(stamp)
    except OSError:
        return
    if is_due:
        yield from start_tidying(home.path)


def bundle_when_due(bundle: str) -> Steps[None]:
    """Have the bundle of a start's code made, where the package may be written to."""
    stamp = f"{bundle}.tried"  # which goes when it is made: one that fails is tried again later
    try:
        if not _is_long_ago(stamp):
            return
        _touch(stamp)
    except OSError:
        return
    yield from start_bundling(stamp)


def _is_long_ago(stamp: str) -> bool:
    try:
        return not 0 <= time.time() - os.stat(stamp).st_mtime < EVERY_SECONDS
    except FileNotFoundError:
        return True


def _touch(stamp: str) -> None:
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    os.utime(stamp)
