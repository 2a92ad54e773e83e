"""Reads the output of the workload: for lines, or to bound the log.

It is woken by inotify, and polls where there is none: no failed look ends the watch. A turn takes
a bounded time, however much there is to read, and the watch rests after each.
"""

from __future__ import annotations

import os

from holdfast.process import libc
from holdfast.process.clock import boottime
from holdfast.run.events import Kind
from holdfast.run.output import LineCarrier, next_data, trim_head, trim_point
from holdfast.shim.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.shim.stdio import LogSize
    from holdfast.shim.supervisor import Supervisor

    Lines = Sequence[tuple[int, bytes]]

REST_SECONDS = 0.1
LONGEST_REST_SECONDS = 1.0  # without inotify
TURN_SECONDS = 0.05
MOST_BYTES_A_READ = 64 << 10
LAST_SECONDS = 5.0
LAST_BYTES = 256 << 10  # of output that is longer than there was time for, its end is read
MOST_UNREAD_BYTES = 64 << 20  # that a log keeps beyond its bound, for its lines to be read
TRIM_SHARE = 4  # of the log's bound: so much more is not worth a hole, nor an event


class OutputWatch:
    """One run's output.log, from where this run (or adopter) began to watch it."""

    def __init__(self, supervisor: Supervisor, log: LogSize) -> None:
        # Each takes lines, and returns those that it had no time for.
        self.on_lines: list[Callable[[Lines], Lines]] = []
        self._supervisor = supervisor
        self._senses = supervisor.senses
        self._path = supervisor.directory.output_path
        self._waiting: list[tuple[Callable[[Lines], Lines], Lines]] = []
        self._log = log
        log.on_cut = self._cut
        self._carrier = LineCarrier(log.bytes)
        self._position = log.bytes
        self._fd = -1  # of the log
        self._watch_fd = -1
        self._rest = REST_SECONDS
        self._can_trim = True
        self._end = -1  # where the output of an ended run ends

    def begin(self) -> None:
        """Watch from now on, if lines or a bound are wanted."""
        if not self.on_lines and not self._supervisor.spec.wanted.log_max_bytes:
            return  # the profile of the agent could not be read
        if self._watch_fd < 0:
            try:
                self._watch_fd = libc.watch_modifications(self._path)
            except OSError as error:
                self._senses.lose("inotify", f"{error}; the log is looked at from time to time")
            else:
                self._senses.regain("inotify")
        self._look()

    def drain(self) -> bool:
        """Read on, to where the log ended when this was first asked; False: all was read.

        The last line may have come with the exit. What is written later is not the run's.
        """
        if self._end < 0:
            self._supervisor.loop.cancel("output")
            if self._watch_fd >= 0:
                self._supervisor.loop.unwatch(self._watch_fd)
            self._end = self._log.look()
        try:
            is_behind = bool(self.on_lines) and self._catch_up(self._end)
        except OSError as error:
            self._senses.lose("lines", error)
            is_behind = False
        if not is_behind:
            self._trim(to_the_last=True)
        return is_behind

    def skip(self) -> None:
        """Out of time: read only the end of what is left, and record that."""
        left = self._end - self._position
        at = max(self._position, self._end - LAST_BYTES)
        if left > 0 or self._waiting:
            self._senses.lose("lines", f"{left} bytes were not read before the ending")
        self._waiting.clear()
        if at > self._position:
            self._position = at
            self._carrier = LineCarrier(at, is_whole=False)
        until = boottime() + LAST_SECONDS
        while self._catch_up(self._end) and boottime() < until:
            continue
        self._trim(to_the_last=True)

    @property
    def unfinished(self) -> tuple[int, bytes]:
        """The last line, where it has no newline, and where it begins; for a run that is over."""
        return self._carrier.rest

    def is_behind(self, end: int) -> bool:
        """Whether lines up to there are wanted and not yet read."""
        return bool(self.on_lines) and (bool(self._waiting) or self._position < end)

    def _cut(self, size: int) -> None:
        self._position = min(self._position, size)
        self._carrier = LineCarrier(self._position)

    def _modified(self, _events: int) -> None:
        loop, fd = self._supervisor.loop, self._watch_fd
        loop.unwatch(fd)
        try:
            os.read(fd, 65536)
        except OSError as error:
            self._watch_fd = -1
            os.close(fd)
            self._senses.lose("inotify", error)
        self._look()

    def _look(self) -> None:
        """Read what is new, then rest: what comes meanwhile is read after the rest."""
        is_behind = False
        try:
            known = self._log.bytes
            is_behind = self._take_in()
            self._senses.regain("output")
            self._rest = REST_SECONDS if self._log.bytes != known else self._rest * 1.5
        except OSError as error:
            self._senses.lose("output", error)
        rest = REST_SECONDS if self._watch_fd >= 0 else min(self._rest, LONGEST_REST_SECONDS)
        self._supervisor.loop.after("output", 0.0 if is_behind else rest, self._listen)

    def _take_in(self) -> bool:
        self._log.look()
        is_behind = bool(self.on_lines) and self._catch_up(self._log.bytes)
        self._trim()
        return is_behind

    def _listen(self) -> None:
        # Writes during the rest are waiting in the inotify queue and wake us at once.
        is_behind = self.on_lines and (self._waiting or self._position < self._log.bytes)
        if self._watch_fd < 0 or is_behind:
            self._look()
        else:
            self._supervisor.loop.watch(self._watch_fd, READ, "output", self._modified)

    def _catch_up(self, end: int) -> bool:
        """Pass lines on for one turn; whether there are more."""
        until = boottime() + TURN_SECONDS
        while self._hand_on() or self._read(end):
            if boottime() >= until:
                return True
        return False

    def _hand_on(self) -> bool:
        """Pass on the lines that were returned; whether there were any."""
        waiting, self._waiting = self._waiting, []
        for take, lines in waiting:
            left = take(lines)
            if left:
                self._waiting.append((take, left))
        return bool(waiting)

    def _read(self, end: int) -> bool:
        """One bounded read; whether anything was there."""
        if self._position >= end:
            return False
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        at = next_data(self._fd, self._position)
        if at > self._position:  # trimmed before it was read
            self._senses.lose("lines", f"{at - self._position} bytes were trimmed unread")
            self._position = at
            self._carrier = LineCarrier(at, is_whole=False)
        data = os.pread(self._fd, min(MOST_BYTES_A_READ, end - at), at) if at < end else b""
        self._position += len(data)
        dropped = self._carrier.dropped
        lines = self._carrier.feed(data)
        if self._carrier.dropped > dropped:
            self._senses.lose("lines", f"before byte {self._position} a line was too long to read")
        if lines:
            self._waiting = [(take, lines) for take in self.on_lines]
        return bool(data)

    def _trim(self, *, to_the_last: bool = False) -> None:
        limit = self._supervisor.spec.wanted.log_max_bytes
        if limit is None or self._log.bytes <= limit or not self._can_trim:
            return
        try:
            self._trim_to(limit, 0 if to_the_last else limit // TRIM_SHARE)
        except OSError as error:
            self._senses.lose("log_max", f"{error}; the log grows beyond its bound")
        else:
            self._senses.regain("log_max")

    def _trim_to(self, limit: int, tolerance: int) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            known = self._supervisor.journal.facts.output_first_byte
            is_near = bool(self.on_lines) and self._log.bytes - self._position <= MOST_UNREAD_BYTES
            first_kept = trim_point(fd, limit, self._position if is_near else None)
            if first_kept > known + tolerance:
                # First: in a copy of the log, only this says which zeros are not output.
                self._record_trim(first_kept)
                try:
                    trim_head(fd, first_kept)
                except OSError:
                    self._can_trim = False
                    self._record_trim(known)
                    raise
        finally:
            os.close(fd)

    def _record_trim(self, first_byte: int) -> None:
        self._supervisor.journal.record(Kind.OUTPUT_TRIMMED, first_byte=first_byte)
