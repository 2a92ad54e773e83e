"""The event log of a run: read by anybody, appended to only by the holder of the run's lock.

One event is one line and one write. A torn last line is no event. Room for the ending is kept
in reserve, so that a full disk can't take it away; what does not fit waits in memory and is
written when there is room again, so nothing is said to be recorded that was not.
"""

from __future__ import annotations

import errno
import os

from holdfast.errors import Bug
from holdfast.lean import read_json
from holdfast.process.clock import boottime, wall_clock
from holdfast.record import Record
from holdfast.run.atomic_files import encode, read_file, sync_directory
from holdfast.run.checked_json import damaged
from holdfast.run.events import KINDS, PLAIN_LEAVES_BYTES, Kind, check_facts
from holdfast.run.lifecycle import EventFold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.run.locks import HeldLock

_HEAD_BYTES = 128  # seq, at, boottime, kind
_MEMBERS_SEEN = b'"kind":"members_seen"'
RESERVED_BYTES = 64 * 1024
_MOST_SYNCS = 10  # that fail: what is written is there for every reader; nothing else can be done


class UnknownKind(ValueError):
    """A whole event, of a kind that only a later version can have written."""

    def __init__(self, kind: str, seq: int) -> None:
        super().__init__(f"an event of the unknown kind {kind}")
        self.seq = seq


class LoggedEvent(Record):
    """One fact, as it was appended."""

    seq: int
    at: str
    boottime: float
    kind: Kind
    facts: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The line's document."""
        head = {"seq": self.seq, "at": self.at, "boottime": self.boottime, "kind": self.kind.value}
        return {**head, **self.facts}

    def to_line(self) -> bytes:
        """The line as it is, or would be, in the log."""
        return encode(self.to_json()) + b"\n"

    @property
    def is_recorded(self) -> bool:
        """False while it waits for room on a full disk."""
        return self.seq > 0

    @classmethod
    def from_json(cls, document: object) -> LoggedEvent:
        """Read a line back. ValueError for anything that is not a whole event of a known kind."""
        if not isinstance(document, dict):
            raise ValueError("not an object")
        facts = dict(document)
        try:
            seq, at, boottime = facts.pop("seq"), facts.pop("at"), facts.pop("boottime")
            named = facts.pop("kind")
        except KeyError as missing:
            raise ValueError(f"no {missing.args[0]}") from None
        whole = isinstance(seq, int) and isinstance(at, str) and isinstance(boottime, (int, float))
        if not whole or isinstance(seq, bool):
            raise ValueError("seq, at or boottime is of a wrong type")
        try:
            kind = Kind(named)
        except ValueError:
            if isinstance(named, str) and named.isidentifier():
                raise UnknownKind(named, seq) from None
            raise
        check_facts(kind, facts)
        event = object.__new__(cls)
        parts = event.__dict__  # a call takes a third of this: a wait reads thousands
        parts["seq"], parts["at"], parts["boottime"] = seq, at, boottime
        parts["kind"], parts["facts"] = kind, facts
        return event


class EventsRead(Record):
    """What one look at an event log gave."""

    events: tuple[LoggedEvent, ...]
    offset: int  # where the next look goes on
    next_seq: int
    damage: str | None = None  # why what follows `offset` can't be read; None: all is well
    is_later: bool = False  # what can't be read is no damage: a later version wrote it


def read_events(
    path: str, offset: int = 0, next_seq: int = 1, *, members: bool = True
) -> EventsRead:
    """The whole events from a byte on. No lock is needed; a file that is missing has none.

    `members=False` skips `members_seen` events: most of a long log, and not for lists.
    """
    try:
        data = read_file(path, offset)
        if offset and not data and os.stat(path).st_size < offset:
            return EventsRead((), offset, next_seq, "it became shorter")
    except FileNotFoundError:
        return EventsRead((), offset, next_seq)
    return _parse(data, offset, next_seq, members)


def _parse(data: bytes, offset: int, next_seq: int, members: bool = True) -> EventsRead:
    events: list[LoggedEvent] = []
    for line in data.split(b"\n")[:-1]:
        try:
            if members or _MEMBERS_SEEN not in line[:_HEAD_BYTES]:
                event = LoggedEvent.from_json(read_json(str(line, "utf-8")))
                if event.seq != next_seq:
                    raise ValueError(f"event {event.seq} where {next_seq} was due")
                events.append(event)
        except (ValueError, RecursionError) as error:
            is_later = isinstance(error, UnknownKind) and error.seq == next_seq
            damage = f"at byte {offset}: {error}"
            return EventsRead(tuple(events), offset, next_seq, damage, is_later)
        offset += len(line) + 1
        next_seq += 1
    return EventsRead(tuple(events), offset, next_seq)


class _Waiting(Record):
    event: LoggedEvent
    sync: bool


def _may_overtake(kind: Kind, kept: list[_Waiting]) -> bool:
    # The order of a life is never changed: a restart that was recorded after the attempt that it
    # led to would make an adopter start another beside it.
    if not kept or kind is Kind.ENDED:
        return True
    if kind is Kind.ATTEMPT_STARTED or not _is_vital(kind):
        return False
    return not any(_is_vital(waiting.event.kind) for waiting in kept)


def _is_vital(kind: Kind) -> bool:
    """Whether the run's life hangs on it: it may use the reserve."""
    return KINDS[kind].leaves_bytes < PLAIN_LEAVES_BYTES


