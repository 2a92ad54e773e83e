"""`--on-limit resume`: an agent whose quota is used up goes on with its session when that is back.

The same run has another attempt, once nothing of the old tree is alive: two processes that write
one session would ruin it. How long to wait is worked out once, and recorded with the wait: an
adopter goes on with the same schedule. Loaded only where the option was given.
"""

from __future__ import annotations

import os
import time

from holdfast.errors import Refused, StillAlive
from holdfast.process import this_host
from holdfast.process.clock import boottime, iso_time, seconds_of
from holdfast.process.context import own_context
from holdfast.process.stamped import find_stamped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.options import Wanted
    from holdfast.shim.supervisor import Supervisor

_MOST_READ_SECONDS = 5.0  # for what an attempt said last


def wait_seconds(
    wanted: Wanted, retry_at: str | None, untimed: int, now: float, chance: float
) -> float:
    """How long to wait. `untimed`: waits so far of which nobody said how long; `chance`: 0 to 1."""
    if retry_at is None:
        from holdfast.run.units import parse_duration

        waits = wanted.limit_waits.split(",")
        seconds = parse_duration(waits[min(untimed, len(waits) - 1)])
    else:
        seconds = max(0.0, seconds_of(retry_at) - now) + wanted.limit_margin_seconds
    return seconds + chance * wanted.limit_spread_seconds


class UsageLimit:
    """What follows when the agent of one run has used its quota up."""

    def __init__(self, supervisor: Supervisor) -> None:
        # Before it is needed: an upgrade of the files meanwhile mixes no versions.
        from holdfast.run import units  # noqa: F401

        self._supervisor = supervisor
        self._read_until: tuple[int, float] | None = None  # of which attempt

    def has_more_to_say(self) -> bool:
        """Whether output of the attempt is still to be read, which may say why it ended."""
        number = self._supervisor.attempt.number
        if self._read_until is None or self._read_until[0] != number:
            self._read_until = number, boottime() + _MOST_READ_SECONDS
        return self._supervisor.has_unread() and boottime() < self._read_until[1]

    def is_hit(self) -> bool:
        """Whether the attempt that is over failed, and said that its quota is used up."""
        latest, own = self._supervisor.journal.facts.attempt, self._supervisor.attempt.end.own_exit
        if latest.limit is None or own is None:
            return False
        if latest.completion is not None:
            return bool(latest.completion.get("is_error"))
        return own.exit_code not in (0, None)

    def next_wait(self) -> dict[str, Any] | str:
        """What the next attempt waits for, as it is recorded, and for how many seconds.

        A text: why there is none.
        """
        supervisor, facts = self._supervisor, self._supervisor.journal.facts
        most, before = supervisor.spec.wanted.limit_resumes, facts.quota_waits
        if len(before) >= most:
            return f"usage limit: not resumed again, {most} times was the most that was asked for"
        session = (facts.session or {}).get("id")
        if not session or supervisor.resume_words is None:
            return "usage limit: not resumed, since no session was seen"
        until = (facts.attempt.limit or {}).get("retry_at")
        untimed = sum(wait.get("until") is None for wait in before)
        now, chance = time.time(), int.from_bytes(os.urandom(4), "big") / 2**32
        seconds = wait_seconds(supervisor.spec.wanted, until, untimed, now, chance)
        return {
            "seconds": round(seconds, 3),
            "until": until,
            "at": iso_time(now + seconds),
            "boottime": round(boottime() + seconds, 3),
            "boot_id": this_host.place().boot_id,
            "session": str(session),
            "context": own_context(),
        }

    def seconds_left(self) -> float:
        """Until the attempt that is scheduled; 0: it is due, or none waits for a quota.

        A time that the agent said is one of the wall clock; a wait of ours is not moved by a clock
        that is set.
        """
        wait = self._supervisor.journal.facts.limit_wait
        if wait is None:
            return 0.0
        if wait["until"] is None and wait["boot_id"] == this_host.place().boot_id:
            return max(0.0, float(wait["boottime"]) - boottime())
        return max(0.0, seconds_of(wait["at"]) - time.time())

    def next_command(self) -> list[str] | None:
        """What the scheduled attempt runs; None: the run's own command. StillAlive: not yet."""
        wait = self._supervisor.journal.facts.limit_wait
        if wait is None:
            return None
        self._see_that_all_is_gone()
        if self._supervisor.resume_words is None:
            raise Refused("the profile of its agent can't be read")
        return self._supervisor.resume_words(wait["session"])

    def _see_that_all_is_gone(self) -> None:
        """The shim that started the tree sees every process. An adopter may have missed some: it
        looks at the recorded identities and for the run's stamp."""
        supervisor = self._supervisor
        if supervisor.tree.reaper is not None:
            if not supervisor.tree.is_empty():
                raise _alive([str(one.identity.pid) for one in supervisor.tree.walk()])
            return
        named = supervisor.journal.facts.named_processes()
        alive = [one for one in named if not one.verdict().is_gone]
        alive += [member.identity for _, member in find_stamped(supervisor.directory.id)]
        alive = [one for one in dict.fromkeys(alive) if not supervisor.inner.owns(one)]
        if alive:
            raise _alive([str(one.pid) for one in alive])


def _alive(pids: list[str]) -> StillAlive:
    return StillAlive(f"of the attempt before it, {', '.join(pids[:5])} may be alive")
