"""What may stop a run because of an option: deadline, silence, memory, budget, completion ...

Each watcher calls `begin_stop` with its cause; the first to fire decides the outcome. None sends a
signal or ends the run by itself. All time is boottime: a wall clock jump moves nothing. What is
the workload's own time (silence, drain) does not count a gap in which the shim did not run.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.outcomes import StopCause
from holdfast.run.usage.budget import in_words, used_of
from holdfast.shim.watching.last_output import LastOutput
from holdfast.shim.watching.output_watch import REST_SECONDS
from holdfast.shim.watching.watcher import Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.options import Wanted
    from holdfast.process.sampling.sampler import Activity
    from holdfast.shim.supervisor import Supervisor

LOOKS = 4  # in the time that silence may last: work is counted from one to the next
IDLE_EXTENSION = 4.0  # work delays a stall up to this many times the idle timeout
# What is work. A program that only waits (timers, an event loop, garbage collection, a spinner)
# uses at most 3 % of a core; one that computes has 5 % even where twenty share the core. To
# stop what works is worse than to wait for what does not.
BUSY_CPU_SHARE = 0.05
# Heartbeats and polling move some KiB each second; a copy, a build or a download moves more.
# An open connection without traffic is not work: a hung server looks the same.
BUSY_IO_BYTES_PER_SECOND = 32 * 1024
MEMORY_LOOK_SECONDS = 0.5
MEMORY_HURRIED_SECONDS = 0.1  # while it is asked to end
MEMORY_BEYOND = 1.2  # times the limit: a tree that grows so far meanwhile gets no more grace
DRAIN_SECONDS = 5.0
CATCH_UP_SECONDS = 5.0  # for output that is unread when the time is over
MOST_LINES_TOLD = 20  # that took too long to match


class DeadlineWatcher(Watcher):
    """`--timeout`: the whole run, restarts and adoptions included."""

    field = "timeout_seconds"
    cause = StopCause.TIMEOUT
    timer = "deadline"

    def begin(self) -> None:
        """Set the timer; it is in the past if the time ran out while there was no shim."""
        began = self._supervisor.journal.facts.began_boottime or boottime()
        self._supervisor.loop.at(self.timer, began + self._asked, self._over)

    def rest(self) -> None:
        """The time between attempts counts."""

    def _over(self) -> None:
        """What was written in time is read first: it may prove completion."""
        end = self._supervisor.log_size()
        self._judge(end, boottime() + CATCH_UP_SECONDS)

    def _judge(self, end: int, until: float) -> None:
        is_behind = self._output is not None and self._output.is_behind(end)
        if is_behind and boottime() < until:
            again = REST_SECONDS / 2
            self._supervisor.loop.after(self.timer, again, lambda: self._judge(end, until))
            return
        self._stop(f"ran for {self._units.span(self._asked)}, the time that it was given")


class SilenceWatcher(Watcher):
    """`--silence-timeout`: no output for that long, whatever the run does.

    What can't be seen is not judged.
    """

    field = "silence_timeout_seconds"
    cause = StopCause.SILENCE
    timer = "silence"

    def _prepare(self) -> None:
        self._output_files = LastOutput(self._supervisor)

    def begin(self) -> None:
        """Silence counts from now on."""
        self._output_files.begin()
        self._supervisor.loop.notice_gaps(self._asked)
        self._check()

    def _check(self) -> None:
        # First: a look that fails must not be the last one.
        loop, pause = self._supervisor.loop, self._asked / LOOKS
        loop.after(self.timer, pause, self._check)
        written = self._output_files.written_at()
        if written is None:
            return
        quiet = loop.awake_since(written)
        left = self._left(quiet)
        if left > 0:
            loop.after(self.timer, min(pause, left), self._check)
        elif not self._output_files.disk_is_full():
            loop.cancel(self.timer)
            self._stop(f"silent for {self._units.duration(quiet)}{self._beside()}", figure=quiet)

    def _left(self, quiet: float) -> float:
        """Seconds until it is too long, if it stays as quiet as that."""
        return float(self._asked - quiet)

    def _beside(self) -> str:
        """What else is worth saying about the silence."""
        return ""


class IdleWatcher(SilenceWatcher):
    """`--idle-timeout`: neither output nor work for that long; work delays it up to a bound."""

    field = "idle_timeout_seconds"
    cause = StopCause.IDLE
    timer = "idle"

    def _prepare(self) -> None:
        super()._prepare()
        self._before: Activity | None = None  # what the tree had done at the last look
        self._worked_at = 0.0

    def _left(self, quiet: float) -> float:
        now = self._observer.activity()
        # Work that can't be observed may be there.
        if now is None or self._before is None or _is_busy(self._before, now):
            self._worked_at = boottime()
        self._before = now
        idle = min(quiet, self._supervisor.loop.awake_since(self._worked_at))
        return float(min(self._asked - idle, self._asked * IDLE_EXTENSION - quiet))

    def _beside(self) -> str:
        idle = self._supervisor.loop.awake_since(self._worked_at)
        return "" if idle >= self._asked else ", though at work: not put off any longer"


def _is_busy(before: Activity, now: Activity) -> bool:
    seconds = max(now.at - before.at, 0.01)
    if now.cpu_seconds - before.cpu_seconds > seconds * BUSY_CPU_SHARE:
        return True
    return now.io_bytes - before.io_bytes > seconds * BUSY_IO_BYTES_PER_SECOND


class MemoryWatcher(Watcher):
    """`--memory-max`: resident and swapped memory of the whole tree."""

    field = "memory_max_bytes"
    cause = StopCause.MEMORY
    timer = "memory"

    def _prepare(self) -> None:
        self._is_asked_to_end = False

    def begin(self) -> None:
        """Look from now on."""
        self._supervisor.loop.after(self.timer, MEMORY_LOOK_SECONDS, self._check)

    def _check(self) -> None:
        # First: a look that fails must not be the last one.
        pause = MEMORY_HURRIED_SECONDS if self._is_asked_to_end else MEMORY_LOOK_SECONDS
        self._supervisor.loop.after(self.timer, pause, self._check)
        used = self._observer.memory_bytes(self._asked)
        if used is None or used <= self._asked:
            return
        size = self._units.size
        detail = f"over the memory limit of {size(self._asked)}: the tree used {size(used)}"
        if not self._is_asked_to_end:
            self._is_asked_to_end = True
            self._supervisor.loop.after(self.timer, MEMORY_HURRIED_SECONDS, self._check)
            self._stop(detail, figure=used)
        elif used > self._asked * MEMORY_BEYOND:
            self._supervisor.loop.cancel(self.timer)
            self._stop(f"{detail}, and grows", grace_seconds=0)


class TokenWatcher(Watcher):
    """`--max-tokens`: of the whole run, as the agent's records tell it."""

    field = "max_tokens"
    cause = StopCause.TOKENS

    def begin(self) -> None:
        """What is on record may be too much already: an earlier shim died before it acted."""
        if self._judge not in self._supervisor.on_usage:
            self._supervisor.on_usage.append(self._judge)
        self._judge(self._supervisor.journal.facts.usage, lambda: None)

    def end(self) -> None:
        if self._judge in self._supervisor.on_usage:
            self._supervisor.on_usage.remove(self._judge)

    def _judge(self, usage: dict[str, Any], record: Callable[[], None]) -> None:
        used = used_of(self.field, usage)
        if used is None or used <= self._asked:
            return
        record()
        facts = self._supervisor.journal.facts
        known = facts.budget_reached or {}
        if (known.get("limit"), known.get("most")) != (self.field, self._asked):
            self._record(used)
        is_held = facts.paused is not None or self._supervisor.stop_cause is not None
        if not is_held and facts.attempt.completion is None:  # a completed attempt is not stopped
            self._act(used)

    def _record(self, used: float) -> None:
        self._supervisor.journal.record(
            Kind.BUDGET_REACHED,
            limit=self.field,
            most=self._asked,
            used=used,
            by="holdfast",
            attempt=self._supervisor.attempt.number,
        )

    def _act(self, used: float) -> None:
        supervisor = self._supervisor
        crash_point("shim.budget-reached")
        if supervisor.spec.wanted.on_budget == "pause":
            supervisor.pausing().pause({"budget": self.field}, lambda: None)
            supervisor.guarded("notice", lambda: supervisor.tell("budget"))
        else:
            said = in_words(self.field, used, self._asked)
            self._stop(f"over its budget: {said} used", figure=used)


