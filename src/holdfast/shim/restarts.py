"""Whether an attempt that ended is followed by another one, how soon, and that it comes to be.

An attempt that can't be started now is tried again, less and less often; a run is never left
waiting for one that will not be started.
"""

from __future__ import annotations

from holdfast.errors import StillAlive, is_shortage
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.conclusion import OWN_EXIT_CODE
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.facts import NOT_SEEN
from holdfast.run.outcomes import StopCause
from holdfast.shim.beginning import not_recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.facts import ExitFacts
    from holdfast.shim.beginning import BegunAttempt
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.waiting.usage_limit import UsageLimit

BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
CRASH_LOOP_ATTEMPTS = 5  # this many attempts in a row that lived less than...
CRASH_LOOP_SECONDS = 10.0
_SHORTAGE_TRIES = 7  # about a minute: processes, descriptors or a disk may be free again by then
_PAUSED_SECONDS = 2.0  # between looks whether a run that is to start again is still paused
_LONGEST_WAIT_SECONDS = 600.0  # then the wall clock, which somebody may set, is looked at again
_OTHER_TRIES = 2  # a file that is gone may just be being replaced


class Decision(Record):
    """Start again after a delay, or not, and why not."""

    delay_seconds: float | None
    why: str = ""


class RestartPolicy:
    """`--restart no|on-failure[:N]|always[:N]` over the attempts of one run. Pure."""

    def __init__(self, most_restarts: int | None, *, after_success: bool = False) -> None:
        """`most_restarts`: None is any number, until it is a crash loop."""
        self._most = most_restarts
        self._after_success = after_success
        self._short_lives = 0

    def decide(self, ended: ExitFacts | None, attempt: int, lived_seconds: float) -> Decision:
        """After an attempt that ended by itself."""
        if ended is None or self._most == 0:
            return Decision(None)
        if ended.exit_code == 0 and not self._after_success:
            return Decision(None)
        if ended.exit_code is None and ended.signal is None:
            return Decision(None, "not restarted: its end was not seen")
        if self._most is not None and attempt > self._most:
            return Decision(None, f"gave up after {self._most} restarts")
        self._short_lives = self._short_lives + 1 if lived_seconds < CRASH_LOOP_SECONDS else 0
        if self._most is None and self._short_lives >= CRASH_LOOP_ATTEMPTS:
            return Decision(None, f"crash loop: {self._short_lives} attempts in a row were short")
        step = min(max(self._short_lives - 1, 0), len(BACKOFF_SECONDS) - 1)
        return Decision(BACKOFF_SECONDS[step])


