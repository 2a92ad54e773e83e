"""Why a Python program that works may have printed nothing yet. Pure; a hint, no finding.

Python keeps what it prints in a buffer of 8 KiB when its stdout is no terminal. People take a run
that is silent from its start for one that hangs.
"""

from __future__ import annotations

import os

from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.manage.info import RunInfo

QUIET_SECONDS = 10.0  # a program that starts has often nothing to say so soon
HINT = (
    "Python keeps its output back when that is no terminal: "
    "-e PYTHONUNBUFFERED=1, or python -u, shows it as it comes"
)
_FOR_SILENCE = (Outcome.STALLED, Outcome.TIMED_OUT)  # what it printed is lost
_WITH_VALUE = ("-W", "-X")


def buffering_hint(info: RunInfo, environment: Mapping[str, str]) -> str:
    """What to try with a Python run that has been silent from its start; "": nothing."""
    is_concerned = info.is_active or info.outcome in _FOR_SILENCE
    is_silent = is_concerned and info.log_bytes == 0 and info.last_output_at is None
    if not is_silent or info.pty or (info.duration_seconds or 0) < QUIET_SECONDS:
        return ""
    workload = info.workload
    if workload is None or not _is_python(workload.exe or workload.comm):
        return ""
    if environment.get("PYTHONUNBUFFERED") or _has_u(workload.cmdline or ()):
        return ""
    is_set = any("PYTHONUNBUFFERED=" in word for word in info.command or ())  # by a wrapper
    return "" if is_set else HINT


def _is_python(program: str | None) -> bool:
    name = os.path.basename(program or "")
    return name.rstrip("0123456789.") in ("python", "pypy")


def _has_u(cmdline: Sequence[str]) -> bool:
    """Whether the interpreter was given -u, alone or among others: `-Bu`."""
    words = iter(cmdline[1:])
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word.startswith("--") and word != "--":
            continue
        elif not word.startswith("-") or word[:2] in ("-", "--", "-c", "-m"):
            return False  # the program begins
        elif "u" in word and word[:2] not in _WITH_VALUE:
            return True
    return False
