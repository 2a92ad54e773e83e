"""Which processes are a run's, as far as it can be proven: for `tree` and `status`.

It looks, and signals nothing. A process that only carries the run's stamp is a suspect.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.lean import StrEnum
from holdfast.manage.process_info import look_at_process, process_json
from holdfast.manage.resolving import with_workload
from holdfast.process import this_host
from holdfast.process.identity import ProcessIdentity
from holdfast.process.stamped import find_suspects
from holdfast.process.tree import Tree
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.inner_runs import InnerRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.tree import Member
    from holdfast.process.verdict import Look
    from holdfast.run.directory import RunDirectory
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]


class Role(StrEnum):
    """What a process is to the run."""

    SHIM = "shim"
    WRAPPER = "wrapper"
    WORKLOAD = "workload"
    ROOT = "root"  # while it is not known which of the tree is the workload
    DESCENDANT = "descendant"
    SUSPECT = "suspect"


class SeenProcess(Record):
    """One process of a run, and what looking at it showed."""

    role: Role
    process: Json  # the contract's PROCESS
    evidence: str
    parent: str | None = None  # token of another one of the run's

    @property
    def token(self) -> str:
        return str(self.process["token"])

    def to_json(self) -> Json:
        """PROCESS, with its role and place."""
        extra = {"role": self.role.value, "parent": self.parent, "evidence": self.evidence}
        return {**self.process, **extra}


class Processes(Record):
    """All processes of a run. `gone` counts those seen earlier that have ended since."""

    members: tuple[SeenProcess, ...]  # shim, wrappers, workload, descendants; parents first
    suspects: tuple[SeenProcess, ...] | None  # None: can't be looked for here
    gone: int


def look_at_processes(
    directory: RunDirectory, facts: RunFacts, spec: RunSpec | None = None
) -> Processes:
    """Walk the live tree, look at every recorded process, and look for suspects.

    `spec`: if it was read before.
    """
    inner = InnerRuns(directory, spec)
    if spec is not None:
        facts = with_workload(spec, facts)  # as everywhere else: a reader may tell before the shim
    roles = _roles(facts)
    # An inner run's shim may be seen, and recorded, before its own run records it.
    live = [one for one in _walk(facts, inner) if not inner.owns(one.identity)]
    members = [_live_member(member, roles, live, facts) for member in live]
    seen = {one.token for one in members}
    for token, role in roles.items():
        if token not in seen:
            members.append(_recorded(_document(facts, token), role))
    seen |= roles.keys()
    others = [
        _recorded(_document(facts, token), Role.DESCENDANT)
        for token in facts.members
        if token not in seen
    ]
    may_live = [one for one in others if one.process["verdict"] in _MAY_LIVE]
    unsure = [one for one in may_live if not inner.owns(ProcessIdentity.parse(one.token))]
    known = seen | facts.named_tokens()
    return Processes(
        tuple(_in_order([*members, *unsure])),
        _suspects(directory.id, inner, known),
        len(others) - len(may_live),
    )


_MAY_LIVE = (Verdict.SAME.value, Verdict.UNKNOWN.value)


def _suspects(run_id: str, inner: InnerRuns, known: set[str]) -> tuple[SeenProcess, ...] | None:
    """Processes that carry the run's stamp, but are not proven to be its own (`known` tokens)."""
    if this_host.is_portable():
        return None
    found = find_suspects(run_id, lambda identity: identity.token in known or inner.owns(identity))
    why = "carries this run's stamp, not proven ours"
    return tuple(SeenProcess(Role.SUSPECT, _as_process(member), why) for member in found)


def _roles(facts: RunFacts) -> dict[str, Role]:
    """By token. A process that is both root and workload is the workload."""
    latest = facts.attempt
    named = [
        (facts.shim, Role.SHIM),
        (latest.root, Role.ROOT),
        *((wrapper.identity, Role.WRAPPER) for wrapper in latest.wrappers),
        (latest.workload_identity, Role.WORKLOAD),
    ]
    return {identity.token: role for identity, role in named if identity is not None}


def _document(facts: RunFacts, token: str) -> Json:
    """What was recorded about a process."""
    for process in (facts.attempt.workload, *facts.attempt.wrappers):
        if process is not None and process.identity.token == token:
            return process.to_json()
    return {**ProcessIdentity.parse(token).to_json(), "comm": facts.members.get(token)}


def _walk(facts: RunFacts, inner: InnerRuns) -> list[Member]:
    """The live members; none where processes can't be walked."""
    if this_host.is_portable():
        return []
    shim = facts.shim
    if shim is not None and shim.verdict() is not Verdict.SAME:
        shim = None
    roots = facts.named_processes()
    try:
        with Tree(roots, reaper=shim, spare=inner.owns) as tree:
            return tree.walk()
    except HoldfastError:  # the shim ended just now
        with Tree(roots, spare=inner.owns) as tree:
            return tree.walk()


def _live_member(
    member: Member, roles: dict[str, Role], live: list[Member], facts: RunFacts
) -> SeenProcess:
    token = member.identity.token
    above = {one.identity.pid: one.identity.token for one in live}
    if facts.shim is not None:
        above.setdefault(facts.shim.pid, facts.shim.token)
    role = roles.get(token, Role.DESCENDANT)
    return SeenProcess(role, _as_process(member), "proven alive", above.get(member.ppid))


def _as_process(member: Member) -> Json:
    document = {**member.identity.to_json(), "verdict": Verdict.SAME.value}
    seen = {"comm": member.comm, "exe": None, "cmdline": None, "state": member.state.value}
    return {**document, **seen, **look_at_process(member.identity)}


def _recorded(document: Json, role: Role) -> SeenProcess:
    look: Look = ProcessIdentity.from_json(document).look()
    process = process_json(document, {document["token"]: look})
    return SeenProcess(role, process, look.evidence)


_PLACES = tuple(Role)


def _in_order(members: list[SeenProcess]) -> list[SeenProcess]:
    """Parents first, each followed by its children; those without a parent by role."""
    below: dict[str | None, list[SeenProcess]] = {}
    tokens = {one.token for one in members}
    for one in sorted(members, key=lambda one: (_PLACES.index(one.role), one.process["pid"])):
        below.setdefault(one.parent if one.parent in tokens else None, []).append(one)
    ordered: list[SeenProcess] = []
    todo = list(reversed(below.get(None, [])))
    while todo:
        one = todo.pop()
        ordered.append(one)
        todo.extend(reversed(below.pop(one.token, [])))
    return ordered
