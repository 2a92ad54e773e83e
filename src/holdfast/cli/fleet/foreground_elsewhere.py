"""`run -F --on`: streams the output of a run elsewhere, passes signals on, exits with its code.

The first ctrl-c is passed on, a second soon after stops the tree, a third kills it. A link that is
cut meanwhile is mended, and the output goes on where it was.
"""

from __future__ import annotations

import os
import select
import signal

from holdfast.cli.text import streams
from holdfast.cli.text.ending_text import UnseenEnd, exit_code_of, reason
from holdfast.errors import HoldfastError
from holdfast.fleet.reaching import ask
from holdfast.fleet.remote_output import RemoteOutput
from holdfast.manage.operations import run_steps
from holdfast.process.clock import boottime
from holdfast.process.signals import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.operations import Steps, Wait

_OURS = (
    *(signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGINT, signal.SIGHUP),
)
_AGAIN_SECONDS = 10.0  # a second ctrl-c within this time stops it
_HUNG_UP = 128 + signal.SIGHUP


class _Left(Exception):
    """Our terminal is gone: exit, and leave the run running."""


def stay_elsewhere(run: RemoteRun, args: Namespace) -> int:
    """Stream until the run has ended; its exit code."""
    from holdfast.cli.fleet.texts import who

    if not args.quiet:
        streams.complain(who(run, run.started_info()))
    foreground = _ForegroundElsewhere(run)
    with UnseenEnd():
        try:
            info = foreground.follow()
        except _Left:
            return _HUNG_UP
    code = exit_code_of(info)
    why = reason(info, code)
    if why is not None and not args.quiet:
        streams.complain(f"holdfast: {why}")
    return code


class _ForegroundElsewhere:
    def __init__(self, run: RemoteRun) -> None:
        self._run = run
        self._interrupted_at: float | None = None
        self._stops = 0
        self._wakeup, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for number in _OURS:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)

    def follow(self) -> Any:
        """Until the run has ended, and all of its output is written."""
        stream = RemoteOutput(self._run, 0)
        try:
            while (chunk := self._drive(stream.next_chunk())) is not None:
                streams.say_bytes([chunk.data])
        finally:
            stream.close()
        return self._drive(self._run._wait_steps(None))

    def _drive(self, steps: Steps[Any]) -> Any:
        """As `run_steps`, and signals are passed on meanwhile."""
        ready: set[int] | None = None
        try:
            while True:
                wait = next(steps) if ready is None else steps.send(ready)
                ready = self._await(wait)
        except StopIteration as done:
            return done.value
        finally:
            steps.close()

    def _await(self, wait: Wait) -> set[int]:
        until = None if wait.seconds is None else boottime() + wait.seconds
        poll = select.poll()
        for fd in (self._wakeup, *wait.fds):
            poll.register(fd, select.POLLIN)
        while True:
            left = None if until is None else max(0.0, until - boottime()) * 1000
            found = {fd for fd, _ in poll.poll(left)}
            if self._wakeup in found:
                for number in os.read(self._wakeup, 4096):
                    self._signalled(number)
            ready = found.intersection(wait.fds)
            if ready or (until is not None and boottime() >= until):
                return ready

    def _signalled(self, number: int) -> None:
        if number == signal.SIGHUP:
            raise _Left
        try:
            if number == signal.SIGINT:
                self._interrupted()
            else:
                self._pass_on(number)
        except HoldfastError as error:
            streams.complain(f"holdfast: {signal_name(number)} was not passed on: {error}")

    def _interrupted(self) -> None:
        before, self._interrupted_at = self._interrupted_at, boottime()
        if self._stops == 0 and (before is None or boottime() - before > _AGAIN_SECONDS):
            self._pass_on(signal.SIGINT)
            return
        self._stops += 1
        is_first = self._stops == 1
        streams.complain("holdfast: stopping the run" if is_first else "holdfast: killing it")
        self._run.stop(grace=None if is_first else 0)

    def _pass_on(self, number: int) -> None:
        name = signal_name(number)
        reply = run_steps(
            ask(self._run._fleet, self._run.placement, ["signal", name, self._run.id])
        )
        if reply.code:
            streams.complain(f"holdfast: {name} was not passed on: {reply.errors}")


def _noted(_number: int, _frame: object) -> None:
    """Python writes the number to the wake-up pipe; the loop does the rest."""
