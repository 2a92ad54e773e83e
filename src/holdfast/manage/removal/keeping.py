"""What a run used is kept before it is removed; else removing runs would hide what they cost."""

from __future__ import annotations

import contextlib
import errno
import os

from holdfast.errors import Unavailable
from holdfast.run.usage.kept import usage_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.removal.liveness import ReadableRun
    from holdfast.run.usage.reading import UsageKeeper


def keep_usage(run: ReadableRun, keeper: UsageKeeper) -> None:
    """On disk when this returns. Unavailable when it can't be: then the run is not removed.

    Runs are removed when a disk is full: then its output, which is about to go, makes room first.
    """
    line = usage_line(run.directory.id, run.spec, run.facts)
    try:
        keeper.keep(line)
        return
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise _unkept(run, error) from None
    for path in (run.directory.output_path, run.directory.trace_path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    try:
        keeper.keep(line)
    except OSError as error:
        raise _unkept(run, error) from None


def _unkept(run: ReadableRun, error: OSError) -> Unavailable:
    directory = run.directory
    return Unavailable(
        f"what {directory.id} used can't be kept in {directory.home.usage_path}: {error.strerror}",
        hint="it was not removed; make room on that disk, or see who may write there",
        run=directory.id,
    )
