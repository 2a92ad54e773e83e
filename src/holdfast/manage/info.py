"""What is known about one run, derived at one look. Takes no lock and writes nothing.

The recorded facts come first; the lock says whether somebody supervises; the recorded
identities say who is alive. What can't be proven is `unknown`.
"""

from __future__ import annotations

import os

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion, RunNotFound
from holdfast.lean import read_json
from holdfast.manage.durations import deadline_at, duration_seconds
from holdfast.manage.process_info import ProcessInfo
from holdfast.manage.standing import Standing, stand, unknown
from holdfast.process import procfs
from holdfast.process.clock import iso_time
from holdfast.process.identity import ProcessIdentity
from holdfast.process.local import hold_here
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.facts import RunFacts, State
from holdfast.run.names import valid_name
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause
from holdfast.run.redaction import redact_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.verdict import Look
    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_SAMPLED = (State.STARTING, State.RUNNING, State.STOPPING, State.ORPHANED)


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
    cleanup: Json | None
    usage: Json | None  # so far, while it is active
    now: Json | None  # the newest sample; None: it has ended, or nobody has measured lately
    is_recorded: bool | None  # False: it is over, and no ending is recorded yet
    loss: Loss | None  # why nobody can tell how a lost run ended
    vouched: bool | None  # that nothing of it is alive rests on the user's word
    stop_reason: StopCause | None  # why Holdfast stopped it, or is stopping it
    watching: Json | None  # {"degraded": [...]}: what its shim can't observe
    anomaly_count: int
    log_bytes: int | None

    def to_json(self) -> Json:
        """The contract's document."""
        document = self.as_dict()
        document["workload"] = None if self.workload is None else self.workload.to_json()
        document["wrappers"] = [wrapper.to_json() for wrapper in self.wrappers]
        return document

    @property
    def is_active(self) -> bool:
        """Whether it has not ended, as far as anybody can tell."""
        return self.state is not State.ENDED


def read_run(directory: RunDirectory, *, closely: bool = True) -> RunInfo:
    """Everything known about a run. A file of a later version, or a damaged one, is `unknown`.

    For a list, `closely=False` saves half of the time: then the command is left out, and so is
    what its processes do now beyond what the state needs to be told, and what they used so far.
    """
    return examine_run(directory, closely=closely)[0]


def examine_run(directory: RunDirectory, *, closely: bool = True) -> tuple[RunInfo, bool]:
    """The same, and whether it is for good: an ending that is recorded and believed."""
    try:
        spec = directory.read_spec()
    except RunNotFound:
        from holdfast.manage.vanished import find_remains

        remains = find_remains(directory)
        if remains is None:
            raise
        return _unreadable(directory, remains.evidence), False
    except (LaterVersion, DamagedRecord, OSError) as error:
        return _unreadable(directory, f"{error}; kept, and not touched"), False
    try:
        facts, standing = stand(directory, spec, closely=closely)
    except (LaterVersion, DamagedRecord, OSError) as error:
        facts, standing = RunFacts(), unknown(f"{error}; kept, and not touched")
    if not facts.last_seq and not directory.exists():
        # Removed while it was read: what is left of it tells nothing.
        raise RunNotFound(f"there is no run {directory.id}", run=directory.id)
    is_final = facts.has_ended and standing.state is State.ENDED
    return _describe(directory, spec, facts, standing, closely), is_final


def _describe(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, standing: Standing, closely: bool
) -> RunInfo:
    ending = standing.ending or {}
    facts = _with_workload(spec, facts)
    now, used = _live(directory, spec, facts, standing, closely)
    workload = facts.workload
    log = _stat(directory.output_path)
    has_ended = standing.state is State.ENDED
    ended_at = facts.ended_at if facts.has_ended else None
    return RunInfo(
        schema=1,
        id=spec.id,
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
        command=spec.public_command if closely else None,
        cwd=spec.cwd,
        agent=spec.agent,
        tags=spec.tags,
        key=spec.key,
        pty=spec.pty,
        wanted=spec.wanted.to_json(),
        created_at=spec.created_at,
        started_at=facts.started_at,
        ended_at=ended_at,
        duration_seconds=duration_seconds(facts, has_ended=has_ended),
        deadline_at=deadline_at(spec, facts),
        last_output_at=_last_output(directory, spec, log),
        attempt=facts.attempt or None,
        attempts=[attempt.as_dict() for attempt in facts.attempts],
        resumed_from=spec.resumed_from,
        started_in=spec.started_in,
        worktree=spec.worktree,
        shim=_identity(facts.shim, standing.looks, closely),
        workload=None if workload is None else process_info(workload, standing.looks, closely),
        wrappers=[process_info(wrapper, standing.looks, closely) for wrapper in facts.wrappers],
        suspects=None,
        workload_resolution=facts.resolution,
        session=facts.session,
        result=facts.result,
        completion=facts.completion,
        limit=facts.limit,
        cleanup=judge_cleanup(facts.cleanup),
        usage=_usage(facts, ending.get("usage") or used),
        now=now if standing.state in _SAMPLED else None,
        is_recorded=standing.is_recorded,
        loss=ending.get("loss"),
        vouched=bool(ending.get("vouched")),
        stop_reason=ending.get("stop_reason") if has_ended else facts.stop_reason,
        watching={"degraded": list(facts.degraded)} if facts.degraded else None,
        anomaly_count=facts.anomaly_count,
        log_bytes=None if log is None else log.st_size,
    )


