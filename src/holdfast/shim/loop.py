"""One poll loop: descriptors, timers on CLOCK_BOOTTIME, signals. It wakes only when it must.

A fault in a callback is handed to `on_fault` and the loop goes on: a watcher, a sample or a
notice must never end or block the run.
"""

from __future__ import annotations

import errno
import os
import select

from holdfast.lean import signal
from holdfast.process import libc
from holdfast.process.clock import boottime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.POLLIN
WRITE = select.POLLOUT
HANG_UP = select.POLLHUP
_SELECTABLE = 1024  # FD_SETSIZE
_SHORTAGE_SECONDS = 0.5
_TRIES = 10


class Loop:
    """Descriptors and timers by name; `run` until `stop`."""

    def __init__(self, on_fault: Callable[[str, Exception], None]) -> None:
        self._on_fault = on_fault
        self._poll = select.poll()
        self._watched: dict[int, tuple[str, Callable[[int], None], int]] = {}
        self._short: set[str] = set()  # what has failed for want of descriptors, or of memory
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self._signals: dict[int, Callable[[], None]] = {}
        self._running = False
        # The timer descriptor counts suspended time too, which poll's own timeout does not.
        self._timer_fd = libc.boottime_timer()
        self.watch(self._timer_fd, READ, "timer", self._drain_timer)
        self._wakeup, wakeup_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
        self.watch(self._wakeup, READ, "signals", self._take_signals)

    def watch(self, fd: int, events: int, name: str, callback: Callable[[int], None]) -> None:
        """Call back with the events found. Watching again replaces what was wanted before."""
        self._watched[fd] = (name, callback, events)
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor; before it is closed, since its number will be used again."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def at(self, name: str, when: float, callback: Callable[[], None]) -> None:
        """Call back once at that boottime. A name has one timer: the last one set."""
        self._timers[name] = (when, callback)

    def after(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        """Call back once, so many seconds from now."""
        self.at(name, boottime() + seconds, callback)

    def insist(self, name: str, call: Callable[[], None], tries: int = _TRIES) -> None:
        """Call now, and again where the kernel has no room for it; else let go of the run.

        Whoever meets it next has descriptors, and finds what is recorded.
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

    def run(self) -> None:
        """Serve until `stop`."""
        self._running = True
        while self._running:
            self._arm()
            for fd, events in self._wait():
                if fd in self._watched and self._running:  # a callback may have closed it
                    name, callback, _ = self._watched[fd]
                    self._guard(name, callback, events)
            self._fire_timers()

    def _wait(self) -> list[tuple[int, int]]:
        try:
            return self._poll.poll()
        except OSError as error:
            # More descriptors than RLIMIT_NOFILE, which `prlimit` may lower at any time.
            if error.errno != errno.EINVAL:
                raise
            self._fall_short("poll", error)
        return self._select()

    def _fall_short(self, name: str, error: OSError) -> None:
        """Said once: it may last."""
        if name not in self._short:
            self._short.add(name)
            self._on_fault(name, error)

    def _select(self) -> list[tuple[int, int]]:
        """The same question to select(2), which that limit does not concern."""
        fds = [fd for fd in self._watched if fd < _SELECTABLE]
        writers = [fd for fd in fds if self._watched[fd][2] & WRITE]
        readable, writable, _ = select.select(fds, writers, ())
        found = dict.fromkeys(readable, READ)
        for fd in writable:
            found[fd] = found.get(fd, 0) | WRITE
        return list(found.items())

    def _arm(self) -> None:
        due = min((when for when, _ in self._timers.values()), default=None)
        libc.arm_timer(self._timer_fd, due)

    def _fire_timers(self) -> None:
        now = boottime()
        due = [name for name, (when, _) in self._timers.items() if when <= now]
        for name in due:
            if name in self._timers and self._running:
                _, callback = self._timers.pop(name)
                self._guard(name, callback)

    def _guard(self, name: str, callback: Callable[..., None], *arguments: int) -> None:
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - recorded; the run must go on
            self._on_fault(name, error)

    def _drain_timer(self, _events: int) -> None:
        try:
            os.read(self._timer_fd, 8)
        except BlockingIOError:
            return

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
