"""The document of a run on another machine, as the record that a local one has. Pure.

The node may have another version: what it does not say is None, what is not known here is left out,
and a word that is not known here makes the state unknown, never another word.
"""

from __future__ import annotations

from holdfast.errors import Refused, StillAlive
from holdfast.fleet.verdict import RemoteVerdict, VerdictSource
from holdfast.manage.info import RunInfo
from holdfast.manage.process_info import ProcessInfo
from holdfast.manage.words.views import row_of
from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.placement import Placement

    Json = dict[str, Any]

UNFIT = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)
_WORDS = {"outcome": Outcome, "ended_by": EndedBy, "loss": Loss, "stop_reason": StopCause}
_EMPTY: dict[str, Any] = {"attempts": [], "wrappers": [], "tags": {}, "anomaly_count": 0}


def info_from_node(document: Json) -> RunInfo:
    """What a node said of a run."""
    fields: Json = {name: document.get(name) for name in RunInfo._fields}
    for name, empty in _EMPTY.items():
        fields[name] = empty if fields[name] is None else fields[name]
    for name, words in _WORDS.items():
        fields[name] = words(fields[name]) if fields[name] in tuple(words) else None
    state = fields["state"]
    fields["state"] = State(state) if state in tuple(State) else State.UNKNOWN
    if fields["state"] is State.UNKNOWN and state != State.UNKNOWN:
        fields["evidence"] = f"its node says {state!r}, which this Holdfast does not know"
    fields["evidence"] = str(fields["evidence"] or "")
    workload = fields["workload"]
    fields["workload"] = None if workload is None else ProcessInfo.from_json(workload)
    fields["wrappers"] = [ProcessInfo.from_json(one) for one in fields["wrappers"]]
    return RunInfo(**fields)


def fit_info(placement: Placement, verdict: RemoteVerdict, last: Json | None) -> RunInfo:
    """A placed run as it stands; `unknown` where its node says what can't be read as a run."""
    try:
        info = info_of(placement, verdict, last)
        _check_fit(info)
        return info
    except UNFIT as error:
        if verdict.source is VerdictSource.NODE:
            fault = f"{placement.where} says of it what can't be read ({type(error).__name__})"
            verdict = RemoteVerdict(State.UNKNOWN, VerdictSource.NOBODY, fault)
        return info_of(placement, verdict, None)


def _check_fit(info: RunInfo) -> None:
    """Raises one of UNFIT where it can't be shown."""
    row = row_of(info)
    texts = (row.name, row.note, row.agent or "", *row.tags, *row.tags.values())
    "".join((*texts, *(info.command or ())))
    float(row.tokens or 0), float(row.cost_usd or 0)
    float(row.figures.cpu_percent or 0), int(row.figures.memory_bytes or 0)


def info_of(placement: Placement, verdict: RemoteVerdict, last: Json | None) -> RunInfo:
    """A placed run as it stands, with the last facts of it; verdicts of its processes are gone."""
    if verdict.source is VerdictSource.NODE and last is not None:
        return info_from_node(last)
    info = info_from_node(last or _asked(placement))
    info = info.replace(
        state=verdict.state,
        evidence=verdict.evidence,
        now=None,
        shim=None if info.shim is None else {**info.shim, "verdict": None},
        workload=None if info.workload is None else info.workload.replace(verdict=None),
        wrappers=[one.replace(verdict=None) for one in info.wrappers],
        placement=info.placement or placement.in_spec(placement.node or ""),
    )
    if verdict.source in (VerdictSource.RECORD, VerdictSource.SEEN):
        return info
    if verdict.source is VerdictSource.PERSON:
        return info.replace(
            outcome=Outcome.LOST,
            loss=Loss.UNSEEN,
            vouched=True,
            ended_by=EndedBy.UNKNOWN,
            exit_code=None,
            signal=None,
            duration_seconds=None,
            is_recorded=True,
        )
    if verdict.source is VerdictSource.DROPPED:
        word = placement.dropped or {}
        is_ours = word["outcome"] == Outcome.STOPPED
        return info.replace(
            outcome=Outcome(word["outcome"]),
            ended_at=word["at"],
            ended_by=EndedBy.HOLDFAST if is_ours else EndedBy.ITSELF,
            is_recorded=True,
        )
    return info.replace(outcome=None, exit_code=None, signal=None, ended_at=None, is_recorded=True)


def unreadable_info(placement_id: str, fault: str) -> RunInfo:
    """A placement whose record is damaged."""
    document = {"schema": 1, "id": placement_id, "state": State.UNKNOWN}
    return info_from_node({**document, "evidence": f"{fault}; kept, and not touched"})


def _asked(placement: Placement) -> Json:
    """What is known of a run of which its node has said nothing yet."""
    request = placement.request
    options = request.get("options") or {}
    return {
        "schema": 1,
        "id": placement.id,
        "name": placement.name,
        "command": request.get("argv") or None,
        "cwd": options.get("cwd"),
        "tags": options.get("tags") or {},
        "pty": bool(options.get("pty")),
        "key": placement.key,
        "created_at": placement.created_at,
    }


def refuse_resume(info: RunInfo) -> None:
    """Raise what a node that is reached only by a job could refuse only once that has begun."""
    if info.state is State.ENDED and info.agent is None:
        raise Refused(
            f"{info.name} ({info.id}) is not the run of an agent: there is no session to resume",
            hint=f"holdfast rerun {info.id} starts its command again",
            run=info.id,
        )
    if info.is_active and info.state is not State.UNKNOWN:
        raise StillAlive(
            f"{info.name} ({info.id}) is {info.state}: {info.evidence}",
            hint=f"holdfast stop {info.id}",
            run=info.id,
        )
