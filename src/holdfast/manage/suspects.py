"""Processes that carry a run's stamp and are not proven to be its own. They are only told.

The stamp is inherited, copied and forged with ease: it makes a suspect, never a target.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process.members import find_stamped
from holdfast.run.directory import RunDirectory
from holdfast.run.lifecycle import fold
from holdfast.run.names import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.members import Member
    from holdfast.run.facts import RunFacts
    from holdfast.run.home import Home

    Json = dict[str, Any]


def suspects_by_run(home: Home) -> dict[str, list[Json]]:
    """By run: PROCESS of each live process with the stamp of a run of this home.

    Shims carry the stamp of the run that they were started in; they and all that an active run
    has recorded as its own are known.
    """
    stamped = [(run_id, member) for run_id, member in find_stamped() if is_id(run_id)]
    if not stamped:
        return {}
    known = _known(home, {*home.run_ids(active=True), *(run_id for run_id, _ in stamped)})
    suspects: dict[str, list[Json]] = {}
    for run_id, member in stamped:
        if member.identity.token in known or not RunDirectory(home, run_id).exists():
            continue
        suspects.setdefault(run_id, []).append(_document(member))
    return suspects


def may_have_missed_a_fork(facts: RunFacts) -> bool:
    """Whether its tree was for a time without its subreaper: then the record may lack a process."""
    return facts.root is not None and (facts.adopted or not facts.has_ended)


def stamped_of(home: Home, run_id: str) -> list[Json]:
    """PROCESS of everybody who carries the stamp of that run, and is of no other active run."""
    stamped = [member for stamp, member in find_stamped() if stamp == run_id]
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
            known |= recorded_tokens(fold(RunDirectory(home, run_id).read_events().events))
        except (HoldfastError, OSError):
            continue
    return known


def recorded_tokens(facts: RunFacts) -> set[str]:
    """Every process that a run's events name as its own."""
    named = [facts.shim, facts.root, facts.workload, *facts.wrappers, *facts.previous_shims]
    named += [attempt.root for attempt in facts.attempts]
    named += (facts.cleanup or {}).get("survivors") or []
    return {one["token"] for one in named if one and "token" in one} | set(facts.members)
