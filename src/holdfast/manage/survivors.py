"""What survived a stop, judged now: the record has what was left then, and may be old.

Read only. A process that is proven to have ended since is no survivor; one of which nothing is
proven still is.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, StillAlive, called
from holdfast.process import procfs
from holdfast.process.held import hold_here
from holdfast.process.procfs import ProcessState
from holdfast.process.tree_stop import Survivor
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Json = dict[str, Any]

_MOST_NAMED = 5


def recorded_survivors(cleanup: Json | None) -> list[Survivor]:
    """Those that a clean-up left, as they were then."""
    return [Survivor.from_json(one) for one in (cleanup or {}).get("survivors") or ()]


def living_survivors(cleanup: Json | None) -> list[Survivor]:
    """Those of them that may be alive, as they are now."""
    return [as_now(one) for one in recorded_survivors(cleanup) if may_live(one)]


def may_live(survivor: Survivor) -> bool:
    """Whether nothing proves that it has ended."""
    return not survivor.identity.verdict().is_gone


def is_proven_alive(survivor: Survivor) -> bool:
    """What is needed to keep the name; not proven either way is not enough."""
    return survivor.identity.verdict() is Verdict.SAME


def as_now(survivor: Survivor) -> Survivor:
    """With its state of this moment, where that can be seen."""
    try:
        with hold_here(survivor.identity) as held:
            number = held.identity.pid  # which differs from the recorded one of a container
            stat, channel = procfs.read_stat(number), procfs.wait_channel(number)
            is_over = held.has_exited()
    except (HoldfastError, OSError):
        return survivor
    if is_over:
        return survivor
    return survivor.replace(comm=stat.comm, state=stat.state, wait_channel=channel)


def judge(cleanup: Json) -> Json:
    """The contract's `cleanup`, with the survivors of now, each with its verdict.

    When all of them have ended since, what they forked meanwhile was not seen: `complete` is null.
    """
    living = [
        {**one.to_json(), "verdict": one.identity.verdict().value}
        for one in living_survivors(cleanup)
    ]
    complete = False if living else None
    return {**cleanup, "survivors": living, "complete": complete}


def describe(survivor: Survivor) -> str:
    """`5120 ffmpeg survives, state disk sleep in nfs_wait_bit`."""
    where = f" in {survivor.wait_channel}" if survivor.wait_channel else ""
    who = f"{survivor.identity.pid} {survivor.comm}"
    return f"{who} survives, state {survivor.state.value}{where}"


def advise(survivors: Sequence[Survivor], then: str) -> str:
    """What a person can do about it, and what to try afterwards."""
    first = survivors[0]
    if first.state is ProcessState.DISK_SLEEP:
        until = f"{first.identity.pid} ends when its I/O returns"
    else:
        until = f"{first.identity.pid} may be held by a debugger, a tracer or a freezer"
    return f"{until}; then: holdfast {then}"


def refusal(run_id: str, survivors: Sequence[Survivor]) -> StillAlive:
    """The error for a run that was stopped, and of which these are left."""
    named = "; ".join(describe(one) for one in survivors[:_MOST_NAMED])
    more = f"; and {len(survivors) - _MOST_NAMED} more" if len(survivors) > _MOST_NAMED else ""
    give_up = called("rm", "stop", "force")
    return StillAlive(
        f"run {run_id} was stopped, but is still alive: {named}{more}",
        hint=advise(survivors, f"rm --stop {run_id}; or {give_up} gives them up"),
        run=run_id,
        identity=survivors[0].identity,
        survivors=tuple(one.to_json() for one in survivors),
    )
