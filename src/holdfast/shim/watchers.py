"""What may end a run: deadline, silence, memory, a line that proves completion.

Each watcher calls `begin_stop` with its cause; the first to fire decides. None of them sends a
signal or ends the run by itself. All time is boottime: a wall clock jump moves nothing. What is
the workload's own time (silence, drain) does not count a gap in which the shim did not run.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.run.events import Kind
from holdfast.run.outcomes import StopCause
from holdfast.shim.hearing import Hearing
from holdfast.shim.output_watch import REST_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.process.sampling import Activity
    from holdfast.shim.observer import Observer
    from holdfast.shim.output_watch import OutputWatch
    from holdfast.shim.supervisor import Supervisor

IDLE_EXTENSION = 4.0  # work without output may put a stall off up to so many idle times in all
BUSY_CPU_SHARE = 0.05  # of one core, over the silence
BUSY_IO_BYTES = 64 * 1024
MEMORY_LOOK_SECONDS = 0.5
DRAIN_SECONDS = 5.0
CATCH_UP_SECONDS = 5.0  # for output that is unread when the time is over
MOST_LINES_TOLD = 20  # that took too long to match


class Deadline:
    """`--timeout`: the whole run, restarts and adoptions included."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch) -> None:
        self._supervisor = supervisor
        self._output = output
        self._seconds = supervisor.spec.wanted.timeout_seconds

    def begin(self) -> None:
        """Set the timer; it is in the past when the time ran out while nobody watched."""
        if self._seconds is not None:
            began = self._supervisor.journal.facts.began_boottime or boottime()
            self._supervisor.loop.at("deadline", began + self._seconds, self._over)

    def _over(self) -> None:
        """What was written in time is read first: it may prove completion."""
        self._judge(self._output.check_size(), boottime() + CATCH_UP_SECONDS)

    def _judge(self, end: int, until: float) -> None:
        if self._output.is_behind(end) and boottime() < until:
            again = REST_SECONDS / 2
            self._supervisor.loop.after("deadline", again, lambda: self._judge(end, until))
            return
        detail = f"ran for {self._seconds:g} s, the time that it was given"
        self._supervisor.begin_stop(StopCause.TIMEOUT, detail)


class Silence:
    """`--idle-timeout`: no output for so long, and no work either. Who is blind does not judge."""

    def __init__(self, supervisor: Supervisor, observer: Observer) -> None:
        self._supervisor = supervisor
        self._hearing = Hearing(supervisor)
        self._observer = observer
        self._seconds = supervisor.spec.wanted.idle_timeout_seconds or 0.0
        self._heard: float | None = None
        self._before: Activity | None = None  # what the tree had done when it was heard

    def begin(self) -> None:
        """Start to listen."""
        self._hearing.begin()
        self._heard = None
        self._supervisor.loop.notice_gaps(self._seconds)
        self._check()

    def _check(self) -> None:
        # Four looks in the time, so that work is told from the output that was before it.
        loop = self._supervisor.loop
        loop.after("silence", self._seconds / 4, self._check)
        heard = self._hearing.last_output()
        if heard is None:
            return
        if heard != self._heard:
            self._heard, self._before = heard, self._observer.activity()
        quiet = loop.awake_since(heard)
        if quiet < self._seconds:
            loop.after("silence", min(self._seconds / 4, self._seconds - quiet), self._check)
        elif not self._hearing.is_deaf():
            self._judge(quiet)

    def _judge(self, quiet: float) -> None:
        now = self._observer.activity()
        # Work that can't be looked at may be there.
        busy = now is None or self._before is None or _is_busy(self._before, now)
        self._before = now
        if busy and quiet < self._seconds * IDLE_EXTENSION:
            loop = self._supervisor.loop
            loop.after("silence", min(self._seconds, 60.0), self._check)
            return
        self._supervisor.loop.cancel("silence")
        self._supervisor.begin_stop(StopCause.IDLE, f"silent for {quiet:.0f} s{_work(busy)}")


def _work(busy: bool) -> str:
    return ", though at work: no longer extended" if busy else ""


def _is_busy(before: Activity, now: Activity) -> bool:
    seconds = max(now.at - before.at, 0.01)
    if now.cpu_seconds - before.cpu_seconds > seconds * BUSY_CPU_SHARE:
        return True
    return now.io_bytes - before.io_bytes > BUSY_IO_BYTES or now.connections > 0


class MemoryLimit:
    """`--memory-max`: resident and swapped memory of the whole tree."""

    def __init__(self, supervisor: Supervisor, observer: Observer) -> None:
        self._supervisor = supervisor
        self._observer = observer
        self._limit = supervisor.spec.wanted.memory_max_bytes or 0

    def begin(self) -> None:
        """Look from now on."""
        self._supervisor.loop.after("memory", MEMORY_LOOK_SECONDS, self._check)

    def _check(self) -> None:
        # First: a look that fails must not be the last one.
        self._supervisor.loop.after("memory", MEMORY_LOOK_SECONDS, self._check)
        used = self._observer.memory_bytes(self._limit)
        if used is not None and used > self._limit:
            detail = f"the tree used {used} bytes of memory, more than {self._limit}"
            # Like the kernel's own killer: what is asked politely goes on allocating.
            self._supervisor.loop.cancel("memory")
            self._supervisor.begin_stop(StopCause.MEMORY, detail, grace_seconds=0)


class DoneWhen:
    """`--done-when`: a whole new line of the output that matches proves completion."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch) -> None:
        from holdfast.shim.matching import Matcher

        self._supervisor = supervisor
        self._completion = Completion(supervisor)
        self._matcher = Matcher(supervisor.spec.wanted.done_when or "", self._given_up)
        self._told = 0
        output.on_lines.append(self._take)

    def _take(self, lines: Sequence[tuple[int, bytes]]) -> Sequence[tuple[int, bytes]]:
        if self._supervisor.journal.facts.completion is not None:
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


class Completion:
    """Completion is proven: let the process end by itself for a while, then stop it."""

    def __init__(self, supervisor: Supervisor, usual_seconds: float | None = None) -> None:
        self._supervisor = supervisor
        self._usual_seconds = DRAIN_SECONDS if usual_seconds is None else usual_seconds

    def proven(self, source: str, proof: str, *, is_error: bool, at_byte: int | None) -> None:
        """Record the proof and start to drain; only the first one counts."""
        supervisor = self._supervisor
        if supervisor.journal.facts.completion is not None:
            return
        supervisor.journal.record(
            Kind.COMPLETION_PROVEN, source=source, proof=proof, is_error=is_error, at_byte=at_byte
        )
        supervisor.loop.after_awake("drain", self._drain_seconds(), self._drained)

    def _drain_seconds(self) -> float:
        wanted = self._supervisor.spec.wanted.drain_seconds
        return self._usual_seconds if wanted is None else wanted

    def _drained(self) -> None:
        detail = "completion was proven, but the process did not end"
        self._supervisor.begin_stop(StopCause.COMPLETION, detail)
