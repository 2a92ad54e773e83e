"""Starts a shim and waits for its word. The only place in the library that makes a process.

The command line is one thread of ours and may fork, which saves an interpreter's start. A
program that embeds the library may hold any lock in another thread: there the shim is exec'ed.
Either way it is nobody's child: the caller has nothing to reap.
"""

from __future__ import annotations

import fcntl
import os
import sys

from holdfast.errors import Unavailable
from holdfast.lean import json_text, read_json, signal
from holdfast.manage.steps import Wait
from holdfast.run.crashpoints import crash_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.manage.steps import Steps

READY_SECONDS = 60.0  # an exec from a dead network drive can hang: the run then is `starting`
_LONGEST_WORDS = 4096
_BOOT = """import sys
sys.path.append(sys.argv[1])
try:
    from holdfast.shim.main import main
except BaseException as error:
    from holdfast.run.crashnote import leave_note
    leave_note(sys.argv[3], error)
    raise
main(sys.argv[2:])
"""
_TIDY = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from holdfast.manage.retention import main; main(sys.argv[2])"
)
_may_fork = False
_ahead: tuple[int, int, int] | None = None  # its go-between's PID, where to tell it, its ready end


def allow_fork() -> None:
    """For the command line alone: this process has one thread and nothing to lose."""
    global _may_fork
    _may_fork = True


def fork_ahead() -> None:
    """The same, and a shim is forked now: it loads its modules while the start is prepared.

    It ends when it is not told in time what for: a launcher that gives up or dies leaves nothing.
    """
    global _ahead
    allow_fork()
    from holdfast.process import identity  # noqa: F401 - both need these, and load them once
    from holdfast.run import directory  # noqa: F401

    words_read, words_write = os.pipe2(os.O_CLOEXEC)
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)

    def words() -> Sequence[str]:
        os.close(words_write)
        with open(words_read, encoding="ascii") as pipe:
            told: list[str] = read_json(pipe.read() or "[]")
        return told

    pid = _fork_shim(words, ready_write)
    os.close(words_read)
    os.close(ready_write)
    _ahead = (pid, words_write, ready_read)


def dismiss_the_one_ahead() -> None:
    """Let go of a shim that was forked ahead and not needed: it ends at once."""
    global _ahead
    if _ahead is not None:
        (pid, words_write, ready_read), _ahead = _ahead, None
        os.close(words_write)
        os.close(ready_read)
        os.waitpid(pid, 0)


def start_shim(mode: str, path: str, request: dict[str, Any] | None = None) -> Steps[str | None]:
    """Start a shim for the run directory; over when it is ready, or is gone.

    What it says that it failed of; None: it is ready, or ended without a word.
    """
    words = (mode, path, json_text(request))
    pid, ready_read = _tell_the_one_ahead(words) if mode == "launch" else (0, -1)
    if not pid:
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        make = _fork_now if _may_fork else _exec_shim
        try:
            pid = make(words, ready_write)
        except BaseException:
            os.close(ready_read)
            raise
        finally:
            os.close(ready_write)
    try:
        crash_point("launcher.shim-spawned")
        yield from _reap(pid)
        ready = yield Wait((ready_read,), READY_SECONDS)
        # A byte: it is ready. The end: it is gone, and the events say how far it came.
        said = os.read(ready_read, _LONGEST_WORDS) if ready else b""
    finally:
        os.close(ready_read)
    crash_point("launcher.ready")
    return said.decode(errors="replace") if len(said) > 1 else None


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


def _tell_the_one_ahead(words: Sequence[str]) -> tuple[int, int]:
    """Tell the shim that was forked ahead what it is for; its go-between and its ready end."""
    global _ahead
    if _ahead is None:
        return 0, -1
    (pid, words_write, ready_read), _ahead = _ahead, None
    try:
        os.write(words_write, json_text(words).encode())  # far less than a pipe holds
    except BrokenPipeError:  # somebody ended it
        os.close(ready_read)
        return 0, -1
    finally:
        os.close(words_write)
    return pid, ready_read


def _fork_now(words: tuple[str, str, str], ready_fd: int) -> int:
    return _fork_shim(lambda: words, ready_fd)


def _fork_shim(words: Callable[[], Sequence[str]], ready_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status, end = 70, os._exit
    try:
        os.setsid()  # go on in a grandchild, which nobody has to reap
        if os.fork():
            end(0)
        try:
            # Loaded by whom it is for: a fork has to copy whatever is touched after it.
            from holdfast.shim.main import run_shim
        except BaseException as error:
            os.closerange(0, 3)  # where descriptors ran out: room for the note
            from holdfast.run.crashnote import leave_note

            leave_note(words()[1], error)
            raise
        told = words()
        if told:
            mode, path, request = told
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