class CostWatcher(TokenWatcher):
    """`--max-cost`: of the whole run, as the agent tells it, which most do when a turn is over."""

    field = "max_cost_usd"
    cause = StopCause.COST


class RequiredWorkloadWatcher(Watcher):
    """`--require-workload`: the workload must appear in time."""

    field = "require_workload"
    cause = StopCause.REQUIRE_WORKLOAD
    timer = "required"

    def begin(self) -> None:
        """Look once, when the time is over; not for what an earlier shim found in this attempt."""
        if self._supervisor.journal.facts.attempt.workload is None:
            seconds = self._supervisor.spec.wanted.resolve_seconds
            self._supervisor.loop.after(self.timer, seconds, self._check)

    def _check(self) -> None:
        missing = self._observer.missing_workload()
        if missing is not None:
            self._stop(missing)


class DoneWhenWatcher(Watcher):
    """`--done-when`: a whole new line of the output that matches proves completion."""

    field = "done_when"
    cause = StopCause.COMPLETION
    reads_output = True

    def _prepare(self) -> None:
        from holdfast.shim.watching.matching import Matcher

        self._completion = CompletionDrain(self._supervisor)
        self._matcher = Matcher(self._asked, self._given_up)
        self._told = 0
        assert self._output is not None
        self._output.on_lines.append(self._take)

    def _take(self, lines: Sequence[tuple[int, bytes]]) -> Sequence[tuple[int, bytes]]:
        if self._supervisor.journal.facts.attempt.completion is not None:
            return ()
        found, left = self._matcher.first(lines)
        if found is None:
            return left
        at_byte, line = found
        proof = line[:2000].decode(errors="replace").rstrip("\r\n")[:500]
        self._completion.proven("stdout", proof, is_error=False, at_byte=at_byte)
        return ()

    def _given_up(self, at_byte: int, length: int) -> None:
        self._told += 1
        if self._told <= MOST_LINES_TOLD:
            self._supervisor.journal.record(Kind.LINE_GIVEN_UP, at_byte=at_byte, bytes=length)
        why = f"the line at byte {at_byte} took too long to match: it may have been the one"
        self._supervisor.senses.lose("done_when", why)


