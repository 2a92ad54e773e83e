"""Runs the `--notify` command with JSON on its stdin. It can't delay, break or outlast the record.

It is no part of the run: not in its tree (`run/inner_runs.py` spares it, and whatever it starts in
its turn), not waited for, not stopped with the run. What it prints goes to notify.log, up to a
bound. A failed notice often ends after the run, so it writes notify.failed itself.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.lean import signal
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.this_host import STAMP
from holdfast.process.verdict import Verdict
from holdfast.run.atomic_files import encode, write_all
from holdfast.run.inner_runs import NOTICE_STAMP
from holdfast.shim.summary import summarise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.supervisor import Supervisor

MOST_AT_ONCE = 8
MOST_PRINTED_BYTES = 64 << 10  # of one notice
MOST_LOG_BYTES = 1 << 20  # of all

_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_SHELL = "/bin/sh"
# $1 the directory to run it in, $2 the user's command, $3 the log, $4 how many bytes of its output
# to keep, $5 the file that notes a failure, $6 the event that it was told of. A command that prints
# more than $4 gets SIGPIPE. Where the log can't be written, its output is read and dropped.
_SCRIPT = """\
cd "$1" 2>/dev/null || cd /
{ (eval "$2"); code=$?; [ "$code" = 0 ] || {
    echo "exit code $code"; (umask 077; echo "$6: exit code $code" >"$5") 2>/dev/null; }
} 2>&1 | { head -c "$4" >>"$3" || cat; } >/dev/null 2>&1
"""


class Notifier:
    """Tells the user's command what happened."""

    def __init__(self, supervisor: Supervisor, command: str) -> None:
        self._supervisor = supervisor
        self._command = command
        self._log_path = f"{supervisor.directory.path}/notify.log"
        self._failed_path = supervisor.directory.notify_failed_path
        asked = supervisor.spec.wanted.notify_on
        self._kinds = None if asked is None else asked.split(",")  # None: all
        self._told: list[ProcessIdentity] = []  # those that may live

    def ended(self) -> None:
        """The ending is recorded: a failure to tell has no place among the events any more."""
        try:
            self.tell("ended")
        except OSError as error:
            self._fail("ended", f"could not be told: {error}")

    def tell(self, event: str, **more: Any) -> None:
        """Start the command and go on. OSError when it can't be started."""
        if not self._is_wanted(event):
            return
        self._told = [one for one in self._told if one.verdict() is Verdict.SAME]
        if len(self._told) >= MOST_AT_ONCE:
            self._fail(event, f"not told: {len(self._told)} earlier notices have not ended")
            return
        run = summarise(self._supervisor.spec, self._supervisor.journal.facts)
        document = {"schema": 1, "event": event, "at": wall_clock(), "run": run, **more}
        # A file and not a pipe: it needs no reader.
        fd = os.memfd_create("holdfast-notice", os.MFD_CLOEXEC)
        try:
            write_all(fd, encode(document) + b"\n")
            os.lseek(fd, 0, os.SEEK_SET)
            self._spawn(fd, self._note(event), event)
        finally:
            os.close(fd)

    def _is_wanted(self, event: str) -> bool:
        if self._kinds is None or event in self._kinds:
            return True
        outcome = self._supervisor.journal.facts.outcome
        has_failed = outcome is not None and outcome.is_failure
        return event == "ended" and has_failed and "failed" in self._kinds

    def _fail(self, event: str, why: str) -> None:
        self._note(f"{event} {why}")
        try:
            with open(self._failed_path, "wb", opener=_private) as file:
                file.write(f"{event}: {why}\n".encode())
        except OSError:  # a full disk
            return

    def _spawn(self, stdin: int, log_path: str, event: str) -> None:
        spec = self._supervisor.spec
        environment = {name: value for name, value in spec.env.items() if name != STAMP}
        words = (self._command, log_path, str(MOST_PRINTED_BYTES), self._failed_path, event)
        pid = os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", _SCRIPT, "notify", spec.cwd, *words],
            {**environment, NOTICE_STAMP: spec.id},
            file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0)],
            setsid=True,
            setsigmask=(),
            # The shim ignores some; a command expects the defaults.
            setsigdef=[s for s in signal.valid_signals() if s not in _UNCHANGEABLE],
        )
        try:
            self._told.append(ProcessIdentity.of(pid))
        except HoldfastError:  # it is over already; it is our child, so the number was its own
            return

    def _note(self, text: str) -> str:
        """A line in the log; where to print to, which is nowhere once the log is long."""
        try:
            fd = os.open(self._log_path, _LOG_FLAGS, 0o600)
        except OSError:
            return os.devnull
        try:
            if os.fstat(fd).st_size > MOST_LOG_BYTES:
                return os.devnull
            write_all(fd, f"{wall_clock()} {text}\n".encode())
        except OSError:  # a full disk
            return os.devnull
        finally:
            os.close(fd)
        return self._log_path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


_UNCHANGEABLE = (signal.SIGKILL, signal.SIGSTOP)
