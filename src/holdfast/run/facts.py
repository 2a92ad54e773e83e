"""What is known about a run from its events: plain records. How they come about: `lifecycle.py`."""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record
from holdfast.run.outcomes import Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Facts = dict[str, Any]


class Phase(StrEnum):
    """How far the recorded facts go."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class State(StrEnum):
    """What a reader is told: the phase, unless looking at lock and processes says otherwise."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ORPHANED = "orphaned"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Attempt(Record):
    """One start of the run's command."""

    attempt: int
    root: Facts  # IDENTITY
    started_at: str
    ended_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    outcome: Outcome | None = None


class RunFacts(Record):
    """All that the events say. Identities and processes are the recorded JSON; None: not known."""

    phase: Phase = Phase.STARTING
    outcome: Outcome | None = None
    attempt: int = 0  # 0: none was started
    attempts: tuple[Attempt, ...] = ()
    shim: Facts | None = None
    adopted: bool = False  # the present shim is not the one that started the workload
    previous_shims: tuple[Facts, ...] = ()
    root: Facts | None = None  # of the latest attempt
    heir_in_doubt: bool = False  # which of several has the root's place: their exits decide
    root_exit: Facts | None = None  # the root_exited event; None while it may be alive
    exec_failure: Facts | None = None  # of the latest attempt
    is_exec_confirmed: bool = False  # of the latest attempt
    log_start_byte: int = 0  # where the latest attempt's output begins
    workload: Facts | None = None  # PROCESS
    workload_exit: Facts | None = None
    workload_outlives_root: bool = False  # the run lasts as long as the workload
    workload_outlived_root: bool = False  # it did: the root's exit found it alive
    workloads: tuple[str, ...] = ()  # tokens of all that the run resolved to, in all attempts
    wrappers: tuple[Facts, ...] = ()
    resolution: str | None = None
    resolution_why: str | None = None
    members: dict[str, str | None] = {}  # token -> comm, of every process ever seen in the tree
    session: Facts | None = None
    completion: Facts | None = None
    result: Facts | None = None
    usage: Facts = {}  # tokens_in, tokens_out, cost_usd; of all attempts
    limit: Facts | None = None
    stop_cause: StopCause | None = None  # the first of the latest attempt, leftovers aside
    stop: Facts | None = None  # that stop_begun event
    restart: Facts | None = None  # the latest restart_scheduled, until its attempt starts
    cleanup: Facts | None = None
    ending: Facts | None = None  # the ended event
    execs: tuple[Facts, ...] = ()
    output_first_byte: int = 0
    output_truncations: tuple[Facts, ...] = ()
    degraded: tuple[str, ...] = ()  # the senses that are missing
    degraded_why: str | None = None
    lines_given_up: tuple[Facts, ...] = ()  # that took too long to match
    anomaly_count: int = 0
    identity_drifted: bool = False  # figures of another process than the workload were met
    faults: tuple[Facts, ...] = ()
    ignored: int = 0
    last_seq: int = 0
    last_at: str | None = None
    last_boottime: float | None = None
    began_boottime: float | None = None  # of the first attempt: the deadline counts from it
    started_at: str | None = None
    started_boottime: float | None = None
    over_at: str | None = None  # when what the run lasts for was seen to end
    over_boottime: float | None = None
    ended_at: str | None = None
    ended_boottime: float | None = None  # None: nobody saw when it ended

    @property
    def has_ended(self) -> bool:
        """Whether an ending is recorded."""
        return self.phase is Phase.ENDED

    # Facts of the ending. Earlier versions recorded them only in the words of its evidence, which
    # nobody but a person reads: of such a run they are what its identities and events show.

    @property
    def loss(self) -> Loss | None:
        """Why nobody can tell how it ended; None: it is not lost."""
        if self.outcome is not Outcome.LOST:
            return None
        ending = self.ending or {}
        if "loss" in ending:
            return Loss(ending["loss"]) if ending["loss"] in tuple(Loss) else None
        return Loss.UNSEEN if self._has_same("boot_id") else Loss.REBOOT

    @property
    def vouched(self) -> bool:
        """Whether it rests on the user's word that nothing of it is alive."""
        ending = self.ending or {}
        if "vouched" in ending:
            return ending["vouched"] is True
        # Whoever took it over could not see its processes, which took the user's word.
        is_unseen = self.outcome is Outcome.LOST and self.adopted
        return is_unseen and self._has_same("boot_id") and not self._has_same("pid_ns")

    @property
    def stop_reason(self) -> StopCause | None:
        """Why Holdfast stopped it, or began to; None: it did not."""
        ending = self.ending or {}
        if "stop_reason" in ending:
            reason = ending["stop_reason"]
            return StopCause(reason) if reason in tuple(StopCause) else None
        return self.stop_cause

    def _has_same(self, part: str) -> bool:
        """Whether the root and the shim that recorded the ending have a part of them in common."""
        return (self.root or {}).get(part) == (self.shim or {}).get(part)