class CompletionDrain:
    """After a proof of completion: the process may end by itself for a while, then is stopped."""

    def __init__(self, supervisor: Supervisor, usual_seconds: float | None = None) -> None:
        self._supervisor = supervisor
        self._usual_seconds = DRAIN_SECONDS if usual_seconds is None else usual_seconds

    def proven(self, source: str, proof: str, *, is_error: bool, at_byte: int | None) -> None:
        """Record the proof and start to drain; only the first one counts."""
        supervisor = self._supervisor
        if supervisor.journal.facts.attempt.completion is not None:
            return
        supervisor.journal.record(
            Kind.COMPLETION_PROVEN,
            source=source,
            proof=proof,
            is_error=is_error,
            at_byte=at_byte,
        )
        supervisor.loop.after_awake("drain", self._drain_seconds(), self._drained)

    def _drain_seconds(self) -> float:
        wanted = self._supervisor.spec.wanted.drain_seconds
        return self._usual_seconds if wanted is None else wanted

    def _drained(self) -> None:
        detail = "completion was proven, but the process did not end"
        self._supervisor.begin_stop(StopCause.COMPLETION, detail)


def asked_watchers(wanted: Wanted) -> list[type[Watcher]]:
    """The watchers whose options were given."""
    return [one for one in WATCHERS if getattr(wanted, one.field) not in (None, False)]


WATCHERS: tuple[type[Watcher], ...] = (
    CostWatcher,
    DeadlineWatcher,
    DoneWhenWatcher,
    IdleWatcher,
    MemoryWatcher,
    RequiredWorkloadWatcher,
    SilenceWatcher,
    TokenWatcher,
)
