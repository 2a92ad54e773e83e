"""What is known about a run from its events: plain records. How they come about: `lifecycle.py`."""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.record import Record
from holdfast.run.outcomes import Loss, Outcome, StopCause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.identity import ProcessIdentity

    Facts = dict[str, Any]


class Phase(StrEnum):
    """How far the recorded facts go."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class State(StrEnum):
    """What readers see: the phase, unless the lock and the processes show otherwise.

    What a state means is its row in `_MEANINGS`; code asks these properties and keeps no list of
    states of its own (tests/contracts/test_states.py).
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ORPHANED = "orphaned"
    ENDED = "ended"
    UNKNOWN = "unknown"

    @property
    def is_active(self) -> bool:
        """Not over, as far as is known."""
        return _MEANINGS[self].is_active

    @property
    def is_supervised(self) -> bool:
        """A shim has the run, or is being started for it."""
        return _MEANINGS[self].is_supervised

    @property
    def holds_name(self) -> bool:
        """Proven alive, or certain to be: no other run may take its name, nothing removes it."""
        return _MEANINGS[self].holds_name

    @property
    def is_under_way(self) -> bool:
        """Admitted and not over: its processes are measured. It has a marker in `active/`; so has a
        queued run, which is not under way.
        """
        return _MEANINGS[self].is_under_way

    @property
    def needs_recovery(self) -> bool:
        """Not supervised, and not known to be over: a person or `recover` is needed."""
        return _MEANINGS[self].needs_recovery


class _Meaning(Record):
    is_active: bool
    is_supervised: bool
    holds_name: bool
    is_under_way: bool
    needs_recovery: bool


# In the order in which a list counts them. A queued run has a shim, which waits: it has taken its
# name, but no process of its own.
_MEANINGS: dict[State, _Meaning] = {
    #                        active supervised holds_name under_way needs_recovery
    State.QUEUED:   _Meaning(True,  True,      True,      False,    False),
    State.STARTING: _Meaning(True,  True,      True,      True,     False),
    State.RUNNING:  _Meaning(True,  True,      True,      True,     False),
    State.STOPPING: _Meaning(True,  True,      True,      True,     False),
    State.ORPHANED: _Meaning(True,  False,     True,      True,     True),
    State.UNKNOWN:  _Meaning(True,  False,     False,     False,    True),
    State.ENDED:    _Meaning(False, False,     False,     False,    False),
}  # fmt: skip
STATES_IN_ORDER = tuple(_MEANINGS)


class ExitFacts(Record):
    """How a process ended: a code or a signal, or neither, where that was not seen."""

    exit_code: int | None
    signal: int | None
    core_dumped: bool | None
    how: str  # waitid, pidfd, stat, or unknown

    def to_json(self) -> Facts:
        """For an event."""
        return self.as_dict()

    def __str__(self) -> str:
        """As people say it."""
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        if self.signal is None:
            return "its end was not seen"
        from holdfast.process.signals import signal_name

        return signal_name(self.signal) + (" (core dumped)" if self.core_dumped else "")


NOT_SEEN = ExitFacts(None, None, None, "unknown")


class AttemptEnd(Record):
    """How the root and the workload of an attempt ended. None: alive, or not known yet."""

    root_exit: ExitFacts | None = None
    workload_exit: ExitFacts | None = None  # of a workload that is not the root
    failure_code: int | None = None  # of a command that was not started
    workload_outlives_root: bool = False  # the attempt lasts as long as the workload
    workload_outlived_root: bool = False  # it did: the workload's exit is the attempt's
    evidence: str = ""

    @property
    def own_exit(self) -> ExitFacts | None:
        """How the attempt ended: as its root did, or as the workload that outlived the root."""
        return self.workload_exit if self.workload_outlived_root else self.root_exit

    @property
    def subject(self) -> str:
        """The process whose exit that is."""
        return "workload" if self.workload_outlived_root else "root"


class ProcessFacts(Record):
    """A process that an event names, and what was seen of it then. None: not recorded."""

    identity: ProcessIdentity
    comm: str | None = None
    exe: str | None = None
    cmdline: tuple[str, ...] | None = None
    state: str | None = None

    def to_json(self) -> Facts:
        """The contract's PROCESS, without a verdict."""
        cmdline = None if self.cmdline is None else list(self.cmdline)
        seen = {"comm": self.comm, "exe": self.exe, "cmdline": cmdline, "state": self.state}
        return {**self.identity.to_json(), **seen}