class EventLog:
    """The one writer of a run's events.

    `published` is called with each line after it is written whole. `is_behind` says that events
    wait for room; call `flush` from time to time until they are written.
    """

    def __init__(
        self, path: str, lock: HeldLock, *, published: Callable[[bytes], None] | None = None
    ) -> None:
        self._path = path
        self._lock = lock
        self._published = published
        self._require_lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(path, flags, 0o600)
        try:
            self._take_over()
        except BaseException:
            os.close(self._fd)
            raise
        self._waiting: list[_Waiting] = []
        self._unpublished: list[bytes] = []
        self._is_unsynced = False
        self._failed_syncs = 0
        self.sync_failure: OSError | None = None  # the disk takes what is written, and no sync
        self._is_torn = False
        # What an earlier holder reserved is still there, also when the disk is full by now.
        allocated = os.fstat(self._fd).st_blocks * 512
        self._reserved_until: int | None = max(self._size, allocated)
        self._reserve(0)

    def _take_over(self) -> None:
        # The events are read after the lock was taken: no other process can add to them.
        size = os.fstat(self._fd).st_size
        read = _parse(os.pread(self._fd, size, 0), 0, 1)
        if read.damage is not None:
            raise damaged(self._path, read.damage)
        if read.offset < size:
            os.ftruncate(self._fd, read.offset)  # the torn line of a holder that died
        self._size, self._next_seq = read.offset, read.next_seq
        self.events = read.events  # as they were found
        self._fold = EventFold(read.events)

    @property
    def facts(self) -> RunFacts:
        """What the events add up to, those that wait for room too."""
        return self._fold.facts

    @property
    def is_behind(self) -> bool:
        """Whether anything that was appended is not on disk yet."""
        return bool(self._waiting) or self._is_unsynced

    def append(self, kind: Kind, *, sync: bool = False, **facts: Any) -> LoggedEvent:
        """Record a fact. `sync`: it survives a power cut. Its seq is 0 while it waits for room."""
        self._require_lock()
        check_facts(kind, facts)
        event = LoggedEvent(0, wall_clock(), round(boottime(), 6), kind, facts)
        event.to_line()  # what can't be written must fail here and not in a retry
        written = self._work_off([*self._waiting, _Waiting(event, sync)])
        self._fold.apply(written or event)
        return written or event

    def flush(self) -> bool:
        """Try again to write what waits; True: all is on disk."""
        self._work_off(self._waiting)
        if self._is_unsynced:
            self._sync()
        return not self.is_behind

    def _work_off(self, queue: list[_Waiting]) -> LoggedEvent | None:
        """Write what can be written, and keep the rest; the last one as it was written."""
        kept: list[_Waiting] = []
        written = None
        for waiting in queue:
            kind = waiting.event.kind
            written = self._write(waiting) if _may_overtake(kind, kept) else None
            if written is None:
                kept.append(waiting)
            elif kind is Kind.ENDED:
                kept.clear()  # the ending has it all, and only a clean-up may follow
        self._waiting = kept
        # Last, so that a subscriber's fault can't make a line be written twice.
        lines, self._unpublished = self._unpublished, []
        if self._published is not None:
            for line in lines:
                self._published(line)
        return written

    def close(self) -> None:
        """Close the file; the reserve of an ended run is given back."""
        if self._fd < 0:
            return
        if self.facts.has_ended:
            self._give_back()
        os.close(self._fd)
        self._fd = -1

    def _require_lock(self) -> None:
        if not self._lock.is_held:
            raise Bug("an event was to be written without the run's lock")

    def _write(self, waiting: _Waiting) -> LoggedEvent | None:
        event = waiting.event.replace(seq=self._next_seq)
        line = event.to_line()
        if not self._has_room(event.kind, len(line)) or not self._write_line(line):
            return None
        self._size += len(line)
        self._next_seq += 1
        if waiting.sync:
            self._sync()
        if event.kind is Kind.ENDED:
            self._give_back()
        self._unpublished.append(line)
        return event

    def _write_line(self, line: bytes) -> bool:
        try:
            if self._is_torn:
                self._cut()
            written = os.write(self._fd, line)
        except OSError:
            return False
        if written == len(line):
            return True
        # A full disk can take a part of a line. It must not become the head of the next one.
        self._is_torn = True
        try:
            self._cut()
        except OSError:  # it stays torn: the next write cuts first
            pass
        return False

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._is_torn = False
        if self._reserved_until is not None:
            self._reserved_until = self._size  # truncating gave the reserve back
            self._reserve(0)

    def _has_room(self, kind: Kind, length: int) -> bool:
        if self._reserved_until is None or self._left_after(length) >= PLAIN_LEAVES_BYTES:
            return True
        self._reserve(length)
        room = KINDS[kind].leaves_bytes
        return room == 0 or self._left_after(length) >= room

    def _left_after(self, length: int) -> int:
        return (self._reserved_until or self._size) - self._size - length

    def _reserve(self, length: int) -> None:
        from holdfast.process import libc

        try:
            libc.reserve_room(self._fd, self._size, RESERVED_BYTES + length)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                self._reserved_until = None  # this file system can't: plain writes must do
        else:
            self._reserved_until = self._size + RESERVED_BYTES + length

    def _give_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)  # frees what is reserved beyond the end
            self._reserved_until = None
        except OSError:
            pass  # some KiB stay taken: no harm to the run

    def _sync(self) -> None:
        try:
            os.fsync(self._fd)
            sync_directory(os.path.dirname(self._path))
        except FileNotFoundError:
            # The whole directory was removed: its names are not needed again.
            self._is_unsynced = False
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                os.sync()  # of everything, and without a descriptor
                self._is_unsynced = False
                return
            self._failed_syncs += 1
            self._is_unsynced = self._failed_syncs < _MOST_SYNCS
            if not self._is_unsynced:
                self.sync_failure = error
        else:
            self._is_unsynced = False
