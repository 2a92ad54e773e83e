"""`run -F`: streams the run's output, forwards signals to it, exits with its code.

The run is supervised like any other. The first ctrl-c is forwarded, a second within the grace
stops the tree, a third kills it. A closed terminal or output pipe leaves the run running.
"""

from __future__ import annotations

import gc
import os
import select
import signal

from holdfast.cli.pump import Pump
from holdfast.cli.text import streams
from holdfast.cli.text.ending_text import UnseenEnd, exit_code_of, reason
from holdfast.errors import Failed
from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import ask_shim_of
from holdfast.manage.state import read_facts
from holdfast.manage.waiting import wait_for_runs
from holdfast.process.clock import boottime
from holdfast.process.signals import signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps, Wait
    from holdfast.manage.run import Run
    from holdfast.run.spec import RunSpec

_PASSED_ON = (signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
_OF_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # a terminal sends these to a whole group
_OURS = (*_PASSED_ON, signal.SIGINT, signal.SIGHUP)
_CANCELLING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)  # a run that is still queued
_RELEASE_SECONDS = 5.0
_NOTICE_SECONDS = 10.0
_HUNG_UP = 128 + signal.SIGHUP


class _Left(Exception):
    """Our terminal is gone: exit, and leave the run running."""


def hold_signals() -> None:
    """Until the run is started: a signal in the meantime is for the run, and stays pending.

    Blocked, not caught: a forked shim must not inherit our handlers and wake-up descriptor.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)


def stay(run: Run, args: Namespace) -> int:
    """Stream until the run has ended; its exit code."""
    with UnseenEnd():
        return _stay(run, args)


def _stay(run: Run, args: Namespace) -> int:
    from holdfast.cli.text.start_text import announce, hint_at_word

    gc.enable()  # from here on it may last
    is_init = os.getpid() == 1
    spec = run.directory.known_spec()
    foreground = Foreground(run, spec, is_init=is_init)
    announce(run, args, spec)
    try:
        info = foreground.follow()
    except _Left:
        return _HUNG_UP
    except streams.OutputLost as lost:
        if lost.is_quiet:
            raise
        hint = f"it does not harm the run: holdfast status {run.id}"
        raise Failed(f"the output can't be written: {lost}", hint=hint) from lost
    code = exit_code_of(info)
    why = reason(info, code)
    if why is not None and not args.quiet:
        streams.complain(f"holdfast: {why}")
        by_word = hint_at_word(run, spec, code)
        if by_word is not None:
            streams.complain(f"  hint: {by_word}")
    return code


class Foreground:
    """One run in the foreground."""

    def __init__(self, run: Run, spec: RunSpec, *, is_init: bool) -> None:
        self._run = run
        self._is_init = is_init
        self._grace_seconds = spec.wanted.grace_seconds
        self._notifies = spec.wanted.notify is not None
        self._waits = spec.waits is not None
        self._pumps = [Pump(run.directory.output_path, 1)]
        if spec.wanted.split_stderr:
            self._pumps.append(Pump(run.directory.stderr_path, 2))
        self._interrupted_at: float | None = None
        self._stops = 0
        self._has_ended = False
        self._wakeup, end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for number in (*_OURS, signal.SIGCHLD) if is_init else _OURS:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _OURS)

    def follow(self) -> RunInfo:
        """Until the ending is recorded and all output is written."""
        ended = self._wait_for_end()
        self._has_ended = True
        if self._is_init:
            self._await_release()
        while [pump for pump in self._pumps if pump.turn()]:
            self._poll(None)
        if self._is_init and self._notifies:
            self._await_notice()
        return ended

    def _await_release(self) -> None:
        """If we are PID 1, our exit kills the shim: let it finish first."""
        deadline = boottime() + _RELEASE_SECONDS
        while self._run.directory.lock_is_held() and boottime() < deadline:
            self._poll(boottime() + 0.01)

    def _await_notice(self) -> None:
        """If we are PID 1, our exit also kills the --notify command: give it some time."""
        deadline = boottime() + _NOTICE_SECONDS
        while _reap_as_init() and boottime() < deadline:
            self._poll(boottime() + 0.05)

    def _wait_for_end(self) -> RunInfo:
        steps: Steps[list[RunInfo]] = wait_for_runs([self._run.directory])
        try:
            wait = next(steps)
            while True:
                until = None if wait.seconds is None else boottime() + wait.seconds
                ready = self._serve(wait, until)
                wait = steps.send(ready)
        except StopIteration as done:
            infos: list[RunInfo] = done.value
            return infos[0]
        finally:
            steps.close()

    def _serve(self, wait: Wait, until: float | None) -> set[int]:
        """Copy output and forward signals until the wait is over."""
        while True:
            for pump in self._pumps:
                pump.turn()
            ready = self._poll(until, *wait.fds).intersection(wait.fds)
            if ready or (until is not None and boottime() >= until):
                return ready

    def _poll(self, until: float | None, *fds: int) -> set[int]:
        poll = select.poll()
        for fd in (self._wakeup, *fds):
            poll.register(fd, select.POLLIN)
        for pump in self._pumps:
            pump.register(poll)
        seconds = [pump.rest_seconds for pump in self._pumps if pump.rest_seconds is not None]
        if until is not None:
            seconds.append(until - boottime())
        found = poll.poll(max(0.0, min(seconds)) * 1000 if seconds else None)
        ready = {fd for fd, _ in found}
        if self._wakeup in ready:
            for number in os.read(self._wakeup, 4096):
                self._signalled(number)
        return ready

    def _signalled(self, number: int) -> None:
        if number == signal.SIGCHLD:
            _reap_as_init()
        elif number == signal.SIGHUP and not self._is_init:
            raise _Left
        elif self._has_ended:
            raise KeyboardInterrupt
        elif number in _CANCELLING and self._is_queued():
            self._stops += 1
            streams.complain("holdfast: cancelled")
            self._run.stop(grace=0)
        elif number == signal.SIGINT:
            self._interrupted()
        else:
            self._pass_on(number)

    def _interrupted(self) -> None:
        now = boottime()
        before, self._interrupted_at = self._interrupted_at, now
        if self._stops == 0 and (before is None or now - before > self._grace_seconds):
            self._pass_on(signal.SIGINT)
            return
        self._stops += 1
        grace = self._grace_seconds if self._stops == 1 else 0.0
        streams.complain(
            "holdfast: stopping the run" if self._stops == 1 else "holdfast: killing it"
        )
        request = {"do": "stop", "cause": "user", "detail": "ctrl-c twice", "grace_seconds": grace}
        if self._ask(request) is None:
            # The shim hangs or is gone: stop without it.
            self._run.stop(grace=grace)

    def _is_queued(self) -> bool:
        """Whether nothing of it runs yet: then no process can be signalled."""
        return self._waits and read_facts(self._run.directory).waits_to_begin

    def _pass_on(self, number: int) -> None:
        name = signal_name(number)
        to = "group" if number in _OF_A_TERMINAL else "root"
        answer = self._ask({"do": "signal", "signal": name, "to": to})
        if answer is None:
            streams.complain(f"holdfast: {name} was not passed on: the shim does not answer")
        elif answer.get("fate") not in ("delivered", "gone"):
            why = answer.get("fate") or answer.get("error")
            streams.complain(f"holdfast: {name} was not passed on: {why}")

    def _ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        answer: dict[str, Any] | None = run_steps(ask_shim_of(self._run.directory, request))
        return answer


def _reap_as_init() -> bool:
    """PID 1 is the parent of every orphan, our shim too; returns whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _noted(_number: int, _frame: object) -> None:
    """Python writes the number to the wake-up pipe; the loop does the rest."""
