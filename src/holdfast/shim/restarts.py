"""Whether a failed attempt is followed by another one, and how soon. Pure."""

from __future__ import annotations

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.shim.exits import ExitFacts

BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
CRASH_LOOP_ATTEMPTS = 5  # so many attempts in a row that lived less than...
CRASH_LOOP_SECONDS = 10.0


class Decision(Record):
    """Start again after so many seconds, or not, and why not."""

    delay_seconds: float | None
    why: str = ""


class RestartPolicy:
    """`--restart no|on-failure[:N]` over the attempts of one run."""

    def __init__(self, most_restarts: int | None) -> None:
        """`most_restarts`: None is any number, until it is a crash loop."""
        self._most = most_restarts
        self._short_lives = 0

    def decide(self, ended: ExitFacts | None, attempt: int, lived_seconds: float) -> Decision:
        """After an attempt that ended by itself."""
        if ended is None or ended.exit_code == 0 or self._most == 0:
            return Decision(None)
        if ended.exit_code is None and ended.signal is None:
            return Decision(None, "not restarted: nobody saw how it ended")
        if self._most is not None and attempt > self._most:
            return Decision(None, f"gave up after {self._most} restarts")
        self._short_lives = self._short_lives + 1 if lived_seconds < CRASH_LOOP_SECONDS else 0
        if self._most is None and self._short_lives >= CRASH_LOOP_ATTEMPTS:
            return Decision(None, f"crash loop: {self._short_lives} attempts in a row were short")
        step = min(max(self._short_lives - 1, 0), len(BACKOFF_SECONDS) - 1)
        return Decision(BACKOFF_SECONDS[step])
