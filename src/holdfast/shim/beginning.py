"""Begins an attempt: forks the child, records its identity, and only then lets it exec the command.

A first start waits for what is imported here, so it is little: all else is loaded while the command
runs. The workload's output is its own, the log file itself and no pipe of ours, so it survives
the shim and its faults, and costs nothing. A `--stdin pipe` is a named FIFO that the workload
holds open itself: a shim's death is not an end of input, and an adopter can write to it again. (A
terminal is another matter: `pty/terminal.py`.)
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.lean import json_text
from holdfast.process.identity import HeldProcess, hold_pid
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.shim.child import (
    EXIT_OURS,
    SETUP_DONE,
    StartFailure,
    WaitingChild,
    fork_waiting,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec
    from holdfast.shim.journal import Journal
    from holdfast.shim.pty.terminal import Ends
    from holdfast.shim.setup import Setup

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class BegunAttempt:
    """A child whose identity is recorded, and which waits to become the command."""

    def __init__(self, number: int, waiting: WaitingChild, terminal: Ends | None) -> None:
        """If its identity can't be captured, its pipe is closed: it exits and runs nothing."""
        self.number, self.waiting, self.terminal = number, waiting, terminal
        try:
            self.root: HeldProcess = hold_pid(waiting.pid)
        except BaseException:
            waiting.close()
            if terminal is not None:
                terminal.close()
            raise
        self.log_bytes = 0  # how much output there was before
        self.awaits_setup = False  # the setup of its worktree comes before the command

    def read_report(self) -> bytes | None:
        """Why it could not become the command; empty: it did. None: more follows."""
        report = os.read(self.waiting.report_fd, 65536)
        if self.awaits_setup and report.startswith(SETUP_DONE):
            self.awaits_setup = False
            return report.removeprefix(SETUP_DONE) or None
        if report or not self.awaits_setup:
            return report
        failure = StartFailure(EXIT_OURS, 0, "it was killed during the setup of its worktree")
        return json_text(failure.to_json()).encode()

    def release(self) -> None:
        """Let it exec: its record is on disk."""
        self.waiting.release()
        crash_point("shim.released")


def begin_attempt(
    spec: RunSpec, directory: RunDirectory, journal: Journal, number: int, **more: Any
) -> BegunAttempt:
    """Fork the child and record its identity; `release` is what follows.

    What fails before it is recorded changes nothing: it can be tried again. `more`: what else is
    recorded of it.
    """
    setup = _setup_of(spec, directory, number) if spec.worktree is not None else None
    begun = BegunAttempt(number, *_fork_child(spec, directory, setup))
    begun.awaits_setup = setup is not None
    crash_point("shim.forked")
    begun.log_bytes = log_size(directory)
    root = begun.root.identity.to_json()
    journal.record(Kind.ATTEMPT_STARTED, attempt=number, root=root, **more)
    crash_point("shim.attempt-recorded")
    return begun


def not_recorded() -> OSError:
    """The error when the child can't be recorded: it is not released to exec."""
    return OSError(errno.ENOSPC, "the disk does not take the record of the start")


def log_size(directory: RunDirectory) -> int:
    """How much output there is already: a restart or a resumed log has some."""
    try:
        return os.stat(directory.output_path).st_size
    except FileNotFoundError:
        return 0


def _setup_of(spec: RunSpec, directory: RunDirectory, number: int) -> Setup | None:
    from holdfast.shim.setup import setup_of

    return setup_of(spec, directory, number)


def _fork_child(
    spec: RunSpec, directory: RunDirectory, setup: Setup | None
) -> tuple[WaitingChild, Ends | None]:
    """Fork the waiting child with its standard files in place; with --pty also its terminal."""
    if spec.pty:
        return _fork_on_terminal(spec, setup)
    opened: list[int] = []
    try:
        opened.append(_open_stdin(spec, directory))
        opened.append(os.open(directory.output_path, LOG_FLAGS, 0o600))
        if spec.wanted.split_stderr:
            opened.append(os.open(directory.stderr_path, LOG_FLAGS, 0o600))
        waiting = fork_waiting(
            spec.argv,
            spec.cwd,
            spec.env,
            stdin=opened[0],
            stdout=opened[1],
            stderr=opened[-1],
            secrets_path=spec.wanted.secret_env_file,
            setup=setup,
        )
    finally:
        for fd in opened:
            os.close(fd)
    return waiting, None


def _fork_on_terminal(spec: RunSpec, setup: Setup | None) -> tuple[WaitingChild, Ends]:
    from holdfast.shim.pty.terminal import make_controlling, open_terminal

    ends = open_terminal(spec.window)
    environment = {"TERM": "xterm-256color", **spec.env}
    for name in ("LINES", "COLUMNS"):  # of the caller's window; this one's size is the terminal's
        environment.pop(name, None)
    try:
        waiting = fork_waiting(
            spec.argv,
            spec.cwd,
            environment,
            stdin=ends.workloads,
            stdout=ends.workloads,
            stderr=ends.workloads,
            prepare=make_controlling,
            secrets_path=spec.wanted.secret_env_file,
            setup=setup,
        )
    except OSError:
        ends.close()
        raise
    return waiting, ends


def _open_stdin(spec: RunSpec, directory: RunDirectory) -> int:
    if spec.wanted.stdin == "pipe":
        if not os.path.exists(directory.stdin_path):
            os.mkfifo(directory.stdin_path, 0o600)
        # O_RDWR: the workload holds a write end itself, so our death is no EOF.
        return os.open(directory.stdin_path, os.O_RDWR | os.O_CLOEXEC)
    if spec.wanted.stdin == "file" and spec.stdin_path is not None:
        return _open_at_once(spec.stdin_path)
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _open_at_once(path: str) -> int:
    """Open a file for the workload to read; what would keep us waiting for a writer is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            raise OSError(errno.ESPIPE, "is a FIFO: whether it has a writer can't be seen", path)
        os.set_blocking(fd, True)  # the workload shares this open file
    except OSError:
        os.close(fd)
        raise
    return fd
