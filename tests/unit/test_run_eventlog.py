from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import Bug, DamagedRecord
from holdfast.process.identity import ProcessIdentity
from holdfast.run.event_log import RESERVED_BYTES, EventLog, LoggedEvent, read_events
from holdfast.run.events import Kind
from holdfast.run.facts import Phase
from holdfast.run.locks import HeldLock, take_lock

SHIM, ROOT = (ProcessIdentity(pid, 5, 7).to_json() for pid in (1, 2))


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[HeldLock]:
    lock = take_lock(str(tmp_path / "lock"))
    assert lock is not None
    with lock:
        yield lock


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events.jsonl")


def begin(log: EventLog) -> None:
    log.append(Kind.SUPERVISED, shim=SHIM, how="launched")
    log.append(Kind.ATTEMPT_STARTED, attempt=1, root=ROOT)


def test_events_are_appended_and_read_back(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    begin(log)
    log.append(Kind.ENDED, sync=True, outcome="succeeded")
    assert log.facts.phase is Phase.ENDED
    log.close()
    log.close()
    read = read_events(path)
    assert [event.seq for event in read.events] == [1, 2, 3]
    assert [event.kind for event in read.events][-1] is Kind.ENDED
    assert (read.damage, read.next_seq, read.offset) == (None, 4, os.path.getsize(path))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert list(json.loads(Path(path).read_bytes().split(b"\n")[0]))[:4] == [
        "seq",
        "at",
        "boottime",
        "kind",
    ]


def test_reading_goes_on_where_it_stopped(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    begin(log)
    first = read_events(path)
    log.append(Kind.RUNNING, attempt=1)
    more = read_events(path, first.offset, first.next_seq)
    assert [event.kind for event in more.events] == [Kind.RUNNING]
    assert read_events(path, more.offset, more.next_seq).events == ()
    log.close()


def test_a_missing_log_has_no_events(tmp_path: Path):
    read = read_events(str(tmp_path / "none"))
    assert (read.events, read.offset, read.damage) == ((), 0, None)


def test_nothing_is_written_without_the_lock(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    lock.release()
    with pytest.raises(Bug):
        log.append(Kind.FAULT)
    log.close()
    with pytest.raises(Bug):
        EventLog(path, lock)
    assert read_events(path).events == ()


def test_D6_a_torn_last_line_is_no_event_and_the_next_holder_cuts_it(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    begin(log)
    whole = Path(path).read_bytes()
    torn = whole + b'{"seq":3,"at":"t","boottime":1,"kind":"ended","outcome":"succeeded"}'
    Path(path).write_bytes(torn)
    assert [event.seq for event in read_events(path).events] == [1, 2]
    log.close()
    log = EventLog(path, lock)
    assert Path(path).read_bytes() == whole
    assert log.append(Kind.RUNNING, attempt=1).seq == 3
    assert [event.seq for event in log.events] == [1, 2]
    log.close()


DAMAGE = [
    b"garbage\n",
    b"\x00\x00\x00\n",
    b"[1]\n",
    b'{"seq":9,"at":"t","boottime":1,"kind":"running"}\n',
    b'{"seq":3,"at":"t","boottime":1,"kind":"resurrected"}\n',
    b'{"seq":3,"at":"t","boottime":1,"kind":"ended"}\n',
    b"[" * 100_000 + b"\n",
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_D6_what_follows_damage_is_not_believed(path: str, lock: HeldLock, damage: bytes):
    log = EventLog(path, lock)
    begin(log)
    log.close()
    whole = Path(path).read_bytes()
    ended = b'{"seq":4,"at":"t","boottime":1,"kind":"ended","outcome":"succeeded"}\n'
    Path(path).write_bytes(whole + damage + ended)
    read = read_events(path)
    assert [event.seq for event in read.events] == [1, 2]
    assert read.damage
    assert read.offset == len(whole)
    with pytest.raises(DamagedRecord):
        EventLog(path, lock)
    assert Path(path).read_bytes() == whole + damage + ended


def test_a_log_that_became_shorter_is_damaged(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    begin(log)
    read = read_events(path)
    Path(path).write_bytes(b"")
    assert read_events(path, read.offset, read.next_seq).damage
    log.close()


def test_published_lines_are_those_on_disk(path: str, lock: HeldLock):
    lines: list[bytes] = []
    log = EventLog(path, lock, published=lines.append)
    begin(log)
    log.close()
    assert b"".join(lines) == Path(path).read_bytes()


def test_what_cannot_be_an_event_is_not_written(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    with pytest.raises(ValueError, match="outcome"):
        log.append(Kind.ENDED)
    with pytest.raises(ValueError, match="JSON"):
        log.append(Kind.FAULT, number=float("nan"))
    with pytest.raises(TypeError):
        log.append(Kind.FAULT, what=object())
    assert not log.is_behind
    assert log.append(Kind.FAULT, where="here").seq == 1
    log.close()


def test_room_is_reserved_and_given_back_at_the_end(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    if log._reserved_until is None:
        pytest.skip("this file system reserves no room")
    assert os.stat(path).st_blocks * 512 >= RESERVED_BYTES
    begin(log)
    assert os.path.getsize(path) < 1024
    log.append(Kind.ENDED, outcome="failed")
    assert os.stat(path).st_blocks * 512 < RESERVED_BYTES
    log.close()
    log = EventLog(path, lock)
    assert log.append(Kind.CLEANED, complete=True).is_recorded
    log.close()
    assert os.stat(path).st_blocks * 512 < RESERVED_BYTES


class FullDisk:
    """Writes take at most `room` more bytes, and no more room can be reserved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr("os.write", self.write)
        monkeypatch.setattr("holdfast.process.libc.reserve_room", self.reserve)

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "full")
        written = self._write(fd, data[: self.room])
        self.room -= written
        return written

    def reserve(self, *_: object) -> None:
        if self.room < 10**6:
            raise OSError(errno.ENOSPC, "full")


def test_L5_a_partial_write_leaves_no_torn_middle(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(monkeypatch, 10**7)
    log = EventLog(path, lock)
    begin(log)
    whole = Path(path).read_bytes()
    disk.room = 20
    event = log.append(Kind.ENDED, sync=True, outcome="succeeded")
    assert (event.seq, event.is_recorded, log.is_behind) == (0, False, True)
    assert Path(path).read_bytes() == whole
    assert not log.flush()
    disk.room = 10**7
    assert log.flush()
    read = read_events(path)
    assert [event.seq for event in read.events] == [1, 2, 3]
    assert read.events[-1].kind is Kind.ENDED
    log.close()


def test_L5_what_matters_overtakes_what_waits_on_a_full_disk(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(monkeypatch, 10**7)
    published: list[bytes] = []
    log = EventLog(path, lock, published=published.append)
    begin(log)
    disk.room = 40_000  # what is left of the reserve, more or less
    waiting = log.append(Kind.FAULT, where="x" * 35_000)
    assert not waiting.is_recorded
    assert log.facts.faults
    assert log.append(Kind.ROOT_EXITED, attempt=1, exit_code=0).is_recorded
    assert log.append(Kind.ENDED, sync=True, outcome="succeeded").is_recorded
    assert not log.is_behind
    log.close()
    read = read_events(path)
    assert [event.kind for event in read.events] == [
        Kind.SUPERVISED,
        Kind.ATTEMPT_STARTED,
        Kind.ROOT_EXITED,
        Kind.ENDED,
    ]
    assert [LoggedEvent.from_json(json.loads(line)) for line in published] == list(read.events)


def test_the_order_of_a_life_is_kept_on_a_full_disk(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(monkeypatch, 10**7)
    log = EventLog(path, lock)
    begin(log)
    disk.room = 40_000
    log.append(Kind.FAULT, where="x" * 35_000)
    log.append(Kind.ROOT_EXITED, attempt=1, exit_code=1)
    log.append(Kind.RESTART_SCHEDULED, attempt=2, reason="x" * 60_000)  # finds no room
    # An attempt starts only when all that led to it is recorded.
    assert not log.append(Kind.ATTEMPT_STARTED, attempt=2, root=ROOT).is_recorded
    assert not log.append(Kind.RUNNING, attempt=2).is_recorded
    assert log.facts.attempt.number == 2
    assert [event.kind for event in read_events(path).events][2:] == [Kind.ROOT_EXITED]
    disk.room = 10**7
    assert log.flush()
    assert [event.kind for event in read_events(path).events][2:] == [
        Kind.ROOT_EXITED,
        Kind.FAULT,
        Kind.RESTART_SCHEDULED,
        Kind.ATTEMPT_STARTED,
        Kind.RUNNING,
    ]
    log.close()


def test_what_waited_is_written_in_order_when_there_is_room(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(monkeypatch, 10**7)
    log = EventLog(path, lock)
    begin(log)
    disk.room = 0
    for number in range(3):
        log.append(Kind.FAULT, where=f"{number}", text="x" * 40_000)
    disk.room = 10**7
    log.append(Kind.RUNNING, attempt=1)
    assert not log.is_behind
    kinds = [event.kind for event in read_events(path).events]
    assert kinds[2:] == [Kind.FAULT, Kind.FAULT, Kind.FAULT, Kind.RUNNING]
    log.close()


def test_an_ending_that_could_not_be_synced_is_synced_later(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    log = EventLog(path, lock)
    begin(log)
    with monkeypatch.context() as broken:

        def fail(_fd: int) -> None:
            raise OSError(errno.EIO, "no")

        broken.setattr("os.fsync", fail)
        assert log.append(Kind.ENDED, sync=True, outcome="failed").is_recorded
        assert log.is_behind
        assert not log.flush()
    assert log.flush()
    log.close()


def test_a_file_system_that_reserves_nothing_will_do(
    path: str, lock: HeldLock, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr("holdfast.process.libc.reserve_room", fail)
    log = EventLog(path, lock)
    begin(log)
    log.append(Kind.FAULT, where="x" * 200_000)
    assert len(read_events(path).events) == 3
    log.close()


def test_an_event_longer_than_the_reserve_is_written(path: str, lock: HeldLock):
    log = EventLog(path, lock)
    assert log.append(Kind.RESULT_READ, text="x" * 300_000).is_recorded
    assert log.append(Kind.RUNNING).is_recorded
    log.close()
