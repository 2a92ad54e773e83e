"""One poll loop: descriptors, timers on CLOCK_BOOTTIME, signals. It wakes only when it must.

What the kernel knows comes before any judgement: each timer waits until all that is ready was
delivered, exits before all else. A time in which the loop did not run (a suspended machine, a
frozen control group, SIGSTOP, a callback that took long) is a gap: `awake_since` leaves gaps out,
and timers that are set with `awake` are put off by them.

A fault in a callback is handed to `on_fault` and the loop goes on: a watcher, a sample or a
notice must never end or block the run.
"""

from __future__ import annotations

import errno
import os
import select

from holdfast.lean import signal
from holdfast.process import libc
from holdfast.process.clock import boottime, namespace_offset
from holdfast.run.crashpoints import hold_callback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.POLLIN
WRITE = select.POLLOUT
HANG_UP = select.POLLHUP
_SELECTABLE = 1024  # FD_SETSIZE
_SHORTAGE_SECONDS = 0.5
_TRIES = 10
_GAP_SECONDS = 0.5  # later than that, we did not run: a loaded machine is late by less
_MOST_GAPS = 100  # older ones are forgotten
_LEAST_BEAT_SECONDS = 0.2
_MOST_BEAT_SECONDS = 10.0
_NEVER = float("inf")