def next_try_seconds(error: Exception, tries: int) -> float | None:
    """How long to wait before a start that failed so often is tried again; None: give it up."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    may_pass = is_shortage(cause) or isinstance(error, StillAlive)
    most = _SHORTAGE_TRIES if may_pass else _OTHER_TRIES
    return BACKOFF_SECONDS[tries - 1] if tries < most else None


class Restarting:
    """Decides what follows an attempt: begins another, or ends the run as the last one ended."""

    def __init__(self, supervisor: Supervisor) -> None:
        wanted = supervisor.spec.wanted
        self._supervisor = supervisor
        self._tries = 0
        self.policy = RestartPolicy(wanted.restarts, after_success=wanted.restarts_after_success)
        self.limit: UsageLimit | None = None  # with --on-limit
        if wanted.limit_resumes:
            from holdfast.shim.waiting.usage_limit import UsageLimit

            self.limit = UsageLimit(supervisor)

    # --- what follows an attempt -------------------------------------------------------

    def what_next(self) -> Callable[[], None]:
        """After an attempt that ended by itself."""
        supervisor = self._supervisor
        end, lived = supervisor.attempt.end, boottime() - supervisor.attempt.began
        if end.failure_code is not None or self._is_done():
            return supervisor.finish
        if self.limit is not None and self.limit.is_hit():
            return self._after_limit()
        waited = len(supervisor.journal.facts.quota_waits)
        decision = self.policy.decide(end.own_exit, supervisor.attempt.number - waited, lived)
        if decision.delay_seconds is None:
            if decision.why:
                supervisor.evidence.append(decision.why)
            return supervisor.finish
        delay, reason = decision.delay_seconds, str(end.own_exit or NOT_SEEN)
        return lambda: self._schedule(delay, reason)

    def after_stop(self, cause: StopCause) -> Callable[[], None]:
        """After a tree that we stop for that. An agent that said that its quota is used up, and
        did not end, is stopped because it is done."""
        is_done = cause is StopCause.COMPLETION and self.limit is not None
        return self._end_or_go_on if is_done else self._supervisor.finish

    def _end_or_go_on(self) -> None:
        is_hit = self.limit is not None and self.limit.is_hit()
        after = self._after_limit() if is_hit else self._supervisor.finish
        after()

    def _after_limit(self) -> Callable[[], None]:
        assert self.limit is not None
        wait = self.limit.next_wait()
        if isinstance(wait, str):
            self._supervisor.evidence.append(wait)
            return self._supervisor.finish
        delay = wait.pop("seconds")
        return lambda: self._schedule(delay, "usage limit", limit=wait)

    def _is_done(self) -> bool:
        """Whether the `--done-when` line has come: then no restart follows.

        An attempt that failed all the same is restarted, as without it.
        """
        supervisor = self._supervisor
        end, wanted = supervisor.attempt.end.own_exit, supervisor.spec.wanted
        is_proven = supervisor.journal.facts.attempt.completion is not None
        has_failed = end is None or end.exit_code != 0
        return wanted.done_when is not None and is_proven and not has_failed

    def _schedule(self, delay_seconds: float, reason: str, **more: Any) -> None:
        """Record that another attempt follows, and wait for it."""
        supervisor = self._supervisor
        if supervisor.ends_at_budget():
            return
        supervisor.journal.record(
            Kind.RESTART_SCHEDULED,
            attempt=supervisor.attempt.number + 1,
            delay_seconds=delay_seconds,
            reason=reason,
            **more,
        )
        crash_point("shim.restart-scheduled")
        supervisor.stop_cause = None  # it was this attempt's, as the event has it
        supervisor.loop.cancel("drain")
        lived = boottime() - supervisor.attempt.began
        for note in supervisor.on_restart if not more else ():
            supervisor.guarded("restart", note, lived)
        self._rest()
        supervisor.attempt.close()
        self.begin(delay_seconds)

    def _rest(self) -> None:
        for rest in self._supervisor.on_rest:
            self._supervisor.guarded("restart", rest)

    def wait_on(self) -> None:
        """An earlier shim died while the run waited for a used-up quota."""
        supervisor = self._supervisor
        supervisor.begin_watching()  # --timeout counts on
        self._rest()
        supervisor.on_ready()
        self.begin(0.0)

    # --- the attempt that was promised -------------------------------------------------

    def begin(self, delay_seconds: float) -> None:
        """Start an attempt after a delay. A stop cancels the timer of this name."""
        self._tries = 0
        seconds = min(delay_seconds, _LONGEST_WAIT_SECONDS)
        self._supervisor.loop.after("restart", seconds, self._due)

    def _due(self) -> None:
        left = self.limit.seconds_left() if self.limit is not None else 0.0
        if left > 0:
            self.begin(left)
        else:
            self._start()

    def _start(self) -> None:
        if self._supervisor.journal.facts.paused is not None:
            self._supervisor.loop.after("restart", _PAUSED_SECONDS, self._start)
            return
        if self._supervisor.ends_at_budget():  # its last words were read after it had ended
            return
        attempt = self._supervisor.attempt.number + 1
        try:
            command = self.limit.next_command() if self.limit is not None else None
            self._supervisor.start_attempt(command)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has to be ended
            if not self._try_again(error, self._start):
                self._give_up(attempt, error)

    def release_when_recorded(self, begun: BegunAttempt) -> None:
        """Let the child exec once its record is on disk."""
        supervisor, waiting = self._supervisor, begun.waiting
        if waiting.report_fd < 0:
            return  # it was killed meanwhile
        if supervisor.journal.is_settled:
            begun.release()
            supervisor.attempt.began = boottime()
            return
        error = not_recorded()
        if not self._try_again(error, lambda: self.release_when_recorded(begun)):
            supervisor.loop.unwatch(waiting.report_fd)
            waiting.close()
            attempt, before = supervisor.attempt, supervisor.journal.facts.earlier_attempts
            own = {"root_exit": before[-1].exit} if before else {"failure_code": OWN_EXIT_CODE}
            attempt.end = attempt.end.replace(**own)
            self._give_up(attempt.number, error)

    def _try_again(self, error: Exception, call: Callable[[], None]) -> bool:
        self._tries += 1
        delay = next_try_seconds(error, self._tries)
        if self._tries == 1:
            self._supervisor.journal.record_fault("restart", error)
        if delay is not None:
            self._supervisor.loop.after("restart", delay, call)
        return delay is not None

    def _give_up(self, attempt: int, error: Exception) -> None:
        times = f", tried {self._tries} times" if self._tries > 1 else ""
        self._supervisor.evidence.append(f"attempt {attempt} could not be started{times}: {error}")
        self._supervisor.finish()
