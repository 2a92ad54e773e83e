"""What may end a run: deadline, silence, memory, a line that proves completion.

Each watcher calls `begin_stop` with its cause; the first to fire decides. None of them sends a
signal or ends the run by itself. All time is boottime: a wall clock jump moves nothing.
"""

from __future__ import annotations

from holdfast.process.clock import boottime
from holdfast.run.events import Kind
from holdfast.run.outcomes import StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.sampling import Activity
    from holdfast.shim.observer import Observer
    from holdfast.shim.output_watch import OutputWatch
    from holdfast.shim.supervisor import Supervisor

IDLE_EXTENSION = 4.0  # work without output may put a stall off up to so many idle times in all
BUSY_CPU_SHARE = 0.05  # of one core, over the silence
BUSY_IO_BYTES = 64 * 1024
MEMORY_LOOK_SECONDS = 0.5
DRAIN_SECONDS = 5.0


class Deadline:
    """`--timeout`: the whole run, restarts and adoptions included."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._seconds = supervisor.spec.wanted.timeout_seconds

    def begin(self) -> None:
        """Set the timer; it is in the past when the time ran out while nobody watched."""
        if self._seconds is not None:
            began = self._supervisor.journal.facts.began_boottime or boottime()
            self._supervisor.loop.at("deadline", began + self._seconds, self._over)

    def _over(self) -> None:
        detail = f"ran for {self._seconds:g} s, the time that it was given"
        self._supervisor.begin_stop(StopCause.TIMEOUT, detail)


class Silence:
    """`--idle-timeout`: no output for so long, and no work either."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch, observer: Observer) -> None:
        self._supervisor = supervisor
        self._output = output
        self._observer = observer
        self._seconds = supervisor.spec.wanted.idle_timeout_seconds or 0.0
        self._before: Activity | None = None
        output.on_output.append(self._heard)

    def begin(self) -> None:
        """Start to listen."""
        self._heard()
        self._supervisor.loop.after("silence", self._seconds, self._check)

    def _heard(self) -> None:
        now = boottime()
        if self._before is None or now - self._before.at > min(1.0, self._seconds / 4):
            self._before = self._observer.activity()

    def _check(self) -> None:
        loop = self._supervisor.loop
        quiet = boottime() - self._output.last_output
        if quiet < self._seconds:
            loop.at("silence", self._output.last_output + self._seconds, self._check)
            return
        now = self._observer.activity()
        busy = self._before is not None and _is_busy(self._before, now)
        self._before = now
        if busy and quiet < self._seconds * IDLE_EXTENSION:
            loop.after("silence", min(self._seconds, 60.0), self._check)
            return
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
        used = self._observer.memory_bytes(self._limit)
        if used is not None and used > self._limit:
            detail = f"the tree used {used} bytes of memory, more than {self._limit}"
            # Like the kernel's own killer: what is asked politely goes on allocating.
            self._supervisor.begin_stop(StopCause.MEMORY, detail, grace_seconds=0)
            return
        self._supervisor.loop.after("memory", MEMORY_LOOK_SECONDS, self._check)


class DoneWhen:
    """`--done-when`: a whole new line of the output that matches proves completion."""

    def __init__(self, supervisor: Supervisor, output: OutputWatch) -> None:
        self._completion = Completion(supervisor)
        import re

        self._pattern = re.compile(supervisor.spec.wanted.done_when or "")
        output.on_lines.append(self._take)

    def _take(self, lines: list[tuple[int, bytes]]) -> None:
        for at_byte, line in lines:
            text = line.decode(errors="replace").rstrip("\r\n")
            if self._pattern.fullmatch(text):
                self._completion.proven("stdout", text[:500], is_error=False, at_byte=at_byte)
                return


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
        supervisor.loop.after("drain", self._drain_seconds(), self._drained)

    def _drain_seconds(self) -> float:
        wanted = self._supervisor.spec.wanted.drain_seconds
        return self._usual_seconds if wanted is None else wanted

    def _drained(self) -> None:
        detail = "completion was proven, but the process did not end"
        self._supervisor.begin_stop(StopCause.COMPLETION, detail)