class Loop:
    """Descriptors and timers by name; `run` until `stop`."""

    def __init__(self, on_fault: Callable[[str, Exception], None]) -> None:
        self._on_fault = on_fault
        self._poll = select.poll()
        self._watched: dict[int, tuple[str, Callable[[int], None], int]] = {}
        self._exits: set[int] = set()  # descriptors that report an exit
        self._gaps: list[tuple[float, float]] = []  # when each ended, and how long it was
        self._missed = 0.0  # all gaps together
        self._ran_at = boottime()  # up to here it is known whether the loop ran
        self._still_since: float | None = None  # the run is paused
        self._beat = _NEVER
        self._short: set[str] = set()  # what has failed for want of descriptors, or of memory
        self._timers: dict[str, tuple[float, Callable[[], None], bool]] = {}
        self._signals: dict[int, Callable[[], None]] = {}
        self._running = True
        # The timer descriptor counts suspended time too, which poll's own timeout does not.
        # It is never read: setting it again, before each wait, makes it unreadable again.
        self._timer_fd = libc.boottime_timer()
        self._poll.register(self._timer_fd, READ)
        self._wakeup, wakeup_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
        self.watch(self._wakeup, READ, "signals", self._take_signals)

    def watch(self, fd: int, events: int, name: str, callback: Callable[[int], None]) -> None:
        """Call back with the events found. Watching again replaces what was wanted before."""
        self._watched[fd] = (name, callback, events)
        self._poll.register(fd, events)

    def watch_exit(self, fd: int, name: str, callback: Callable[[int], None]) -> None:
        """Watch a pidfd: it is served before all else that is ready."""
        self._exits.add(fd)
        self.watch(fd, READ, name, callback)

    def hear_exits(self) -> None:
        """Deliver the exits that the kernel knows of, now: before something is judged."""
        self._deliver([one for one in self._wait(0) if one[0] in self._exits])

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor; before it is closed, since its number will be used again."""
        self._exits.discard(fd)
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def at(self, name: str, when: float, callback: Callable[[], None]) -> None:
        """Call back once at that boottime. A name has one timer: the last one set."""
        self._timers[name] = (when, callback, False)

    def after(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        """Call back once, that many seconds from now."""
        self.at(name, boottime() + seconds, callback)

    def after_awake(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        """Like `after`, but gaps in which the loop did not run and pauses of the run do not count.

        The seconds are the workload's time, and it does not run then.
        """
        self.notice_gaps(seconds)
        self._timers[name] = (boottime() + seconds, callback, True)

    def notice_gaps(self, seconds: float) -> None:
        """Wake often enough from now on to notice a gap that matters to such a timeout."""
        beat = min(max(seconds / 10, _LEAST_BEAT_SECONDS), _MOST_BEAT_SECONDS)
        self._beat = min(self._beat, beat)

    def awake_since(self, when: float) -> float:
        """How long the loop has run since that boottime, gaps left out."""
        elapsed = self._note_gap() - when
        missed = sum(min(seconds, until - when) for until, seconds in self._gaps if until > when)
        return max(0.0, elapsed - missed - self._still_seconds())

    def awake(self) -> float:
        """A clock that stands still in gaps."""
        return self._note_gap() - self._missed - self._still_seconds()

    def stand_still(self) -> None:
        """The run is paused: until `go_on`, its time does not pass, which is one long gap."""
        if self._still_since is None:
            self._still_since = boottime()

    def go_on(self) -> None:
        """The end of that."""
        if self._still_since is not None:
            seconds, self._still_since = boottime() - self._still_since, None
            self._add_gap(seconds)

    def _still_seconds(self) -> float:
        return 0.0 if self._still_since is None else boottime() - self._still_since

    def insist(self, name: str, call: Callable[[], None], tries: int = _TRIES) -> None:
        """Call now, and again where the kernel has no room for it; else give the run up.

        An adopter has descriptors, and finds what is recorded.
        """
        try:
            call()
        except OSError as error:
            self._fall_short(name, error)
            if tries > 1:
                self.after(name, _SHORTAGE_SECONDS, lambda: self.insist(name, call, tries - 1))
            else:
                self.stop()

    def cancel(self, name: str) -> None:
        """Forget a timer."""
        self._timers.pop(name, None)

    def on_signal(self, number: int, callback: Callable[[], None]) -> None:
        """Call back from the loop, never from inside the signal handler."""
        self._signals[number] = callback
        signal.signal(number, _noted)

    def stop(self) -> None:
        """Leave `run` after the present callback."""
        self._running = False

    def turn(self, seconds: float) -> None:
        """Deliver what is ready, or is so within that time; no timer."""
        self._deliver(self._wait(int(seconds * 1000), self._note_gap() + seconds))

    def run(self) -> None:
        """Serve until `stop`."""
        while self._running:
            due = self._arm()
            found = self._wait(None, max(due, self._note_gap()))
            is_timer_alone = len(found) == 1 and found[0][0] == self._timer_fd
            if not is_timer_alone:
                self._deliver(found)
            self._fire_timers(is_timer_alone)

    def _deliver(self, found: list[tuple[int, int]]) -> None:
        if len(found) > 1:
            found.sort(key=lambda one: one[0] not in self._exits)
        for fd, events in found:
            if fd in self._watched and self._running:  # a callback may have closed it
                name, callback, _ = self._watched[fd]
                self._guard(name, callback, events)

    def _wait(self, milliseconds: int | None, until: float = 0.0) -> list[tuple[int, int]]:
        """What is ready. `until`: what is waited for up to then is no gap."""
        try:
            found = self._poll.poll(milliseconds)
        except OSError as error:
            # More descriptors than RLIMIT_NOFILE, which `prlimit` may lower at any time.
            if error.errno != errno.EINVAL:
                raise
            self._fall_short("poll", error)
            found = self._select(milliseconds)
        self._ran_at = max(self._ran_at, min(until, boottime()))
        self._note_gap()
        return found

    def _note_gap(self) -> float:
        """Note a gap up to now, if there was one; now.

        Asked wherever time is judged: the loop may have been held up anywhere, in the middle of a
        callback too (tests/system/test_gaps_in_time.py).
        """
        now = boottime()
        seconds, self._ran_at = now - self._ran_at, now
        if seconds > _GAP_SECONDS and self._still_since is None:  # a pause counts as a whole
            self._add_gap(seconds)
        return now

    def _add_gap(self, seconds: float) -> None:
        self._missed += seconds
        self._gaps = [*self._gaps[-_MOST_GAPS:], (boottime(), seconds)]
        for name, (when, callback, awake) in self._timers.items():
            if awake:
                self._timers[name] = (when + seconds, callback, awake)

    def _fall_short(self, name: str, error: OSError) -> None:
        """Said once: it may last."""
        if name not in self._short:
            self._short.add(name)
            self._on_fault(name, error)

    def _select(self, milliseconds: int | None) -> list[tuple[int, int]]:
        """The same question to select(2), which that limit does not concern."""
        writers = [fd for fd, (_, _, wanted) in self._watched.items() if wanted & WRITE]
        fds = [fd for fd in (self._timer_fd, *self._watched) if fd < _SELECTABLE]
        writers = [fd for fd in writers if fd < _SELECTABLE]
        readable, writable, _ = select.select(
            fds, writers, (), None if milliseconds is None else milliseconds / 1000
        )
        found = dict.fromkeys(readable, READ)
        for fd in writable:
            found[fd] = found.get(fd, 0) | WRITE
        return list(found.items())

    def _arm(self) -> float:
        """When we are to be woken at the latest."""
        due = min([when for when, _ in self._counting()], default=_NEVER)
        if self._beat != _NEVER:
            due = min(due, boottime() + self._beat)
        libc.arm_timer(self._timer_fd, None if due == _NEVER else due + namespace_offset())
        return due

    def _fire_timers(self, has_just_heard: bool) -> None:
        now = boottime()
        due = sorted([one for one in self._counting() if one[0] <= now])
        for _, name in due:
            # The callback before this one may have taken long: read events first, then judge.
            if not has_just_heard:
                self._deliver(self._wait(0))
            has_just_heard = False
            if self._running and self._is_due(name):
                _, callback, _ = self._timers.pop(name)
                self._guard(name, callback)

    def _counting(self) -> list[tuple[float, str]]:
        """When each timer is due; those of the run's own time are not while it is paused."""
        is_still = self._still_since is not None
        timers = self._timers.items()
        return [(when, name) for name, (when, _, awake) in timers if not (awake and is_still)]

    def _is_due(self, name: str) -> bool:
        now = self._note_gap()  # which may put it off
        return name in self._timers and self._timers[name][0] <= now

    def _guard(self, name: str, callback: Callable[..., None], *arguments: int) -> None:
        try:
            hold_callback(name)
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - recorded; the run must go on
            self._on_fault(name, error)
        self._note_gap()

    def _take_signals(self, _events: int) -> None:
        try:
            numbers = set(os.read(self._wakeup, 4096))
        except BlockingIOError:
            return
        for number in numbers:
            if number in self._signals:
                self._signals[number]()


def _noted(_number: int, _frame: object) -> None:
    """Python writes the number to the wake-up pipe; the loop does the rest."""
