"""The report of one `stop`: what was signalled, what survives, in one line and as JSON."""

from __future__ import annotations

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.manage.changing.run_attempt import RunAttempt
from holdfast.manage.info import describe_run
from holdfast.manage.plaintext import printable
from holdfast.manage.stopping import is_removed, stop_run
from holdfast.manage.survivors import advise, describe, may_live
from holdfast.process.clock import boottime
from holdfast.process.verdict import Verdict
from holdfast.run.outcomes import Outcome
from holdfast.run.units import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.run import Run
    from holdfast.manage.stopping import Stopped
    from holdfast.process.tree_stop import Survivor

_NOT_FATAL = ("SIGSTOP", "SIGCONT")
_MOST_PIDS_NAMED = 3


class Attempted(RunAttempt):
    """One run to stop, and the result."""

    def __init__(self, name: str, run: Run | None = None, error: HoldfastError | None = None):
        super().__init__(name, run, error)
        self.info: RunInfo | None = None
        self.was_over = False
        self.was_removed = False
        self.had_ended = False
        self.seconds: float | None = None
        self.survivors: list[Survivor] = []
        self.signals: list[dict[str, Any]] = []
        self._unrecorded = 0  # signals that were sent and are in no row: the disk took none

    def take(self, stopped: Stopped, began: float) -> None:
        """Note the result, and what the run's history of signals has about it."""
        assert self.run is not None
        self.seconds = boottime() - began
        self.was_over = stopped.was_over
        self.had_ended = stopped.had_ended
        self.info = describe_run(stopped.view)
        self.name = self.info.name or self.name
        survivors = () if stopped.cleanup is None else stopped.cleanup.survivors
        # Recorded as surviving; by now it may have ended.
        self.survivors = [one for one in survivors if may_live(one)]
        if not stopped.was_over:
            rows = self.run.directory.read_signals()
            self.signals = [row for row in rows if float(row.get("boottime") or 0) >= began]
            if not rows and stopped.cleanup is not None:
                self._unrecorded = stopped.cleanup.signalled

    @property
    def exit_code(self) -> int:
        """0: nothing of it is alive."""
        if self.error is not None:
            return self.error.exit_code
        return 1 if self.survivors else 0

    def sentence(self) -> str:
        """`stopped in 3.1s: SIGTERM 913, then SIGKILL to 4; tree empty`"""
        if self.error is not None:
            return printable(f"NOT stopped: {self.error.message}")
        if self.was_removed:
            return "removed meanwhile: nothing of it was alive"
        assert self.info is not None
        if self.survivors:
            return printable("NOT stopped: " + "; ".join(map(describe, self.survivors)))
        if self.was_over:
            return (
                f"already ended ({self.info.outcome}); {self._recycled()}no process was signalled"
            )
        how = "stopped" if self.info.outcome is Outcome.STOPPED else f"ended ({self.info.outcome})"
        if self.had_ended:
            how = f"had ended ({self.info.outcome}); what it left was stopped"
        parts = [f"{how} in {duration(self.seconds)}: {self._signalled()}", self._empty()]
        return printable("; ".join(part for part in parts if part))

    def hint(self) -> str | None:
        """What to do about it."""
        if self.error is not None:
            return self.error.hint
        if not self.survivors:
            return None
        return advise(self.survivors, f"stop {self.name}")

    def to_json(self) -> dict[str, Any]:
        """The RUN document, with what this stop did."""
        document: dict[str, Any] = {"name": self.name}
        if self.info is not None:
            document = self.info.to_json()
        error = None if self.error is None else self.error.to_json()["error"]
        seconds = None if self.seconds is None else round(self.seconds, 3)
        stop = {
            "was_over": self.was_over,
            "was_removed": self.was_removed,
            "seconds": seconds,
            "signals": self.signals,
            "survivors": [one.to_json() for one in self.survivors],
            "error": error,
        }
        return {**document, "stop": stop}

    def _recycled(self) -> str:
        workload = self.info.workload if self.info else None
        if workload is None or workload.verdict is not Verdict.RECYCLED:
            return ""
        return f"{workload.pid} is RECYCLED, "

    def _signalled(self) -> str:
        """Which signal reached which processes, in the order of the first of each kind."""
        by_signal: dict[str, list[str]] = {}
        for row in self.signals:
            name = row.get("signal")
            if row.get("fate") == "delivered" and name not in _NOT_FATAL:
                by_signal.setdefault(str(name), []).append(str(row.get("to")).split(".")[1])
        parts = [f"{name} {_pids(pids)}" for name, pids in by_signal.items()]
        refused = len([row for row in self.signals if row.get("fate") in ("refused", "denied")])
        if refused:
            parts.append(f"{refused} not signalled: not ours, or not proven")
        if self._unrecorded:
            parts.append(f"{self._unrecorded} signalled, which signals.jsonl does not have")
        return ", then ".join(parts) or "no process had to be signalled"

    def _empty(self) -> str:
        cleanup = (self.info.cleanup if self.info else None) or {}
        if cleanup.get("complete"):
            return "tree empty"
        return "" if not cleanup else "tree empty as far as can be seen"


def attempt(one: Attempted, grace: float | None, signal: str | None) -> Steps[None]:
    """Stop one run; an error is the caller's to note."""
    if one.run is None:
        return
    began = boottime()
    try:
        stopped = yield from stop_run(one.run.directory, grace_seconds=grace, signal=signal)
        one.take(stopped, began)
    except RunNotFound:
        if not (yield from is_removed(one.run.directory)):
            raise
        one.was_removed = True


def _pids(pids: list[str]) -> str:
    unique = list(dict.fromkeys(pids))
    return ", ".join(unique) if len(unique) <= _MOST_PIDS_NAMED else f"to {len(unique)}"