class AttemptFacts(Record):
    """One start of the run's command. A new attempt begins with the defaults."""

    number: int = 0  # 0: none was started
    command: tuple[str, ...] | None = None  # without secrets; None: the run's own
    started_at: str = ""
    first_root: ProcessIdentity | None = None  # the child that was made for the command
    root: ProcessIdentity | None = None  # that child, or the heir that it left its place to
    heir_in_doubt: bool = False  # which of several has the root's place: their exits decide
    root_exit: ExitFacts | None = None  # None while it may be alive
    exec_failure: Facts | None = None  # the exec_failed event
    is_exec_confirmed: bool = False
    log_start_byte: int = 0  # where its output begins; the former's, until that is known
    usage_before: Facts = {}  # what the run's agent had used when it was started
    workload: ProcessFacts | None = None
    workload_exit: ExitFacts | None = None
    workload_outlives_root: bool = False  # the run lasts as long as the workload
    workload_outlived_root: bool = False  # it did: the root's exit found it alive
    wrappers: tuple[ProcessFacts, ...] = ()
    resolution: str | None = None
    resolution_why: str | None = None
    completion: Facts | None = None
    result: Facts | None = None
    limit: Facts | None = None
    attention: tuple[Facts, ...] = ()  # what its agent waits for from a person, the oldest first
    restart: Facts | None = None  # the restart_scheduled event: another attempt is to follow
    over_at: str | None = None  # when what the attempt lasts for was seen to end
    over_boottime: float | None = None
    ended_at: str | None = None
    outcome: Outcome | None = None

    @property
    def workload_identity(self) -> ProcessIdentity | None:
        """What names the workload, where that is known."""
        return None if self.workload is None else self.workload.identity

    @property
    def workload_is_root(self) -> bool:
        """Whether the workload is the root itself."""
        return self.workload is not None and self.workload.identity == self.root

    @property
    def exit_code(self) -> int | None:
        """Its root's, or that of a command that could not be executed."""
        if self.exec_failure is not None:
            return whole(self.exec_failure.get("exit_code"))
        return None if self.root_exit is None else self.root_exit.exit_code

    @property
    def signal(self) -> int | None:
        """What ended its root."""
        return None if self.root_exit is None else self.root_exit.signal

    @property
    def exit(self) -> ExitFacts:
        """How it ended, for a run that ends as this attempt did."""
        return ExitFacts(self.exit_code, self.signal, None, f"attempt {self.number}")

    def to_json(self) -> Facts:
        """As in the contract's `attempts`."""
        return {
            "attempt": self.number,
            "root": None if self.first_root is None else self.first_root.to_json(),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "outcome": self.outcome,
            "command": None if self.command is None else list(self.command),
            "limit": self.limit,
        }


