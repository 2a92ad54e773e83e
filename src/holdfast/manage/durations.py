"""How long a run lasted, and until when it may: by the clock that can't be set.

The wall clock counts only across a reboot, where no other clock goes on.
"""

from __future__ import annotations

import time

from holdfast.process import this_host
from holdfast.process.clock import boottime, iso_time, seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

_STEP_SECONDS = 1.0  # the two clocks drift apart by less, unless one was set


def duration_seconds(facts: RunFacts, *, has_ended: bool) -> float | None:
    """From the start to the end, or until now; None: its end was not seen, or it has no start."""
    ended_at = facts.ended_at if facts.has_ended else None
    if facts.started_at is None or (has_ended and ended_at is None):
        return None
    began, ended = began_boottime(facts), facts.ended_boottime
    if began is not None and (ended is not None or ended_at is None):
        passed = (boottime() if ended is None else ended) - began
    else:
        end = time.time() if ended_at is None else seconds_of(ended_at)
        passed = end - seconds_of(facts.started_at)
    return round(max(0.0, passed), 3)


def began_boottime(facts: RunFacts) -> float | None:
    """When it was started, by the clock of this boot, or of the one in which it also ended."""
    return facts.started_boottime if _is_one_boot(facts) else None


def _is_one_boot(facts: RunFacts) -> bool:
    """Whether all that is compared was read from the clock of one boot."""
    boots = {shim.boot_id for shim in (*facts.previous_shims, facts.shim) if shim is not None}
    if not facts.has_ended:
        boots.add(this_host.place().boot_id)
    return len(boots) == 1 and None not in boots


def deadline_at(spec: RunSpec, facts: RunFacts) -> str | None:
    """When `--timeout` ends the run, as the time of day is now."""
    timeout = spec.wanted.timeout_seconds
    if timeout is None or facts.started_at is None:
        return None
    began = None if facts.has_ended else began_boottime(facts)
    return deadline_of(timeout, facts.started_at, began)


def deadline_of(timeout: float, started_at: str, began: float | None) -> str:
    """When such a timeout ends a run. `began`: by `boottime`; None: in another boot, or unknown."""
    at = seconds_of(started_at) + timeout
    if began is not None:
        true = time.time() - boottime() + began + timeout
        at = true if abs(true - at) > _STEP_SECONDS else at
    return iso_time(at)
