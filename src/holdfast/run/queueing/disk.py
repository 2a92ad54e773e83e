"""A queue's directory: its settings, the runs that wait or have a slot, and the baton.

    queues/<name>/baton           kernel lock, held only while one run plans
                  settings.json   limit, paused, needs_memory
                  waiting/<order>.<id>
                  active/<id>

The baton is never held across a wait, a connection or a fork. A damaged file is an error, never a
default: nothing is admitted on a failed look.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError
from holdfast.lean import StrEnum, read_json
from holdfast.process import this_host
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run import conclusion
from holdfast.run.atomic_files import (
    atomic_write,
    encode,
    make_directory,
    read_file,
    remove_file,
)
from holdfast.run.checked_json import damaged
from holdfast.run.directory import RunDirectory
from holdfast.run.lifecycle import fold
from holdfast.run.locks import lock_is_held, take_lock
from holdfast.run.names import ID_LENGTH, is_id, valid_name
from holdfast.run.queueing.plan import is_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home
    from holdfast.run.locks import HeldLock
    from holdfast.run.spec import RunSpec

AUTO = "auto"  # a need of memory that is learned from earlier runs
_MOST_LIMIT = 100_000


class QueueSettings(Record):
    """What `queue set` and `queue pause` change."""

    limit: int = 1
    paused: bool = False
    needs_memory: int | str | None = None  # of its runs that do not say: bytes, or AUTO


class Slot(StrEnum):
    """What a run without a shim does to a slot that it was given."""

    TAKEN = "taken"  # something of it lives, or is to start again
    FREE = "free"
    UNUSED = "unused"  # its shim died before it began: it goes back into the line
    UNKNOWN = "unknown"  # not known: it does not hold the slot for ever


def take_signed(path: str) -> HeldLock | None:
    """Take a lock and write our PID to its file; None while another process has it."""
    lock = take_lock(path)
    if lock is not None:
        os.pwrite(lock.fd, f"{os.getpid():<10}\n".encode(), 0)
    return lock


def signed_by(path: str) -> int | None:
    """The PID that took such a lock last, as far as that is known."""
    try:
        return int(read_file(path)[:10])
    except (OSError, ValueError):
        return None


def queue_names(home: Home) -> list[str]:
    """Of every queue of a home, sorted."""
    try:
        names = sorted(filter(valid_name, os.listdir(home.queues_path)))
    except FileNotFoundError:
        return []
    return [name for name in names if Queue(home, name).exists()]


class Queue:
    """One queue of a home."""

    def __init__(self, home: Home, name: str) -> None:
        self.home = home
        self.name = name
        self.path = f"{home.queues_path}/{name.lower()}"
        self.baton_path = f"{self.path}/baton"
        self.settings_path = f"{self.path}/settings.json"
        self.waiting_path = f"{self.path}/waiting"
        self.active_path = f"{self.path}/active"

    def make(self) -> None:
        """Make what is missing."""
        for path in (self.home.queues_path, self.path, self.waiting_path, self.active_path):
            make_directory(path)

    def exists(self) -> bool:
        return os.path.isdir(self.waiting_path)

    def take_baton(self) -> HeldLock | None:
        """Take it if it is free; its holder's PID can be read by others."""
        return take_signed(self.baton_path)

    def baton_pid(self) -> int | None:
        """The PID that took the baton last, as far as that is known."""
        return signed_by(self.baton_path)

    def baton_held_seconds(self) -> float | None:
        """For how long somebody has had the baton; None: nobody has it, or it can't be told."""
        try:
            taken_at = os.stat(self.baton_path).st_mtime  # its taker writes a PID into it
            return max(0.0, time.time() - taken_at) if lock_is_held(self.baton_path) else None
        except OSError:
            return None

    def read_settings(self) -> QueueSettings:
        """DamagedRecord, or OSError, for settings that can't be read."""
        try:
            document = read_json(str(read_file(self.settings_path), "utf-8"))
            settings = QueueSettings(**document)
        except FileNotFoundError:
            return QueueSettings()
        except (ValueError, TypeError, RecursionError):
            raise damaged(self.settings_path, "is not what `queue set` writes") from None
        if not _is_usable(settings):
            raise damaged(self.settings_path, "has values that no queue can have")
        return settings

    def write_settings(self, settings: QueueSettings) -> None:
        """For the holder of the baton."""
        atomic_write(self.settings_path, encode(settings.as_dict()) + b"\n")

    # Waiting runs

    def waiting(self) -> list[tuple[str, str]]:
        """(order, id) of each run in the line, the first first."""
        pairs = [
            (name[: -ID_LENGTH - 1], name[-ID_LENGTH:]) for name in os.listdir(self.waiting_path)
        ]
        return sorted(pair for pair in pairs if is_order(pair[0]) and is_id(pair[1]))

    def drop_if_over(self, order: str, run_id: str) -> bool:
        """Remove the marker of a run that has no shim, if it has ended or was removed.

        Its shim died between the ending and its leaving the line. For the holder of the baton.
        """
        directory = RunDirectory(self.home, run_id)
        if directory.is_marked_active() or directory.lock_is_held():
            return False
        remove_file(self._waiting(order, run_id))
        return True

    def line_up(self, order: str, run_id: str) -> None:
        """Make a run's marker; the one that it had at another place, or for a slot, goes."""
        fd = os.open(self._waiting(order, run_id), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(fd)
        self._leave_other_places(order, run_id)
        remove_file(f"{self.active_path}/{run_id}")

    def leave(self, run_id: str) -> None:
        """The run neither waits nor has a slot any more."""
        self._leave_other_places("", run_id)
        remove_file(f"{self.active_path}/{run_id}")

    def _leave_other_places(self, order: str, run_id: str) -> None:
        for other, waiting in self.waiting():
            if waiting == run_id and other != order:
                remove_file(self._waiting(other, run_id))

    def _waiting(self, order: str, run_id: str) -> str:
        return f"{self.waiting_path}/{order}.{run_id}"

    # Runs with a slot

    def active(self) -> list[str]:
        """The runs that were given a slot, and whose markers were not cleared yet."""
        return sorted(name for name in os.listdir(self.active_path) if is_id(name))

    def admit(self, order: str, run_id: str) -> None:
        """From the line to a slot, in one step; for the holder of the baton."""
        os.rename(self._waiting(order, run_id), f"{self.active_path}/{run_id}")

    def count_active(self) -> int:
        """How many slots are in use; for the holder of the baton, which clears what is over."""
        return sum(self._is_in_use(run_id) for run_id in self.active())

    def _is_in_use(self, run_id: str) -> bool:
        slot = slot_of(RunDirectory(self.home, run_id))
        if slot is Slot.FREE:
            remove_file(f"{self.active_path}/{run_id}")
        elif slot is Slot.UNUSED:
            order = current_order(RunDirectory(self.home, run_id))
            try:
                os.rename(f"{self.active_path}/{run_id}", self._waiting(order, run_id))
            except FileNotFoundError:  # its adopter has done so
                pass
        return slot is Slot.TAKEN


def slot_of(directory: RunDirectory) -> Slot:
    """What a run that was given a slot does to it now.

    A held lock counts, whatever the events say; the events are read after the lock was found free.
    """
    if directory.lock_is_held():
        return Slot.TAKEN
    if not directory.exists():
        return Slot.FREE
    try:
        read = directory.read_events()
        facts = fold(read.events)
    except HoldfastError:
        return Slot.UNKNOWN
    if read.damage is not None:
        return Slot.TAKEN if directory.lock_is_held() else Slot.UNKNOWN
    return _slot_without_shim(directory, facts)


def _slot_without_shim(directory: RunDirectory, facts: RunFacts) -> Slot:
    if directory.lock_is_held():  # it was taken over since
        return Slot.TAKEN
    if facts.has_ended:
        return Slot.FREE
    if facts.waits_to_begin:
        return Slot.UNUSED if facts.stop_cause is None else Slot.FREE
    if conclusion.is_restart_due(facts, this_host.place().boot_id):
        return Slot.TAKEN
    verdicts = {process.verdict() for process in facts.named_processes()}
    if Verdict.SAME in verdicts:
        return Slot.TAKEN
    return Slot.UNKNOWN if Verdict.UNKNOWN in verdicts else Slot.FREE


def need_of(spec: RunSpec) -> int:
    """The memory that a run is to find free when it starts; 0: it does not matter."""
    need: dict[str, Any] = (spec.waits or {}).get("needs_memory") or {}
    return int(need.get("bytes") or 0)


def current_order(directory: RunDirectory) -> str:
    """The run's place in the line: as it was submitted, or moved since."""
    facts = fold(directory.read_events(members=False).events)
    return order_in(directory, facts)


def order_in(directory: RunDirectory, facts: RunFacts) -> str:
    moved = (facts.requeued or {}).get("order")
    return str(moved) if moved else str((directory.read_spec().waits or {}).get("order"))


def _is_usable(settings: QueueSettings) -> bool:
    limit: object = settings.limit
    need: object = settings.needs_memory
    is_limit = type(limit) is int and 1 <= limit <= _MOST_LIMIT
    is_need = need in (None, AUTO) or (type(need) is int and need > 0)
    return is_limit and is_need and type(settings.paused) is bool
