"""What the shim writes: events, and the history of every signal. It holds the run's lock.

A write that a full disk refuses waits in the event log and is tried again; nothing is reported
before it is on disk.
"""

from __future__ import annotations

from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.signals import Delivery
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.locks import HeldLock
    from holdfast.shim.loop import Loop

_RETRY_SECONDS = 0.5
_MOST_TAKEN_ALONG = 20  # signals in an ending: it has to fit into what is reserved for it
_NAMING = (
    Kind.SUPERVISED,
    Kind.ATTEMPT_STARTED,
    Kind.WORKLOAD_RESOLVED,
    Kind.ROOT_EXITED,
)
_MOST_FAULTS = 50  # a watcher that fails for ever must not fill the disk with its failures


class Journal:
    """The run's one writer."""

    def __init__(self, directory: RunDirectory, lock: HeldLock) -> None:
        self.loop: Loop | None = None  # set once there is one to try again from
        self.publish: Callable[[bytes], None] = lambda _line: None
        self._directory = directory
        self._log = directory.open_log(lock, published=self._published)
        self._signalled: dict[ProcessIdentity, set[int]] = {}
        self._faults = 0
        self._noted: list[str] = []
        self._unwritten: list[dict[str, Any]] = []  # signals that a full disk did not take

    def _published(self, line: bytes) -> None:
        self.publish(line)  # set later: there is no socket yet when the log is opened

    @property
    def facts(self) -> RunFacts:
        """All that is recorded so far."""
        return self._log.facts

    @property
    def is_settled(self) -> bool:
        """Whether everything recorded is on disk."""
        return not self._log.is_behind

    def record(self, kind: Kind, *, sync: bool = False, **facts: Any) -> None:
        """Append one fact; it waits while the disk does not take it."""
        self._log.append(kind, sync=sync, **facts)
        if kind in _NAMING:
            self._note()
        self._retry_later()

    def _note(self) -> None:
        facts = self.facts
        identities = (facts.shim, facts.attempt.root, facts.attempt.workload_identity)
        named = [identity.token for identity in identities if identity is not None]
        if facts.attempt.root is not None and named != self._noted:
            self._directory.note_processes(named)
            self._noted = named

    def _retry_later(self) -> None:
        if (self._log.is_behind or self._unwritten) and self.loop is not None:
            self.loop.after("journal", _RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._log.flush()
        self._tell_of_sync()
        self._write_signals()
        self._retry_later()

    def _tell_of_sync(self) -> None:
        """Record that the ending is written but not synced: a power cut may lose it."""
        failure, self._log.sync_failure = self._log.sync_failure, None
        if failure is not None:
            self._log.append(Kind.FAULT, where="sync", error=f"the disk did not sync: {failure}")

    def record_fault(self, where: str, error: BaseException) -> None:
        """Something of ours failed; the run goes on and the record says so."""
        self._faults += 1
        if self._faults <= _MOST_FAULTS and not self.facts.has_ended:
            text = f"{type(error).__name__}: {error}"
            self.record(Kind.FAULT, where=where, error=text[:500])

    def record_delivery(self, delivery: Delivery, why: str, asked_by: Any = None) -> None:
        """One signal, sent or refused."""
        from holdfast.run.signal_log import signal_row

        if delivery.delivered:
            self._signalled.setdefault(delivery.identity, set()).add(delivery.signal)
        self._unwritten.append(signal_row(delivery, why, asked_by))
        self._write_signals()
        self._retry_later()

    def _write_signals(self) -> None:
        # A stop must not fail because its history can't be written yet.
        try:
            while self._unwritten:
                self._directory.append_signal(self._unwritten[0])
                self._unwritten.pop(0)
        except OSError:
            return

    def unwritten_signals(self) -> list[dict[str, Any]]:
        """What the disk has not taken of the history of signals: an ending takes it along."""
        self._write_signals()
        return [{**row, "evidence": None} for row in self._unwritten[:_MOST_TAKEN_ALONG]]

    def we_sent(self, identity: ProcessIdentity, sig: int) -> bool:
        """Whether that signal to that process came from Holdfast: from us or `holdfast signal`."""
        if sig in self._signalled.get(identity, set()):
            return True
        from holdfast.run.signal_log import was_sent

        return was_sent(self._directory.read_signals(), identity.token, sig)
