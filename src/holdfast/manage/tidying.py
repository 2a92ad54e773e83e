"""Whether a start should have old runs removed. On the launch path: a look at one directory."""

from __future__ import annotations

import os
import time

from holdfast.manage.launch import start_tidying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.steps import Steps
    from holdfast.run.home import Home

RUNS_BEFORE = 550  # the newest 500 are kept unless told otherwise; fewer need no cleaning
EVERY_SECONDS = 3600.0


def tidy_when_due(home: Home) -> Steps[None]:
    """Apply the retention of the configuration, from time to time, in the background."""
    try:
        is_due = home.count_runs() > RUNS_BEFORE and _is_long_ago(f"{home.path}/tidied")
    except OSError:
        return
    if is_due:
        yield from start_tidying(home.path)


def _is_long_ago(stamp: str) -> bool:
    try:
        if 0 <= time.time() - os.stat(stamp).st_mtime < EVERY_SECONDS:
            return False
    except FileNotFoundError:
        pass
    os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    os.utime(stamp)
    return True
