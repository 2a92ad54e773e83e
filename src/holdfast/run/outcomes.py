"""How a run ended, and whose exit code it has: pure rules, no OS, clock or I/O.

The first cause of a stop decides; without one the ending is the workload's own. What was not
seen stays None: a missing exit status is never replaced by a 0 or a "killed".
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.lean import signal as signals
from holdfast.record import Record


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    COMPLETED = "completed"  # completion proven, then stopped
    STOPPED = "stopped"  # asked
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    OUT_OF_MEMORY = "out_of_memory"  # our limit or the kernel
    KILLED = "killed"  # by a signal that Holdfast did not send
    NEVER_STARTED = "never_started"
    LOST = "lost"
    OVER_BUDGET = "over_budget"  # more tokens, or a higher cost, than it was given

    @property
    def is_success(self) -> bool:
        """It did what it was started for."""
        return self in (Outcome.SUCCEEDED, Outcome.COMPLETED)

    @property
    def is_failure(self) -> bool:
        """It did not, and nobody asked it to end."""
        return not self.is_success and self is not Outcome.STOPPED


class EndedBy(StrEnum):
    """What ended a run."""

    ITSELF = "itself"
    HOLDFAST = "holdfast"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"


class Loss(StrEnum):
    """Why it is not known how a lost run ended."""

    REBOOT = "reboot"  # the machine was restarted: every process of that boot is gone
    RECYCLED = "recycled"  # its PID belongs to another process now
    UNSEEN = "unseen"  # gone while nothing supervised it


class StopCause(StrEnum):
    """Why Holdfast began to stop a tree."""

    USER = "user"
    TIMEOUT = "timeout"
    IDLE = "idle"  # neither output nor work
    SILENCE = "silence"  # no output
    MEMORY = "memory"
    TOKENS = "tokens"
    COST = "cost"
    COMPLETION = "completion"
    REQUIRE_WORKLOAD = "require_workload"
    SHIM_SIGNALLED = "shim_signalled"
    OUTER = "outer"  # the run that it was started in is being stopped
    REPLACED = "replaced"
    LEFTOVERS = "leftovers"  # the workload had ended: only what it left behind is stopped

    @property
    def yields_to_completion(self) -> bool:
        """A limit that only hurries the end when it is passed after completion was proven."""
        time = (StopCause.TIMEOUT, StopCause.IDLE, StopCause.SILENCE)
        return self in (*time, StopCause.TOKENS, StopCause.COST)


class Ending(Record):
    """The part of an `ended` event that follows from rules."""

    outcome: Outcome
    exit_code: int | None
    signal: int | None
    ended_by: EndedBy


_BY_CAUSE = {
    StopCause.USER: Outcome.STOPPED,
    StopCause.SHIM_SIGNALLED: Outcome.STOPPED,
    StopCause.OUTER: Outcome.STOPPED,
    StopCause.REPLACED: Outcome.STOPPED,
    StopCause.TIMEOUT: Outcome.TIMED_OUT,
    StopCause.IDLE: Outcome.STALLED,
    StopCause.SILENCE: Outcome.STALLED,
    StopCause.MEMORY: Outcome.OUT_OF_MEMORY,
    StopCause.TOKENS: Outcome.OVER_BUDGET,
    StopCause.COST: Outcome.OVER_BUDGET,
    StopCause.COMPLETION: Outcome.COMPLETED,
    StopCause.REQUIRE_WORKLOAD: Outcome.FAILED,
}

# The kernel sends these for what the process did or asked for: a fault, a pipe that nobody reads, a
# timer of its own, a limit. Another process hardly ever does.
_FAULTS = ("SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS")
_OWN_DOING = ("SIGPIPE", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGXFSZ")
_ITS_OWN = frozenset(getattr(signals, name) for name in _FAULTS + _OWN_DOING)


def decide_outcome(
    *,
    stop_cause: StopCause | None = None,
    exit_code: int | None = None,
    signal: int | None = None,
    exec_failed: bool = False,
    is_error: bool = False,
    oom_killed: bool = False,
    signalled_by_us: bool = False,
    over_budget: bool = False,
) -> Ending:
    """The ending of a run whose root, and workload, are proven gone.

    `stop_cause` is the first that fired; `exit_code` and `signal` are both None when the
    status could not be read; `is_error` is the agent's own proof that it failed;
    `signalled_by_us`: somebody sent that signal through Holdfast without stopping the run;
    `over_budget`: the agent says that it gave up at its own limit.
    """
    outcome = _BY_CAUSE.get(stop_cause) if stop_cause is not None else None
    if exec_failed and outcome is None:
        return Ending(Outcome.NEVER_STARTED, exit_code, None, EndedBy.ITSELF)
    if outcome is None:
        own = _own_ending(exit_code, signal, is_error, oom_killed, signalled_by_us)
        gave_up = over_budget and own.outcome is Outcome.FAILED
        return own.replace(outcome=Outcome.OVER_BUDGET) if gave_up else own
    if outcome is Outcome.COMPLETED and is_error:
        outcome = Outcome.OVER_BUDGET if over_budget else Outcome.FAILED
    return Ending(outcome, exit_code, signal, EndedBy.HOLDFAST)


def _own_ending(
    exit_code: int | None,
    signal: int | None,
    is_error: bool,
    oom_killed: bool,
    signalled_by_us: bool,
) -> Ending:
    if exit_code is None and signal is None:
        return Ending(Outcome.LOST, None, None, EndedBy.UNKNOWN)
    if oom_killed and exit_code != 0:
        return Ending(Outcome.OUT_OF_MEMORY, exit_code, signal, EndedBy.OUTSIDE)
    if signal is not None and signalled_by_us:
        return Ending(Outcome.STOPPED, exit_code, signal, EndedBy.HOLDFAST)
    if signal is not None:
        by = EndedBy.ITSELF if signal in _ITS_OWN else EndedBy.OUTSIDE
        return Ending(Outcome.KILLED, exit_code, signal, by)
    outcome = Outcome.FAILED if exit_code != 0 or is_error else Outcome.SUCCEEDED
    return Ending(outcome, exit_code, None, EndedBy.ITSELF)


_LIMIT_EXIT_CODE = 124
_OWN_EXIT_CODE = 125  # Holdfast's own failures, and what it could not see


def run_exit_code(
    outcome: Outcome,
    exit_code: int | None,
    signal: int | None,
    stop_cause: StopCause | None = None,
) -> int:
    """The code of `run -F` and `wait` for an ended run."""
    if outcome.is_success:
        return 0
    if outcome in (Outcome.TIMED_OUT, Outcome.STALLED, Outcome.OVER_BUDGET):
        return _LIMIT_EXIT_CODE
    if outcome is Outcome.NEVER_STARTED:
        return exit_code if exit_code in (126, 127) else _OWN_EXIT_CODE
    if outcome is Outcome.LOST or stop_cause is StopCause.REQUIRE_WORKLOAD:
        return _OWN_EXIT_CODE
    if outcome is Outcome.FAILED:
        # Without a code of its own: the agent proved a failure and exited 0, or was then stopped.
        return exit_code or 1
    own = 128 + signal if signal is not None else exit_code
    if own is None or (own == 0 and outcome is not Outcome.STOPPED):
        return _OWN_EXIT_CODE
    return own