def _with_workload(spec: RunSpec, facts: RunFacts) -> RunFacts:
    if facts.resolution is not None:
        return facts  # of nearly all runs: nothing else is loaded
    from holdfast.manage.resolving import with_workload

    return with_workload(spec, facts)


def _ended_by(ending: Json, has_ended: bool) -> EndedBy | None:
    if "ended_by" in ending:
        return EndedBy(ending["ended_by"])
    return EndedBy.UNKNOWN if has_ended else None


def _identity(recorded: Json | None, looks: dict[str, Look], closely: bool) -> Json | None:
    if recorded is None:
        return None
    look = looks.get(recorded["token"])
    if look is None and closely:
        look = ProcessIdentity.from_json(recorded).look()
    return {**recorded, "verdict": None if look is None else look.verdict.value}


def process_json(recorded: Json, looks: dict[str, Look], closely: bool = True) -> Json:
    """The contract's PROCESS: what was recorded, and what is to be seen of it now."""
    document = _identity(recorded, looks, closely) or {}
    live: Json = {}
    if closely and document["verdict"] == Verdict.SAME.value:
        live = look_at_process(ProcessIdentity.from_json(recorded))
    names = ("comm", "exe", "cmdline", "state")
    return {**document, **{name: live.get(name, recorded.get(name)) for name in names}}


def process_info(
    recorded: Json, looks: dict[str, Look] | None = None, closely: bool = True
) -> ProcessInfo:
    """The same as a record."""
    return ProcessInfo.from_json(process_json(recorded, looks or {}, closely))


def look_at_process(identity: ProcessIdentity) -> Json:
    """Name, program, arguments and state of a process that is proven to be that one."""
    try:
        with hold_here(identity) as held:
            number = held.identity.pid  # which differs from the recorded one of a container
            stat = procfs.read_stat(number)
            live: Json = {
                "comm": stat.comm,
                "exe": procfs.executable(number),
                "cmdline": redact_argv(procfs.command_line(number)),
                "state": stat.state.value,
            }
            return {} if held.has_exited() else live
    except HoldfastError:  # it ended, or we may not look: what was recorded is all there is
        return {}


# Each of them is there wherever one is: what is not known is null.
_USAGE = (
    "peak_rss_bytes",
    "peak_swap_bytes",
    "cpu_seconds",
    "peak_cpu_percent",
    "peak_oom_score",
    "peak_fd_ratio",
    "read_bytes",
    "write_bytes",
    "peak_processes",
    "tokens_in",
    "tokens_out",
    "cost_usd",
)


def _usage(facts: RunFacts, measured: Json | None) -> Json | None:
    if not measured and not facts.usage:
        return None
    return {**dict.fromkeys(_USAGE), **(measured or {}), **facts.usage}


def _live(
    directory: RunDirectory, spec: RunSpec, facts: RunFacts, standing: Standing, closely: bool
) -> tuple[Json | None, Json | None]:
    """`now`, and the usage so far; None of a run with a recorded ending, or one in doubt."""
    if facts.has_ended or standing.state is State.UNKNOWN:
        return None, None
    from holdfast.run.live import read_live

    interval = spec.wanted.sample_interval_seconds
    live = read_live(directory.trace_path, facts, interval, with_usage=closely)
    return live.now, live.usage


def judge_cleanup(cleanup: Json | None) -> Json | None:
    """What was recorded of a clean-up, with those of its survivors who may be alive now."""
    if cleanup is None or not cleanup.get("survivors"):
        return cleanup  # of nearly all runs: nothing else is loaded
    from holdfast.manage.survivors import judge

    return judge(cleanup)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _last_output(directory: RunDirectory, spec: RunSpec, log: os.stat_result | None) -> str | None:
    """Both streams count."""
    errors = _stat(directory.stderr_path) if spec.wanted.split_stderr else None
    written = [one.st_mtime for one in (log, errors) if one is not None and one.st_size]
    return iso_time(max(written)) if written else None


def _unreadable(directory: RunDirectory, evidence: str) -> RunInfo:
    empty: Json = dict.fromkeys(RunInfo._fields)
    empty.update(schema=1, id=directory.id, state=State.UNKNOWN, evidence=evidence)
    empty.update(name=_claimed_name(directory), attempts=[], wrappers=[], tags={}, anomaly_count=0)
    return RunInfo(**empty)


def _claimed_name(directory: RunDirectory) -> str | None:
    """The name in a spec that is otherwise not understood, or that leads to a run without one."""
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
