"""The workload's standard files. Its output is its own: the log file itself, not a pipe of ours.

So output survives the shim and its faults, and costs nothing. A `--stdin pipe` is a named FIFO
that the workload holds open itself: a shim's death is not an end of input, and an adopter can
write to it again. (A terminal is another matter: `terminal.py`.)
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.shim.child import WaitingChild, fork_waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec
    from holdfast.shim.terminal import Ends

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def fork_child(spec: RunSpec, directory: RunDirectory) -> tuple[WaitingChild, Ends | None]:
    """Fork the waiting child with its standard files in place; with --pty also its terminal."""
    if spec.pty:
        return _fork_on_terminal(spec)
    opened: list[int] = []
    try:
        opened.append(_open_stdin(spec, directory))
        opened.append(os.open(directory.output_path, LOG_FLAGS, 0o600))
        if spec.wanted.split_stderr:
            opened.append(os.open(directory.stderr_path, LOG_FLAGS, 0o600))
        waiting = fork_waiting(
            spec.command,
            spec.cwd,
            spec.env,
            stdin=opened[0],
            stdout=opened[1],
            stderr=opened[-1],
        )
    finally:
        for fd in opened:
            os.close(fd)
    return waiting, None


def _fork_on_terminal(spec: RunSpec) -> tuple[WaitingChild, Ends]:
    from holdfast.shim.terminal import make_controlling, open_terminal

    ends = open_terminal(spec.window)
    environment = {"TERM": "xterm-256color", **spec.env}
    for name in ("LINES", "COLUMNS"):  # of the caller's window; this one's size is the terminal's
        environment.pop(name, None)
    try:
        waiting = fork_waiting(
            spec.command,
            spec.cwd,
            environment,
            stdin=ends.workloads,
            stdout=ends.workloads,
            stderr=ends.workloads,
            prepare=make_controlling,
        )
    except OSError:
        ends.close()
        raise
    return waiting, ends


def log_size(directory: RunDirectory) -> int:
    """How much output there is already: a restart or a resumed log has some."""
    try:
        return os.stat(directory.output_path).st_size
    except FileNotFoundError:
        return 0


def _open_stdin(spec: RunSpec, directory: RunDirectory) -> int:
    if spec.wanted.stdin == "pipe":
        if not os.path.exists(directory.stdin_path):
            os.mkfifo(directory.stdin_path, 0o600)
        # Opened for both, the workload is a writer of its own input: no end of file by our death.
        return os.open(directory.stdin_path, os.O_RDWR | os.O_CLOEXEC)
    if spec.wanted.stdin == "file" and spec.stdin_path is not None:
        return _open_at_once(spec.stdin_path)
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _open_at_once(path: str) -> int:
    """Open a file for the workload to read; what would keep us waiting for a writer is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            raise OSError(errno.ESPIPE, "is a FIFO: nobody can tell when it has a writer", path)
        os.set_blocking(fd, True)  # the workload shares this open file
    except OSError:
        os.close(fd)
        raise
    return fd


class StdinWriter:
    """Writes to the run's stdin without ever blocking the loop."""

    LARGEST_BACKLOG = 1 << 20

    def __init__(self, directory: RunDirectory) -> None:
        self._path = directory.stdin_path
        self._waiting = bytearray()

    def write(self, data: bytes) -> str | None:
        """Take the bytes, or say why not."""
        if len(self._waiting) + len(data) > self.LARGEST_BACKLOG:
            return "the workload does not read its input: more than 1 MiB waits already"
        self._waiting += data
        return None

    def flush(self) -> bool:
        """Write what fits into the pipe; True when nothing waits any more."""
        if not self._waiting:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while self._waiting:
                written = os.write(fd, self._waiting[:4096])
                del self._waiting[:written]
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True
