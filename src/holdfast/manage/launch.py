"""Starts a shim and waits for its word. The only place in the library that makes a process.

The command line is one thread of ours and may fork, which saves an interpreter's start. A
program that embeds the library may hold any lock in another thread: there the shim is exec'ed.
Either way it is nobody's child: the caller has nothing to reap.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys

from holdfast.errors import Unavailable
from holdfast.manage.steps import Wait
from holdfast.run.crashpoints import crash_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.steps import Steps

READY_SECONDS = 60.0  # an exec from a dead network drive can hang: the run then is `starting`
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from holdfast.shim.main import main; main(sys.argv[2:])"
)
_TIDY = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from holdfast.manage.retention import main; main(sys.argv[2])"
)
_may_fork = False


def allow_fork() -> None:
    """For the command line alone: this process has one thread and nothing to lose."""
    global _may_fork
    _may_fork = True


def start_shim(mode: str, path: str, request: dict[str, Any] | None = None) -> Steps[None]:
    """Start a shim for the run directory; over when it is ready, or is gone."""
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    words = (mode, path, json.dumps(request))
    try:
        try:
            pid = _fork_shim(words, ready_write) if _may_fork else _exec_shim(words, ready_write)
        finally:
            os.close(ready_write)
        crash_point("launcher.shim-spawned")
        yield from _reap(pid)
        yield Wait((ready_read,), READY_SECONDS)
        # A byte: it is ready. The end: it is gone, and the events say how far it came.
    finally:
        os.close(ready_read)
    crash_point("launcher.ready")


def _reap(pid: int) -> Steps[None]:
    """Wait for the go-between, which exits as soon as it has made the shim."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # the program reaps, or ignores, its children itself
        return
    try:
        yield Wait((pidfd,))
    finally:
        # Also when whoever waits gave up: it ends by itself at once, and must leave no zombie.
        try:
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        except ChildProcessError:
            pass
        os.close(pidfd)


def _fork_shim(words: tuple[str, str, str], ready_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status, end = 70, os._exit
    try:
        os.setsid()  # go on in a grandchild, which nobody has to reap
        if os.fork():
            end(0)
        # Loaded by whom it is for: a fork has to copy whatever is touched after it.
        from holdfast.shim.main import run_shim

        mode, path, request = words
        run_shim(mode, path, ready_fd, request)
        status = 0
    finally:
        end(status)


def _exec_shim(words: tuple[str, str, str], ready_fd: int) -> int:
    mode, path, request = words
    # dup2 of a descriptor onto itself would keep its close-on-exec flag: move it out of the way.
    spare = fcntl.fcntl(ready_fd, fcntl.F_DUPFD_CLOEXEC, 10)
    try:
        return _spawn(_BOOT, (mode, path, "3", request), [(os.POSIX_SPAWN_DUP2, spare, 3)])
    except OSError as error:
        raise Unavailable(f"a shim can't be started: {error.strerror}", hint="try again") from error
    finally:
        os.close(spare)


def start_tidying(home_path: str) -> Steps[None]:
    """Have old runs removed by a process of its own that nobody waits for."""
    try:
        pid = _spawn(_TIDY, (home_path,), [])
    except (OSError, Unavailable):  # the next start tries again
        return
    yield from _reap(pid)


def _spawn(program: str, words: Sequence[str], file_actions: list[tuple[int, int, int]]) -> int:
    if not sys.executable:
        raise Unavailable(
            "this program does not know its Python interpreter (sys.executable is empty)",
            hint="set sys.executable to a python3 before starting runs",
        )
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    devnull = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-c", program, package, *words],
        os.environ,
        file_actions=[*devnull, *file_actions],
        setsigmask=[],
        setsigdef=set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP},
    )
