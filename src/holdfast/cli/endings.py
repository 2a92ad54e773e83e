"""How a run ended, in a few words, and the exit code that `wait` and `run -F` give for it."""

from __future__ import annotations

from holdfast.manage.plaintext import printable
from holdfast.manage.units import duration
from holdfast.process.signals import signal_name
from holdfast.run.outcomes import Outcome, run_exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo

_NEEDS_A_REASON = (
    Outcome.TIMED_OUT,
    Outcome.STALLED,
    Outcome.OUT_OF_MEMORY,
    Outcome.NEVER_STARTED,
    Outcome.LOST,
)


def exit_code_of(info: RunInfo) -> int:
    """The run's code; for a run that has ended."""
    assert info.outcome is not None
    return run_exit_code(info.outcome, info.exit_code, info.signal, info.stop_reason)


def describe(info: RunInfo) -> str:
    """`failed, exit 3`, `killed by SIGSEGV, core dumped`, `timed out after 10m`."""
    if info.outcome is None:
        return info.state.value
    words = info.outcome.value.replace("_", " ")
    if info.signal is not None:
        words += f" by {signal_name(info.signal)}" + (", core dumped" if info.core_dumped else "")
    elif info.exit_code is not None and (info.exit_code or info.outcome is not Outcome.SUCCEEDED):
        words += f", exit {info.exit_code}"
    if info.duration_seconds is not None:
        words += f" after {duration(info.duration_seconds)}"
    return words


def reason(info: RunInfo, code: int) -> str | None:
    """What stderr should say beside the code; None where the code speaks for itself."""
    if info.outcome in _NEEDS_A_REASON or code == 125:
        return printable(f"{info.name}: {describe(info)}: {info.evidence}")
    if info.outcome in (Outcome.KILLED, Outcome.STOPPED):
        return printable(f"{info.name}: {describe(info)}")
    return None
