"""Processes that carry a run's stamp and are not proven to be its own. They are only reported.

The stamp is inherited, copied and forged with ease: it makes a suspect, never a target.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process.stamped import find_stamped
from holdfast.run.directory import RunDirectory
from holdfast.run.lifecycle import fold
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.tree import Member
    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home

    Json = dict[str, Any]


class Suspects:
    """By run: the live processes with the stamp of a run of this home that are not known.

    Shims carry the stamp of the run that they were started in; they and all that an active run
    has recorded as its own are known. /proc is looked at once, a run's events when it is asked
    for, and those of all active runs only where its own do not name every process.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stamped: dict[str, list[Member]] | None = None
        self._known: set[str] | None = None

    def runs(self) -> list[str]:
        """The runs of this home whose stamp a live process carries."""
        return list(self._all())

    def of(self, run_id: str) -> list[Json]:
        """PROCESS of each suspect."""
        stamped = self._all().get(run_id, [])
        own = _known(self._home, {run_id}) if stamped else set()
        strange = [member for member in stamped if member.identity.token not in own]
        if strange and self._known is None:
            self._known = _known(self._home, {*self._home.run_ids(active=True), *self.runs()})
        known = self._known or set()
        return [_document(one) for one in strange if one.identity.token not in known]

    def _all(self) -> dict[str, list[Member]]:
        if self._stamped is None:
            found: dict[str, list[Member]] = {}
            for run_id, member in find_stamped():
                found.setdefault(run_id, []).append(member)
            # Most stamps of a busy machine may be those of another home.
            self._stamped = {
                run_id: members
                for run_id, members in found.items()
                if is_id(run_id) and _is_ours(self._home, run_id)
            }
        return self._stamped


def _is_ours(home: Home, run_id: str) -> bool:
    """Whether the run is one of this home."""
    return os.path.isdir(f"{home.runs_path}/{run_id}") and RunDirectory(home, run_id).exists()


def may_have_missed_a_fork(facts: RunFacts) -> bool:
    """Whether its tree was for a time without its subreaper: then the record may lack a process."""
    return facts.attempt.root is not None and (facts.adopted or not facts.has_ended)


def stamped_of(home: Home, run_id: str) -> list[Json]:
    """PROCESS of each process with the stamp of that run that no other active run has recorded."""
    stamped = [member for _, member in find_stamped(run_id)]
    if not stamped:
        return []
    others = _known(home, {*home.run_ids(active=True)} - {run_id})
    return [_document(one) for one in stamped if one.identity.token not in others]


def _document(member: Member) -> Json:
    return {**member.identity.to_json(), "comm": member.comm, "state": member.state.value}


def _known(home: Home, run_ids: set[str]) -> set[str]:
    """The tokens that these runs have recorded."""
    known: set[str] = set()
    for run_id in run_ids:
        try:
            known |= fold(RunDirectory(home, run_id).read_events().events).named_tokens()
        except (HoldfastError, OSError):  # what it recorded is shown as a suspect, at worst
            continue
    return known
