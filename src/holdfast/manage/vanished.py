"""A run whose directory was deleted while it may be alive: it is reported, and keeps its name.

What is left of it: the marker in `active/`, in which its shim noted its processes; the name
that leads to it; the stamp in the environment of its processes. Its shim goes on without a
directory, and makes nothing anew. Once all of them are proven gone, there is no such run.
"""

from __future__ import annotations

from holdfast.errors import AlreadyRunning, HoldfastError, IdentityUnproven, StillAlive, called
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.run.home import Home

    Json = dict[str, Any]


class Remains(Record):
    """What may be alive of a run whose directory is gone."""

    run_id: str
    living: tuple[ProcessIdentity, ...]  # proven; its shim comes first
    has_shim: bool
    unclear: tuple[str, ...]  # why it is not known
    stamped: tuple[Json, ...]  # processes that carry its stamp, and are not proven

    @property
    def evidence(self) -> str:
        """Why it is believed that something may be alive."""
        said = []
        if self.living:
            said.append(f"alive: {', '.join(str(one.pid) for one in self.living)}")
        said += [f"may be alive: {one['pid']} {one['comm']}" for one in self.stamped]
        said += self.unclear
        return f"directory deleted; {'; '.join(said)}"

    @property
    def hint(self) -> str:
        """How to reach what is left."""
        if self.living:
            token = self.living[0].token
            does = "has its shim stop it; then" if self.has_shim else "asks it to end; once it has,"
            return f"`holdfast signal TERM {token}` {does} it is forgotten"
        if self.stamped:
            return f"see who that is and end it; {called('rm', 'force')} forgets it all the same"
        return f"{called('rm', 'force')} forgets it all the same"


def find_remains(directory: RunDirectory, *, unmarked: bool = False) -> Remains | None:
    """What may be alive; None: its directory is there, or all processes are proven gone.

    `unmarked`: also of a run that has no marker, which was most likely removed as it should be.
    """
    if directory.exists() or not (unmarked or directory.is_marked_active()):
        return None
    living, unclear = [], []
    tokens = list(dict.fromkeys(directory.noted_tokens()))  # the root is often the workload
    for token in tokens:
        try:
            identity = ProcessIdentity.parse(token)
        except HoldfastError:  # torn by a full disk
            continue
        look = identity.look()
        if look.verdict is Verdict.SAME:
            living.append(identity)
        elif look.verdict is Verdict.UNKNOWN:
            unclear.append(look.evidence)
    stamped: list[Json] = []
    if not living:
        from holdfast.manage.suspects import stamped_of

        stamped = stamped_of(directory.home, directory.id)
    if directory.exists() or not (living or unclear or stamped):
        return None
    has_shim = bool(living) and living[0].token == tokens[0]
    return Remains(directory.id, tuple(living), has_shim, tuple(unclear), tuple(stamped))


def find_vanished(home: Home) -> list[Remains]:
    """Every run of the home that may be alive without its directory."""
    marked = [RunDirectory(home, run_id) for run_id in home.run_ids(active=True)]
    found = [find_remains(directory) for directory in marked if not directory.exists()]
    return [remains for remains in found if remains is not None]


def refuse_start_beside(directory: RunDirectory, what: str, notice: Callable[[str], None]) -> None:
    """AlreadyRunning while something is left; what is unknown is reported, and does not block."""
    remains = find_remains(directory, unmarked=True)
    if remains is None:
        directory.drop_marker()
    elif remains.living or remains.stamped:
        pid = remains.living[0].pid if remains.living else remains.stamped[0]["pid"]
        raise AlreadyRunning(
            f"{what} ({directory.id}) is unknown: {remains.evidence}",
            hint=f"use another name; or {remains.hint}",
            run=directory.id,
            pid=pid,
        )
    else:
        notice(f"an earlier run {what} ({directory.id}) is unknown: {remains.evidence}")


def refuse_vanished(directory: RunDirectory) -> None:
    """Before acting on a run: IdentityUnproven when only its processes may be left."""
    remains = find_remains(directory)
    if remains is not None:
        raise IdentityUnproven(
            f"run {directory.id} is unknown: {remains.evidence}; no process was signalled",
            hint=remains.hint,
            run=directory.id,
            evidence=remains.evidence,
        )


def refuse_to_forget(directory: RunDirectory, *, force: bool) -> str | None:
    """Why a run without a directory may be forgotten on the user's word; None: it has one, or
    there is none. StillAlive, or IdentityUnproven without that word."""
    remains = find_remains(directory)
    if remains is None:
        return None
    if remains.living:
        raise StillAlive(
            f"run {directory.id} is still running: {remains.evidence}",
            hint=remains.hint,
            run=directory.id,
            identity=remains.living[0],
        )
    if not force:
        refuse_vanished(directory)
    return f"forgotten by force, though {remains.evidence}"
