"""Starts a fresh interpreter for a shim, detached from the process that starts it.

It goes on in a grandchild: no terminal can become its own, and the caller has only the process
between to reap, which ends at once.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import Unavailable
from holdfast.lean import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DETACH = """import os, sys
os.setsid()
try:
    is_between = os.fork() != 0
except OSError as error:
    os._exit(error.errno)
if is_between:
    os._exit(0)
sys.path.append(sys.argv[1])
"""
RUN_SHIM = """try:
    import holdfast.importing
    from holdfast.shim.main import run_shim
except BaseException as error:
    from holdfast.run.last_words.crash_note import leave_note
    leave_note(sys.argv[3], error)
    raise
mode, path, ready_fd, request = sys.argv[2:]
run_shim(mode, path, int(ready_fd), request)
"""


def spawn(
    program: str,
    words: Sequence[str],
    file_actions: Sequence[tuple[int, int, int] | tuple[int, int, str, int, int]],
    environment: Mapping[str, str] | None = None,
) -> int:
    """The PID of the process between, which has to be reaped. OSError or Unavailable."""
    if not sys.executable:
        raise Unavailable(
            "this program does not know its Python interpreter (sys.executable is empty)",
            hint="set sys.executable to a python3 before starting runs",
        )
    package = os.path.abspath(f"{__file__}/../../../..")  # where the package holdfast lies
    devnull = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", _DETACH + program, package, *words],
        os.environ if environment is None else environment,
        file_actions=[*devnull, *file_actions],
        setsigmask=[],
        setsigdef=set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP},
    )
