"""The setup of a fresh worktree: a first step of the run's own tree, before its command.

It is run by the child that is to become the command, so it lies below the shim, is stopped with the
run, and the shim's loop does not wait for it. When the shim dies meanwhile the setup is stopped and
the command is not started: nothing goes on without a supervisor (docs/decisions/0111).
"""

from __future__ import annotations

import os
import select

from holdfast.errors import HoldfastError
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree_stop import stop_tree
from holdfast.record import Record
from holdfast.shim.child import EXIT_NOT_FOUND, EXIT_OURS, StartFailure, clean_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

SETUP_SECONDS = 3600.0
_GRACE_SECONDS = 2.0  # of one whose shim has died, or whose time is up
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Setup(Record):
    """A shell command, where it runs, and where its output goes."""

    command: str
    directory: str
    log_path: str
    seconds: float  # that it may take


def setup_of(spec: RunSpec, directory: RunDirectory, attempt: int) -> Setup | None:
    """What is to be done before that attempt; only the first has a fresh worktree."""
    worktree = spec.worktree or {}
    if attempt != 1 or not worktree.get("setup"):
        return None
    seconds = min(SETUP_SECONDS, spec.wanted.timeout_seconds or SETUP_SECONDS)
    return Setup(str(worktree["setup"]), str(worktree["path"]), directory.setup_log_path, seconds)


def run_setup(setup: Setup, environment: Mapping[str, str], shim_fd: int) -> StartFailure | None:
    """Run it to its end; None: it went well. `shim_fd` hangs up when the shim is gone."""
    try:
        log = os.open(setup.log_path, _LOG_FLAGS, 0o600)
        pid = os.fork()
    except OSError as error:
        return _failed(setup, f"could not be started: {error.strerror}")
    if pid == 0:
        try:
            _become_shell(setup, environment, log)
        finally:
            os._exit(EXIT_NOT_FOUND)
    os.close(log)
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (pidfd, shim_fd):
        poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(setup.seconds * 1000)}
    if pidfd not in ready:
        _stop(pid)
    _, status = os.waitpid(pid, 0)
    os.close(pidfd)
    if pidfd not in ready:
        ended = "was stopped: its shim is gone" if ready else f"took over {setup.seconds:g} s"
        return _failed(setup, ended)
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    return _failed(setup, f"exited {code}" if code > 0 else f"was ended by signal {-code}")


def _become_shell(setup: Setup, environment: Mapping[str, str], log: int) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        os.chdir(setup.directory)
        clean_signals()
        words = ["/bin/sh", "-c", setup.command]
        os.execve(words[0], words, {**environment, "PWD": setup.directory})
    except OSError as error:
        os.write(2, f"{error}\n".encode(errors="replace"))


def _stop(pid: int) -> None:
    try:
        # Our own child, not reaped yet: the number is its own.
        stop_tree(ProcessIdentity.of(pid), grace_seconds=_GRACE_SECONDS)
    except HoldfastError:
        pass  # it has just ended


def _failed(setup: Setup, what: str) -> StartFailure:
    said = f"the setup of its worktree {what}; what it printed is in {setup.log_path}"
    return StartFailure(EXIT_OURS, 0, said)
