"""Runs the `--notify` command with JSON on its stdin. It can't delay or break the run.

It is nobody's workload: not in the tree, not waited for, and not stopped with the run.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import STAMP
from holdfast.run.durable import encode
from holdfast.run.summary import summarise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.supervisor import Supervisor

_LOG = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_SHELL = "/bin/sh"


class Notifier:
    """Tells the user's command what happened."""

    def __init__(self, supervisor: Supervisor, command: str) -> None:
        self._supervisor = supervisor
        self._command = command

    def ended(self) -> None:
        """The ending is recorded."""
        self.tell("ended")

    def tell(self, event: str, **more: Any) -> None:
        """Start the command and go on; a failure is recorded and nothing else."""
        supervisor = self._supervisor
        run = summarise(supervisor.spec, supervisor.journal.facts)
        document = {"schema": 1, "event": event, "at": wall_clock(), "run": run, **more}
        fd = os.memfd_create("holdfast-notice", os.MFD_CLOEXEC)
        try:
            os.write(fd, encode(document) + b"\n")
            os.lseek(fd, 0, os.SEEK_SET)
            self._spawn(fd)
        finally:
            os.close(fd)

    def _spawn(self, stdin: int) -> None:
        spec = self._supervisor.spec
        environment = {name: value for name, value in spec.env.items() if name != STAMP}
        log = os.path.join(self._supervisor.directory.path, "notify.log")
        pid = os.posix_spawn(
            _SHELL,
            [_SHELL, "-c", self._command],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, _LOG, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=0,
        )
        try:
            self._supervisor.spared.add(ProcessIdentity.of(pid))
        except HoldfastError:  # it is over already; it is our child, so the number was its own
            return
