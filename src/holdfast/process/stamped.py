"""Processes that carry a run's stamp in their environment, whatever started them.

The stamp is inherited, copied and forged with ease: it makes a suspect, never a target. Looks at
every process that /proc shows; signals nothing.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity, hold_pid
from holdfast.process.this_host import STAMP
from holdfast.process.tree import Member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STAMP = b"\0%s=" % STAMP.encode()
_MOST_LOOKS = 50  # a busy machine: each is for the few processes that came since the last
_MOST_BLANK_LOOKS = 5  # then it has no environment, and is not in the middle of an exec


def find_suspects(run_id: str, known: Callable[[ProcessIdentity], bool]) -> Iterator[Member]:
    """Processes that carry the run's stamp but are not known to be its own."""
    for _, member in find_stamped(run_id):
        if not known(member.identity):
            yield member


def find_stamped(only: str | None = None) -> Iterator[tuple[str, Member]]:
    """Every process that carries a run's stamp (or that of `only` one run), ourselves aside.

    Looks until all that started since the last look have shown their environment: one that ended
    before it was read, or was in the middle of an exec, may live on in a child that is younger
    than the listing (test_L10, one child after the other).
    """
    looked_at = {os.getpid(): _MOST_BLANK_LOOKS}
    sought = STAMP.encode() if only is None else os.fsencode(only)
    for _ in range(_MOST_LOOKS):
        is_calm = True
        fresh = (pid for pid in procfs.all_pids() if looked_at.get(pid, 0) < _MOST_BLANK_LOOKS)
        for pid in list(fresh):
            environment = _environment(pid)
            looks = 1 if environment is None else _MOST_BLANK_LOOKS
            looked_at[pid] = looked_at.get(pid, 0) + looks
            stamp = _stamp_in(environment) if environment and sought in environment else None
            if only not in (None, stamp):
                stamp = None  # another run's: it is not looked at
            member = None if stamp is None else _stamped_member(pid, stamp)
            if stamp is not None and member is not None:
                yield stamp, member
            is_calm = is_calm and bool(environment) and (member is None) == (stamp is None)
        if is_calm:
            return


def _environment(pid: int) -> bytes | None:
    """None: it shows nothing now, and may be in the middle of an exec. A kernel thread never is."""
    found = procfs.raw_environment(
        pid
    )  # as it is: a crowd has thousands, of which few are looked at
    return found if found or procfs.executable(pid) is None else None


def _stamp_in(environment: bytes) -> str | None:
    """Of a name that is there twice, the last counts."""
    at = (b"\0" + environment).rfind(_STAMP)
    if at < 0:
        return None
    value = environment[at + len(_STAMP) - 1 :].partition(b"\0")[0]
    return value.decode(errors="surrogateescape")


def _stamped_member(pid: int, stamp: str) -> Member | None:
    """As it was when it showed the stamp; it is not held any more."""
    try:
        with hold_pid(pid) as held:
            member = Member(held)
            member.look()
            # Read again: the number may have become another's before it was held.
            is_still = _stamp_in(procfs.read(pid, "environ")) == stamp
            return member if is_still and not held.has_exited() else None
    except HoldfastError:
        return None
