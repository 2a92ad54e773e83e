"""Runs the `--notify` command with JSON on its stdin. It can't delay, break or outlast the record.

It is nobody's workload: not in the tree (`inner.py` spares it, and whatever it starts in its turn),
not waited for, not stopped with the run. What it prints goes to notify.log, up to a bound.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.lean import signal
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import STAMP
from holdfast.process.verdict import Verdict
from holdfast.run.durable import encode, write_all
from holdfast.run.summary import summarise
from holdfast.shim.inner import NOTICE_STAMP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.supervisor import Supervisor

MOST_AT_ONCE = 8
MOST_PRINTED_BYTES = 64 << 10  # of one notice
MOST_LOG_BYTES = 1 << 20  # of all

_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_SHELL = "/bin/sh"
# $1 where to run it, $2 what the user gave, $3 the log, $4 how much of its output to keep. Who
# prints more gets SIGPIPE; where the log can't be written, what it prints goes nowhere.
_SCRIPT = """\
cd "$1" 2>/dev/null || cd /
{ (eval "$2"); code=$?; [ "$code" = 0 ] || echo "exit code $code"; } 2>&1 |
    { head -c "$4" >>"$3" || cat; } >/dev/null 2>&1
"""


class Notifier:
    """Tells the user's command what happened."""

    def __init__(self, supervisor: Supervisor, command: str) -> None:
        self._supervisor = supervisor
        self._command = command
        self._log_path = f"{supervisor.directory.path}/notify.log"
        self._told: list[ProcessIdentity] = []  # those that may live

    def ended(self) -> None:
        """The ending is recorded: a failure to tell has no place among the events any more."""
        try:
            self.tell("ended")
        except OSError as error:
            self._note(f"could not be told: {error}")

    def tell(self, event: str, **more: Any) -> None:
        """Start the command and go on. OSError when it can't be started."""
        self._told = [one for one in self._told if one.verdict() is Verdict.SAME]
        if len(self._told) >= MOST_AT_ONCE:
            self._note(f"{event} not told: {len(self._told)} earlier notices have not ended")
            return
        run = summarise(self._supervisor.spec, self._supervisor.journal.facts)
        document = {"schema": 1, "event": event, "at": wall_clock(), "run": run, **more}
        # A file and not a pipe: nobody has to read it, now or ever.
        fd = os.memfd_create("holdfast-notice", os.MFD_CLOEXEC)
        try:
            write_all(fd, encode(document) + b"\n")
            os.lseek(fd, 0, os.SEEK_SET)
            self._spawn(fd, self._note(event))
        finally:
            os.close(fd)

    def _spawn(self, stdin: int, log_path: str) -> None:
        spec = self._supervisor.spec
        environment = {name: value for name, value in spec.env.items() if name != STAMP}
        words = (self._command, log_path, str(MOST_PRINTED_BYTES))
        pid = os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", _SCRIPT, "notify", spec.cwd, *words],
            {**environment, NOTICE_STAMP: spec.id},
            file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0)],
            setsid=True,
            setsigmask=(),
            # The shim ignores some; a command expects them as they are for everybody.
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


_UNCHANGEABLE = (signal.SIGKILL, signal.SIGSTOP)