class RunFacts(Record):
    """All that the events say. None: not known."""

    phase: Phase = Phase.STARTING
    outcome: Outcome | None = None
    attempt: AttemptFacts = AttemptFacts()  # the latest
    earlier_attempts: tuple[AttemptFacts, ...] = ()
    shim: ProcessIdentity | None = None
    adopted: bool = False  # the present shim is not the one that started the workload
    previous_shims: tuple[ProcessIdentity, ...] = ()
    workloads: tuple[str, ...] = ()  # tokens of all that the run resolved to, in all attempts
    members: dict[str, str | None] = {}  # token -> comm, of every process ever seen in the tree
    session: Facts | None = None
    usage: Facts = {}  # tokens_in, tokens_out, cost_usd, tokens_source; of all attempts
    queued: Facts | None = None  # the latest queued event: it waits, or has waited
    is_admitted: bool = False  # since that
    requeued: Facts | None = None  # the latest requeued event: its place in the line
    paused: Facts | None = None  # since when, and the processes that we stopped
    adjusted: Facts = {}  # by field of `wanted`: what it was changed to
    budget_reached: Facts | None = None  # the latest: which limit, what was used, what was done
    stop_cause: StopCause | None = None  # the first since the latest restart, leftovers aside
    stop: Facts | None = None  # that stop_begun event
    cleanup: Facts | None = None
    ending: Facts | None = None  # the ended event
    output_first_byte: int = 0
    output_truncations: tuple[Facts, ...] = ()
    degraded: tuple[str, ...] = ()  # the senses that are missing
    degraded_why: str | None = None
    lines_given_up: tuple[Facts, ...] = ()  # that took too long to match
    anomaly_count: int = 0
    identity_drifted: bool = False  # figures of another process than the workload were met
    faults: tuple[Facts, ...] = ()
    last_seq: int = 0
    last_at: str | None = None
    began_boottime: float | None = None  # of the first attempt: the deadline counts from it
    started_at: str | None = None
    started_boottime: float | None = None
    ended_at: str | None = None
    ended_boottime: float | None = None  # None: its end was not seen

    @property
    def attempts(self) -> tuple[AttemptFacts, ...]:
        """All that were started, oldest first."""
        return (*self.earlier_attempts, self.attempt) if self.attempt.number else ()

    @property
    def has_ended(self) -> bool:
        """Whether an ending is recorded."""
        return self.phase is Phase.ENDED

    @property
    def waits_to_begin(self) -> bool:
        """Whether it was set waiting, and no command was started: an adopter goes on waiting."""
        return self.queued is not None and not self.attempt.number and not self.has_ended

    @property
    def limit_wait(self) -> Facts | None:
        """What its next attempt waits for: its agent's quota; None: for nothing of the kind."""
        wait = (self.attempt.restart or {}).get("limit")
        is_over = self.has_ended or self.stop_cause is not None
        return wait if isinstance(wait, dict) and not is_over else None

    @property
    def quota_waits(self) -> tuple[Facts, ...]:
        """What was waited for after each attempt that ended with a used-up quota."""
        waits = ((one.restart or {}).get("limit") for one in self.attempts)
        return tuple(wait for wait in waits if isinstance(wait, dict))

    @property
    def gave_up_at_budget(self) -> bool:
        """Whether the agent of the latest attempt says that it ended itself at its own limit."""
        reached = self.budget_reached or {}
        return reached.get("by") == "agent" and reached.get("attempt") == self.attempt.number

    def named_tree(self) -> dict[str, str | None]:
        """Every process that the events name as the run's own, in any attempt: token -> comm."""
        named: dict[str, str | None] = dict.fromkeys(self.workloads)
        for attempt in self.attempts:
            roots = (attempt.first_root, attempt.root)
            named.update((root.token, None) for root in roots if root is not None)
            workloads = () if attempt.workload is None else (attempt.workload,)
            seen = (*attempt.wrappers, *workloads)
            named.update((process.identity.token, process.comm) for process in seen)
        survivors = (self.cleanup or {}).get("survivors") or ()
        named.update((one["token"], one.get("comm")) for one in survivors if "token" in one)
        return {**named, **self.members}

    def named_processes(self) -> list[ProcessIdentity]:
        """The processes of `named_tree`."""
        from holdfast.process.identity import ProcessIdentity

        return [ProcessIdentity.parse(token) for token in self.named_tree()]

    def named_tokens(self) -> set[str]:
        """The tokens of `named_tree`, and the run's shims: not in its tree, nor any other run's."""
        shims = (*self.previous_shims, self.shim)
        return {shim.token for shim in shims if shim is not None} | {*self.named_tree()}

    # Facts of the ending. Earlier versions recorded them only in the words of its evidence, which
    # nobody but a person reads: of such a run they are what its identities and events show.

    @property
    def loss(self) -> Loss | None:
        """Why its ending is not known; None: it is not lost."""
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
        # The adopter could not see its processes: the user asserted that they are gone.
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

    @property
    def stop_figure(self) -> float | None:
        """What the limit that stopped it was about had come to: seconds, bytes; None: no limit."""
        figure = (self.stop or {}).get("figure")
        return figure if isinstance(figure, (int, float)) else None

    def _has_same(self, part: str) -> bool:
        """Whether the root and the shim that recorded the ending have a part of them in common."""
        return getattr(self.attempt.root, part, None) == getattr(self.shim, part, None)


def whole(value: object) -> int | None:
    """A whole number from a record; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
