"""Seconds since a run's start: by the clock that never steps, or by wall clock after a reboot."""

from __future__ import annotations

import functools

from holdfast.errors import HoldfastError
from holdfast.process.clock import seconds_of
from holdfast.process.identity import ProcessIdentity
from holdfast.record import Record
from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.manage.report.reading import Material
    from holdfast.run.event_log import LoggedEvent

    TimedEvent = tuple[float, LoggedEvent]


class RunClock(Record):
    """Where a run's time begins. None: nothing of the run has a time."""

    at: str | None
    boottime: float | None = None
    boot_id: str | None = None

    def seconds(self, at: object, boottime: object, boot_id: str | None = None) -> float:
        """Since the start; never negative. A boot that is not known is taken to be the same."""
        is_same_boot = boot_id is None or self.boot_id is None or boot_id == self.boot_id
        if is_same_boot and self.boottime is not None and isinstance(boottime, (int, float)):
            passed = boottime - self.boottime
            if passed >= -1.0:  # the first sample may be a moment earlier than the event
                return round(max(0.0, passed), 3)
        return self.by_wall_clock(at)

    def by_wall_clock(self, at: object) -> float:
        """Seconds since the start, for what has the time of day alone; never negative."""
        try:
            passed = seconds_of(str(at)) - seconds_of(str(self.at))
        except (ValueError, IndexError):
            return 0.0
        return round(max(0.0, passed), 3)


def clock_of(material: Material) -> RunClock:
    """The first attempt's start; else the first fact, sample or the request."""
    boot_id = None
    first = None
    for event in material.events:
        if event.kind is Kind.SUPERVISED:
            boot_id = boot_id or event.facts["shim"].get("boot_id")
        if first is None or event.kind is Kind.ATTEMPT_STARTED:
            first = event
        if event.kind is Kind.ATTEMPT_STARTED:
            break
    if first is not None:
        return RunClock(first.at, first.boottime, boot_id)
    if material.rows:
        row = material.rows[0]
        boottime = row.get("boottime")
        known = float(boottime) if isinstance(boottime, (int, float)) else None
        return RunClock(row["at"], known, boot_of(row.get("token")))
    return RunClock(material.info.created_at)


def timed(events: Sequence[LoggedEvent], clock: RunClock) -> list[TimedEvent]:
    """When each event was; those of another boot by wall clock."""
    found = []
    boot_id: str | None = None
    for event in events:
        if event.kind is Kind.SUPERVISED:
            boot_id = event.facts["shim"].get("boot_id")
        found.append((clock.seconds(event.at, event.boottime, boot_id), event))
    return found


@functools.lru_cache(maxsize=256)
def boot_of(token: object) -> str | None:
    """The boot that a token names."""
    identity = identity_of(token)
    return None if identity is None else identity.boot_id


def identity_of(token: object) -> ProcessIdentity | None:
    """Which process a recorded token names; None where it can't be read."""
    try:
        return ProcessIdentity.parse(str(token))
    except HoldfastError:
        return None
