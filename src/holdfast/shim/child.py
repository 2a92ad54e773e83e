"""Starts the workload: the only place where a shim forks.

The child waits on a pipe until its identity is on disk and only then becomes the command. If
the shim dies first, the pipe ends and the child exits without having run anything.
"""

from __future__ import annotations

import errno
import os

from holdfast.lean import json_text, signal
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EXIT_OURS, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 125, 126, 127


class StartFailure(Record):
    """Why the command could not be started, and the code that says so."""

    exit_code: int
    errno: int
    error: str

    def to_json(self) -> dict[str, object]:
        """For the pipe and for the event."""
        return self.as_dict()


class WaitingChild:
    """A forked child that has not become the command yet."""

    def __init__(self, pid: int, go_fd: int, report_fd: int) -> None:
        self.pid = pid
        self._go_fd = go_fd
        self.report_fd = report_fd  # ends empty once the exec worked, else brings a StartFailure

    def release(self) -> None:
        """Let it exec: its identity is recorded now."""
        os.write(self._go_fd, b"!")
        os.close(self._go_fd)
        self._go_fd = -1

    def abandon(self) -> None:
        """It exits without having run anything."""
        if self._go_fd >= 0:
            os.close(self._go_fd)
            self._go_fd = -1


def leave_session() -> None:
    """Go on in a grandchild: no terminal can be ours, and no caller has to reap us."""
    os.setsid()
    if os.fork():
        os._exit(0)


def fork_waiting(
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    prepare: Callable[[], None] | None = None,
) -> WaitingChild:
    """Fork a child in a session of its own that waits to become the command.

    `prepare` runs in the child just before the exec (the controlling terminal of a PTY).
    """
    go_read, go_write = os.pipe2(os.O_CLOEXEC)
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        status = EXIT_OURS
        try:
            os.close(go_write)
            os.setsid()
            if os.read(go_read, 1) == b"!":
                failure = _become(command, cwd, environment, (stdin, stdout, stderr), prepare)
                os.write(report_write, json_text(failure.to_json()).encode())
                status = failure.exit_code
        finally:
            os._exit(status)
    os.close(go_read)
    os.close(report_write)
    return WaitingChild(pid, go_write, report_read)


def _become(
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    standard: tuple[int, int, int],
    prepare: Callable[[], None] | None,
) -> StartFailure:
    """Exec the command; returns only when that failed."""
    try:
        for target, fd in enumerate(standard):
            os.dup2(fd, target, inheritable=True)
        if prepare is not None:
            prepare()
        os.chdir(cwd)
    except OSError as error:
        hint = f"the working directory {cwd!r} can't be entered: {error.strerror}"
        return StartFailure(EXIT_OURS, error.errno or 0, hint)
    _clean_signals()
    return _exec(command, cwd, environment)


def _clean_signals() -> None:
    """Default dispositions and an empty mask, whatever the launcher was started with."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _exec(command: Sequence[str], cwd: str, environment: Mapping[str, str]) -> StartFailure:
    name = command[0]
    if not name:
        return StartFailure(EXIT_NOT_FOUND, errno.ENOENT, "the command's name is empty")
    if "/" in name:
        return _try(name, command, environment)
    worst: StartFailure | None = None
    for folder in environment.get("PATH", os.defpath).split(":"):
        # An empty entry of PATH means the working directory.
        failure = _try(os.path.join(folder or cwd, name), command, environment)
        if failure.exit_code != EXIT_NOT_FOUND:
            worst = worst or failure
    return worst or StartFailure(EXIT_NOT_FOUND, errno.ENOENT, f"{name}: command not found in PATH")


def _try(path: str, command: Sequence[str], environment: Mapping[str, str]) -> StartFailure:
    try:
        os.execve(path, list(command), dict(environment))
    except OSError as error:
        return _explain(path, error)
    except ValueError as error:  # a NUL byte in a word
        return StartFailure(EXIT_OURS, errno.EINVAL, f"the command can't be passed on: {error}")
    raise AssertionError("exec returned")


def _explain(path: str, error: OSError) -> StartFailure:
    number = error.errno or 0
    if number in (errno.ENOENT, errno.ENOTDIR):
        if not os.path.lexists(path):
            return StartFailure(EXIT_NOT_FOUND, number, f"{path}: no such file")
        return StartFailure(
            EXIT_NOT_EXECUTABLE,
            number,
            f"{path}: the interpreter that its first line names is missing",
        )
    if number == errno.ENOEXEC:
        message = f"{path}: not a program that this machine can run; a script needs a #! line"
        return StartFailure(EXIT_NOT_EXECUTABLE, number, message)
    if os.path.isdir(path):
        return StartFailure(EXIT_NOT_EXECUTABLE, number, f"{path}: is a directory")
    if number == errno.E2BIG:
        message = "the arguments and the environment are too large for the kernel"
        return StartFailure(EXIT_NOT_EXECUTABLE, number, message)
    return StartFailure(EXIT_NOT_EXECUTABLE, number, f"{path}: {error.strerror}")
