"""Processes that no stop could end, of runs that were removed by force: `abandoned.jsonl`.

Their run is gone, so this list is all that names them. One that is proven alive keeps the name of
its run; `recover` and `doctor` report it; `recover` forgets those proven gone.
"""

from __future__ import annotations

import os

from holdfast.errors import AlreadyRunning, HoldfastError
from holdfast.process.clock import wall_clock
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.atomic_files import atomic_write, encode, lines_in, read_plain
from holdfast.run.locks import wait_for_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.process.verdict import Look
    from holdfast.run.home import Home

    Json = dict[str, Any]


class Abandoned(Record):
    """One process, and the run that was removed while it lived."""

    run: str
    name: str | None
    at: str
    comm: str | None
    identity: ProcessIdentity

    def __str__(self) -> str:
        return f"{self.identity.pid} {self.comm or '?'} ({self.identity.token})"

    def to_json(self) -> Json:
        """A line of the file; the contract's IDENTITY with its run."""
        whose = {"run": self.run, "name": self.name, "at": self.at, "comm": self.comm}
        return {"schema": 1, **whose, **self.identity.to_json()}

    @classmethod
    def from_json(cls, document: Json) -> Abandoned:
        """Read it back. HoldfastError when it names no process."""
        identity = ProcessIdentity.parse(str(document.get("token")))
        said = [document.get(field) for field in ("run", "name", "at", "comm")]
        run, name, at, comm = (None if one is None else str(one) for one in said)
        return cls(run or "?", name, at or "?", comm, identity)


def abandon(
    home: Home, run_id: str, name: str | None, living: Sequence[tuple[ProcessIdentity, str | None]]
) -> tuple[Abandoned, ...]:
    """Put them on the list, on disk for good when this returns."""
    at = wall_clock()
    fresh = tuple(Abandoned(run_id, name, at, comm, identity) for identity, comm in living)
    tokens = {one.identity.token for one in fresh}
    with wait_for_lock(home.abandoned_path):
        known = [one for one in read_abandoned(home) if one.identity.token not in tokens]
        _write(home, [*known, *fresh])
    return fresh


def read_abandoned(home: Home) -> list[Abandoned]:
    """Every process on the list; a line that can't be read names none. UnsafeFile."""
    found = []
    for document in lines_in(read_plain(home.abandoned_path)):
        try:
            found.append(Abandoned.from_json(document))
        except HoldfastError:  # a damaged line
            continue
    return found


def look_at_abandoned(home: Home) -> list[tuple[Abandoned, Look]]:
    """Every process on the list, and what looking at it shows. Changes nothing."""
    return [(one, one.identity.look()) for one in read_abandoned(home)]


def forget_gone(home: Home) -> None:
    """Drop those proven gone; the file goes with the last one."""
    if not os.path.exists(home.abandoned_path):
        return
    with wait_for_lock(home.abandoned_path):
        known = look_at_abandoned(home)
        _write(home, [one for one, look in known if not look.is_gone])


def refuse_beside_abandoned(home: Home, name: str, notice: Callable[[str], None]) -> None:
    """A process of an earlier run of that name that is proven alive keeps the name.

    What is unknown does not, and is reported.
    """
    ours = [
        (one, look)
        for one, look in look_at_abandoned(home)
        if (one.name or "").lower() == name.lower()
    ]
    living = [one for one, look in ours if look.verdict is Verdict.SAME]
    if living:
        raise AlreadyRunning(
            f"{name} was removed by force ({living[0].run}), but still alive are: "
            + ", ".join(map(str, living)),
            hint="use another name; once it has ended the name is free",
            run=living[0].run,
            pid=living[0].identity.pid,
        )
    for one, look in ours:
        if look.verdict is Verdict.UNKNOWN:
            notice(f"of {name} ({one.run}), removed by force, may live: {one}: {look.evidence}")


def _write(home: Home, entries: Sequence[Abandoned]) -> None:
    """The lock is held on the file that is replaced: a waiter then opens the new one."""
    if not entries:
        os.unlink(home.abandoned_path)
        return
    lines = b"".join(encode(one.to_json()) + b"\n" for one in entries)
    atomic_write(home.abandoned_path, lines, sync=True)
