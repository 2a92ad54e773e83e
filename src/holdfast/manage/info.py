"""What is known about one run, derived at one look. Takes no lock and writes nothing.

The recorded facts come first; the lock shows whether a shim supervises it; the recorded
identities show what is alive. What can't be proven is `unknown`.
"""

from __future__ import annotations

import os

from holdfast.errors import DamagedRecord, LaterVersion, RunNotFound
from holdfast.lean import read_json
from holdfast.manage.durations import deadline_at, duration_seconds
from holdfast.manage.process_info import ProcessInfo, identity_json, process_info
from holdfast.manage.state import NOTHING_READ, RunView, Standing, unknown, view_run
from holdfast.process.clock import iso_time
from holdfast.record import Record
from holdfast.run.facts import ProcessFacts, RunFacts, State
from holdfast.run.names import valid_name
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]


class RunInfo(Record):
    """A run as the contract's JSON has it. Unknown is None, never 0 or an empty text."""

    schema: int
    id: str
    name: str | None
    host: str | None
    state: State
    outcome: Outcome | None
    exit_code: int | None
    signal: int | None
    workload_exit_code: int | None
    core_dumped: bool | None
    oom_killed: bool | None
    ended_by: EndedBy | None
    evidence: str
    command: list[str] | None
    cwd: str | None
    agent: str | None
    tags: dict[str, str]
    key: str | None
    pty: bool | None
    wanted: Json | None
    given_by: dict[str, str] | None  # options that a preset or [defaults] gave
    created_at: str | None
    started_at: str | None
    ended_at: str | None
    duration_seconds: float | None
    deadline_at: str | None
    last_output_at: str | None
    attempt: int | None
    attempts: list[Json]
    resumed_from: str | None
    started_in: str | None
    worktree: Any
    shim: Json | None
    workload: ProcessInfo | None
    wrappers: list[ProcessInfo]
    suspects: list[Json] | None  # None: not looked for
    workload_resolution: str | None
    session: Json | None
    result: Json | None
    completion: Json | None
    limit: Json | None  # a quota that was used up
    attention: Json | None  # what its agent waits for from a person
    hooks: Json | None  # whether its agent was told to report that; None: it can't, or was not to
    budget: Json | None  # what it may use, and what it had used when that was passed
    cleanup: Json | None
    usage: Json | None  # so far, while it is active
    now: Json | None  # the newest sample; None: it has ended, or was not measured lately
    is_recorded: bool | None  # False: it is over, and no ending is recorded yet
    loss: Loss | None  # why it is not known how a lost run ended
    vouched: bool | None  # that nothing of it is alive rests on the user's word
    stop_reason: StopCause | None  # why Holdfast stopped it, or is stopping it
    paused: Json | None  # since when, and requested by what
    queue: Json | None  # what it waits for, or waited in
    placement: Json | None  # of a run that was placed from elsewhere: engine, node, submitter
    stop_figure: float | None  # what its limit was about by then: seconds of silence, bytes
    watching: Json | None  # {"degraded": [...]}: what its shim can't observe
    anomaly_count: int
    log_bytes: int | None
    notify_failure: str | None  # of the last notice that failed: which, and why
    last_output: Json | None  # of a run that did not succeed: {"stderr": lines, "output": lines}

    def to_json(self) -> Json:
        """The contract's document."""
        document = self.as_dict()
        document["workload"] = None if self.workload is None else self.workload.to_json()
        document["wrappers"] = [wrapper.to_json() for wrapper in self.wrappers]
        return document

    @property
    def is_active(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self.state.is_active

    @property
    def has_survivors(self) -> bool:
        """Whether a process that its stop could not end may be alive."""
        return bool((self.cleanup or {}).get("survivors"))


def read_run(directory: RunDirectory, *, closely: bool = True) -> RunInfo:
    """Everything known about a run. A file of a later version, or a damaged one, is `unknown`.

    For a list, `closely=False` saves half of the time: then the command is left out, and so is
    what its processes do now beyond what the state depends on, and what they used so far.
    """
    return examine_run(directory, closely=closely)[0]


def examine_run(
    directory: RunDirectory, *, closely: bool = True, since: RunView | None = None
) -> tuple[RunInfo, RunView | None]:
    """Like `read_run`, with the look that it was made from; None: its spec can't be read.

    `since`: an earlier look, of which spec and events still hold.
    """
    try:
        spec = directory.read_spec() if since is None else since.spec
    except RunNotFound:
        from holdfast.manage.vanished import find_remains

        remains = find_remains(directory)
        if remains is None:
            raise
        return _unreadable(directory, remains.evidence), None
    except (LaterVersion, DamagedRecord, OSError) as error:
        return _unreadable(directory, f"{error}; kept, and not touched"), None
    try:
        view = view_run(directory, spec=spec, since=since, members=closely, closely=closely)
    except (LaterVersion, DamagedRecord, OSError) as error:
        standing = unknown(f"{error}; kept, and not touched")
        view = RunView(directory, spec, RunFacts(), standing, NOTHING_READ)
    if not view.facts.last_seq and not directory.exists():
        # Removed while it was read: what is left of it tells nothing.
        raise RunNotFound(f"there is no run {directory.id}", run=directory.id)
    return describe_run(view, closely=closely), view


def describe_run(view: RunView, *, closely: bool = True) -> RunInfo:
    """What a look showed, as the contract has it."""
    directory, spec, standing = view.directory, view.spec, view.standing
    ending = standing.ending or {}
    facts = _with_workload(spec, view.facts)
    now, used = _live(directory, spec, facts, standing, closely)
    latest, shim = facts.attempt, facts.shim
    command = spec.public_command if closely else None
    log = stat_or_none(directory.output_path)
    has_ended = standing.state is State.ENDED

    def seen(process: ProcessFacts) -> ProcessInfo:
        return process_info(process.to_json(), standing.looks, closely)

    ended_at = facts.ended_at if facts.has_ended else None
    return RunInfo(
        schema=1,
        id=directory.id,
        name=spec.name,
        host=spec.host,
        state=standing.state,
        outcome=standing.outcome,
        exit_code=ending.get("exit_code"),
        signal=ending.get("signal"),
        workload_exit_code=ending.get("workload_exit_code"),
        core_dumped=ending.get("core_dumped"),
        oom_killed=ending.get("oom_killed"),
        ended_by=_ended_by(ending, has_ended),
        evidence=standing.evidence,
        command=command,
        cwd=spec.cwd,
        agent=spec.agent,
        tags=spec.tags,
        key=spec.key,
        pty=spec.pty,
        wanted=spec.public_wanted,
        given_by=spec.given_by,
        created_at=spec.created_at,
        started_at=facts.started_at,
        ended_at=ended_at,
        duration_seconds=duration_seconds(facts, has_ended=has_ended),
        deadline_at=deadline_at(spec, facts),
        last_output_at=last_output_at(directory, log, is_split=spec.wanted.split_stderr),
        attempt=latest.number or None,
        attempts=_attempts(facts, command, closely),
        resumed_from=spec.resumed_from,
        started_in=spec.started_in,
        worktree=spec.public_worktree,
        shim=None if shim is None else identity_json(shim.to_json(), standing.looks, closely),
        workload=None if latest.workload is None else seen(latest.workload),
        wrappers=[seen(wrapper) for wrapper in latest.wrappers],
        suspects=None,
        workload_resolution=latest.resolution,
        session=_session(facts),
        result=latest.result,
        completion=latest.completion,
        limit=latest.limit,
        attention=_attention(facts) if standing.state.is_supervised else None,
        hooks=(spec.added or {}).get("hooks"),
        budget=_budget(spec, facts),
        cleanup=judge_cleanup(facts.cleanup),
        usage=_usage(facts, ending.get("usage") or used),
        now=now if standing.state.is_under_way else None,
        is_recorded=standing.is_recorded,
        loss=ending.get("loss"),
        vouched=bool(ending.get("vouched")),
        stop_reason=ending.get("stop_reason") if has_ended else facts.stop_reason,
        paused=_paused(facts) if standing.state.is_active else None,
        queue=_queue(view) if spec.waits is not None or facts.limit_wait is not None else None,
        placement=spec.placement,
        stop_figure=facts.stop_figure,
        watching={"degraded": list(facts.degraded)} if facts.degraded else None,
        anomaly_count=facts.anomaly_count,
        log_bytes=None if log is None else log.st_size,
        notify_failure=notify_failure(directory) if spec.wanted.notify is not None else None,
        last_output=_last_lines(view, closely),
    )


def read_figures(view: RunView) -> tuple[Json | None, str | None]:
    """`now` and `last_output_at`: what changes of a supervised run while nothing is recorded."""
    directory, spec = view.directory, view.spec
    facts, log = _with_workload(spec, view.facts), stat_or_none(directory.output_path)
    now, _ = _live(directory, spec, facts, view.standing, closely=False)
    return now, last_output_at(directory, log, is_split=spec.wanted.split_stderr)


def _with_workload(spec: RunSpec, facts: RunFacts) -> RunFacts:
    if facts.attempt.resolution is not None:
        return facts  # of nearly all runs: nothing else is loaded
    from holdfast.manage.resolving import with_workload

    return with_workload(spec, facts)


def _attempts(facts: RunFacts, own: list[str] | None, closely: bool) -> list[Json]:
    """Each with its command: the run's own, or one that went on with its session."""
    attempts = [attempt.to_json() for attempt in facts.attempts]
    return [{**one, "command": one["command"] or own if closely else None} for one in attempts]


def _session(facts: RunFacts) -> Json | None:
    if facts.session is None:
        return None
    return {name: facts.session.get(name) for name in ("id", "transcript")}


def _attention(facts: RunFacts) -> Json | None:
    """The most pressing of what it waits for; the rest of it are its `others`."""
    if not facts.attempt.attention:
        return None  # of nearly all runs
    needed = [
        {
            "kind": one["about"],
            "since": one["since"],
            "id": one["id"],
            "text": one.get("text"),
            "is_cut": one.get("is_cut") is True,
        }
        for one in sorted(facts.attempt.attention, key=lambda one: one["about"] == "turn_over")
    ]
    return {**needed[0], "others": needed[1:]}


def _budget(spec: RunSpec, facts: RunFacts) -> Json | None:
    wanted, reached = spec.wanted, facts.budget_reached
    if wanted.max_tokens is None and wanted.max_cost_usd is None and reached is None:
        return None
    limits = ("max_tokens", "max_cost_usd", "on_budget")
    return {**{name: getattr(wanted, name) for name in limits}, "reached": reached}


def _paused(facts: RunFacts) -> Json | None:
    if facts.paused is None:
        return None
    return {"since": facts.paused.get("since"), "by": facts.paused.get("by")}


def _queue(view: RunView) -> Json | None:
    from holdfast.manage.queueing.view import describe_queue

    return describe_queue(view)


def _ended_by(ending: Json, has_ended: bool) -> EndedBy | None:
    if "ended_by" in ending:
        return EndedBy(ending["ended_by"])
    return EndedBy.UNKNOWN if has_ended else None


_TOLD_BY_AGENTS = ("tokens_in", "tokens_out", "tokens_source", "cost_usd")


def _usage(facts: RunFacts, measured: Json | None) -> Json | None:
    """Each figure is there wherever one is: what is not known is null."""
    if not measured and not facts.usage:
        return None
    from holdfast.process.sampling.figures import USAGE

    return {**dict.fromkeys((*USAGE, *_TOLD_BY_AGENTS)), **(measured or {}), **facts.usage}


def _live(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, standing: Standing, closely: bool
) -> tuple[Json | None, Json | None]:
    """`now`, and the usage so far; None of a run with a recorded ending, or one in doubt."""
    if facts.has_ended or standing.state is State.UNKNOWN:
        return None, None
    from holdfast.run.live import read_live

    interval = spec.wanted.sample_interval_seconds
    live = read_live(directory.trace_path, facts.workloads, interval, with_usage=closely)
    return live.now, live.usage


def judge_cleanup(cleanup: Json | None) -> Json | None:
    """What was recorded of a clean-up, with those of its survivors that may be alive now."""
    if cleanup is None or not cleanup.get("survivors"):
        return cleanup  # of nearly all runs: nothing else is loaded
    from holdfast.manage.survivors import judge

    return judge(cleanup)


def stat_or_none(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def last_output_at(
    directory: RunDirectory, log: os.stat_result | None, *, is_split: bool
) -> str | None:
    """Both streams count."""
    errors = stat_or_none(directory.stderr_path) if is_split else None
    written = [one.st_mtime for one in (log, errors) if one is not None and one.st_size]
    return iso_time(max(written)) if written else None


def notify_failure(directory: RunDirectory) -> str | None:
    """What a notice that failed left behind; of nearly all runs there is nothing to look for."""
    try:
        text = _content(directory.notify_failed_path)[:500].decode(errors="replace").strip()
    except OSError:
        return None
    return text or None


def _last_lines(view: RunView, closely: bool) -> Json | None:
    """As recorded with the ending; an ending that is not recorded yet has them in the log."""
    standing = view.standing
    if standing.is_recorded or not closely:
        return (standing.ending or {}).get("last_output")
    if standing.outcome is None or standing.outcome.is_success:
        return None
    from holdfast.run.last_words.last_output import read_last_output

    return read_last_output(view.directory, view.spec)


def _unreadable(directory: RunDirectory, evidence: str) -> RunInfo:
    empty: Json = dict.fromkeys(RunInfo._fields)
    empty.update(schema=1, id=directory.id, state=State.UNKNOWN, evidence=evidence)
    empty.update(name=claimed_name(directory), attempts=[], wrappers=[], tags={}, anomaly_count=0)
    return RunInfo(**empty)


def claimed_name(directory: RunDirectory) -> str | None:
    """The name in the run's spec, even in one that is otherwise not understood; else the name that
    leads to it."""
    try:
        document = read_json(str(_content(directory.spec_path), "utf-8"))
        name = document["name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        name = None
    if isinstance(name, str) and valid_name(name):
        return name
    from holdfast.run.claims import find_name

    return find_name(directory.home, directory.id)


def _content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
