"""Starts the workload: the only place where a shim forks.

The child waits on a pipe until its identity is on disk and only then becomes the command. If
the shim dies first, the pipe ends and the child exits without having run anything. With a setup
(`setup.py`) the child runs that before the command, and the pipe stays until the exec.
"""

from __future__ import annotations

import errno
import os

from holdfast.lean import json_text, read_json, signal
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.shim.setup import Setup

EXIT_OURS, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 125, 126, 127
SETUP_DONE = b"\n"  # in the report, before the exec: the worktree's setup went well
_LONGEST_ERROR = 300  # characters, each 12 bytes as JSON at most: the report is one whole write


class StartFailure(Record):
    """Why the command could not be started, and the code that says so."""

    exit_code: int
    errno: int
    error: str

    def to_json(self) -> dict[str, object]:
        """For the pipe and for the event."""
        return {**self.as_dict(), "error": _brief(self.error)}


def read_report(report: bytes) -> dict[str, Any]:
    """What a child that could not become the command said, however little of it came."""
    try:
        failure = read_json(str(report, "utf-8"))
        return StartFailure(**failure).as_dict()
    except (ValueError, TypeError):
        return StartFailure(EXIT_OURS, 0, "the command could not be started").as_dict()


class WaitingChild:
    """A forked child that has not become the command yet."""

    def __init__(self, pid: int, go_fd: int, report_fd: int) -> None:
        self.pid = pid
        self._go_fd = go_fd
        self.report_fd = report_fd  # ends empty once the exec worked, else brings a StartFailure

    def release(self) -> None:
        """Let it exec: its identity is recorded now."""
        try:
            os.write(self._go_fd, b"!")
        except BrokenPipeError:  # it was killed: its end is seen as any other's
            pass

    def close(self) -> None:
        """Unless it was released, it exits without having run anything.

        Closing this end of the pipe tells a child in its setup that its shim is gone.
        """
        self._close_go()
        if self.report_fd >= 0:
            os.close(self.report_fd)
            self.report_fd = -1

    def _close_go(self) -> None:
        if self._go_fd >= 0:
            os.close(self._go_fd)
            self._go_fd = -1


def fork_waiting(
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    prepare: Callable[[], None] | None = None,
    secrets_path: str | None = None,
    setup: Setup | None = None,
) -> WaitingChild:
    """Fork a child in a session of its own that waits to become the command.

    `setup` is run by it first. `prepare` runs in the child just before the exec (the controlling
    terminal of a PTY). The file of secrets is read there too: so no shim ever has them in its
    memory.
    """
    ends: list[int] = []
    try:
        ends += os.pipe2(os.O_CLOEXEC)
        ends += os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
    except OSError:  # out of descriptors or processes: close what was opened
        for fd in ends:
            os.close(fd)
        raise
    go_read, go_write, report_read, report_write = ends
    if pid == 0:
        status = EXIT_OURS
        try:
            os.close(go_write)
            signal.set_wakeup_fd(-1)  # signals to the child must not wake the shim's loop
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            if os.read(go_read, 1) == b"!":
                secrets, standard = _secrets(secrets_path), (stdin, stdout, stderr)
                failure = secrets if isinstance(secrets, StartFailure) else None
                whole = {**environment, **secrets} if isinstance(secrets, dict) else {}
                if failure is None and setup is not None:
                    failure = _set_up(setup, whole, go_read, report_write)
                if failure is None:
                    failure = _become(command, cwd, whole, standard, prepare)
                os.write(report_write, json_text(failure.to_json()).encode())
                status = failure.exit_code
        finally:
            os._exit(status)
    os.close(go_read)
    os.close(report_write)
    return WaitingChild(pid, go_write, report_read)


def _set_up(
    setup: Setup, environment: Mapping[str, str], go_fd: int, report_fd: int
) -> StartFailure | None:
    from holdfast.shim.setup import run_setup

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    failure = run_setup(setup, environment, go_fd)
    if failure is None:
        os.write(report_fd, SETUP_DONE)
    return failure


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
    except OSError as error:
        why = f"its standard files can't be set up: {error.strerror}"
        return StartFailure(EXIT_OURS, error.errno or 0, why)
    try:
        os.chdir(cwd)
    except OSError as error:
        hint = f"the working directory {cwd!r} can't be entered: {error.strerror}"
        return StartFailure(EXIT_OURS, error.errno or 0, hint)
    clean_signals()
    return _exec(command, cwd, environment)


def _secrets(path: str | None) -> dict[str, str] | StartFailure:
    """What `--secret-env-file` adds to the environment of this exec; nothing starts without it."""
    if path is None:
        return {}
    try:
        from holdfast.env_file import read_secret_env_file

        return read_secret_env_file(path)
    except Exception as error:  # noqa: BLE001 - whatever it is, the command is not started
        return StartFailure(EXIT_OURS, 0, f"{error}; nothing is started without it")


def clean_signals() -> None:
    """For an exec: nothing ignored and an empty mask, whatever the launcher was started with.

    What has a handler gets its default by the exec itself.
    """
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
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
        path = f"{folder or cwd}/{name}"
        if _is_missing(path):  # a look costs a tenth of an exec that fails
            continue
        failure = _try(path, command, environment)
        if failure.exit_code != EXIT_NOT_FOUND:
            worst = worst or failure
    return worst or StartFailure(EXIT_NOT_FOUND, errno.ENOENT, f"{name}: command not found in PATH")


def _is_missing(path: str) -> bool:
    """Whether there is no such file; not, whether it could be executed."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):  # the exec says why
        return False
    return False


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
    if number == errno.ENAMETOOLONG:
        message = f"{path}: no file has so long a name; is the command missing before a prompt?"
        return StartFailure(EXIT_NOT_FOUND, number, message)
    if number == errno.ENOEXEC:
        message = f"{path}: not a program that this machine can run; a script needs a #! line"
        return StartFailure(EXIT_NOT_EXECUTABLE, number, message)
    if os.path.isdir(path):
        return StartFailure(EXIT_NOT_EXECUTABLE, number, f"{path}: is a directory")
    if number == errno.E2BIG:
        message = "the arguments and the environment are too large for the kernel"
        return StartFailure(EXIT_NOT_EXECUTABLE, number, message)
    return StartFailure(EXIT_NOT_EXECUTABLE, number, f"{path}: {error.strerror}")


def _brief(text: str) -> str:
    """A path, or a prompt that was taken for one, may be of any length."""
    if len(text) <= _LONGEST_ERROR:
        return text
    half = _LONGEST_ERROR // 2
    return f"{text[:half]} [...] {text[-half:]}"
