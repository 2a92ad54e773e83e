"""Whether an attempt that ended is followed by another one, how soon, and that it comes to be.

An attempt that can't be started now is tried again, less and less often; a run is never left
waiting for one that will not be started.
"""

from __future__ import annotations

from holdfast.errors import is_shortage
from holdfast.process.clock import boottime
from holdfast.record import Record
from holdfast.run.conclusion import OWN_EXIT_CODE
from holdfast.shim.beginning import not_recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.run.facts import ExitFacts
    from holdfast.shim.beginning import BegunAttempt
    from holdfast.shim.supervisor import Supervisor

BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
CRASH_LOOP_ATTEMPTS = 5  # this many attempts in a row that lived less than...
CRASH_LOOP_SECONDS = 10.0
_SHORTAGE_TRIES = 7  # about a minute: processes, descriptors or a disk may be free again by then
_PAUSED_SECONDS = 2.0  # between looks whether a run that is to start again is still paused
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
    """When to try again what failed so often, now of this; None: it is not worth another try."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    most = _SHORTAGE_TRIES if is_shortage(cause) else _OTHER_TRIES
    return BACKOFF_SECONDS[tries - 1] if tries < most else None


class Restarting:
    """Begins the attempt that was promised, or ends the run as its last attempt ended."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._tries = 0

    def begin(self, delay_seconds: float) -> None:
        """Start an attempt after a delay. A stop cancels the timer of this name."""
        self._tries = 0
        self._supervisor.loop.after("restart", delay_seconds, self._start)

    def _start(self) -> None:
        if self._supervisor.journal.facts.paused is not None:
            self._supervisor.loop.after("restart", _PAUSED_SECONDS, self._start)
            return
        if self._supervisor.ends_at_budget():  # its last words were read after it had ended
            return
        attempt = self._supervisor.attempt.number + 1
        try:
            self._supervisor.start_attempt()
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
