"""How a run ended, in a few words, and the exit code that `wait` and `run -F` give for it."""

from __future__ import annotations

from holdfast.cli import OWN_FAILURE
from holdfast.errors import NotFound, Refused
from holdfast.manage.plaintext import printable
from holdfast.manage.words.reasons import why
from holdfast.process.signals import signal_name
from holdfast.run.outcomes import Outcome, run_exit_code
from holdfast.run.units import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo

_NEEDS_A_REASON = (
    Outcome.TIMED_OUT,
    Outcome.STALLED,
    Outcome.OUT_OF_MEMORY,
    Outcome.OVER_BUDGET,
    Outcome.NEVER_STARTED,
    Outcome.LOST,
)


_BY_A_SIGNAL = (Outcome.KILLED, Outcome.OUT_OF_MEMORY)


def exit_code_of(info: RunInfo) -> int:
    """The run's code; for a run that has ended."""
    assert info.outcome is not None
    return run_exit_code(info.outcome, info.exit_code, info.signal, info.stop_reason)


def describe(info: RunInfo) -> str:
    """`failed, exit 3`, `killed by SIGSEGV, core dumped`, `timed out (SIGTERM) after 10m`."""
    if info.outcome is None:
        return info.state.value
    words = info.outcome.value.replace("_", " ")
    if info.signal is not None:
        words += _with_signal(info.outcome, signal_name(info.signal))
        words += ", core dumped" if info.core_dumped else ""
    elif info.exit_code is not None and (info.exit_code or info.outcome is not Outcome.SUCCEEDED):
        words += f", exit {info.exit_code}"
    if info.duration_seconds is not None:
        words += f" after {duration(info.duration_seconds)}"
    return words


def _with_signal(outcome: Outcome, name: str) -> str:
    """A stop is by request or limit: its signal is only how."""
    if outcome is Outcome.COMPLETED:
        return ", then stopped"
    return f" by {name}" if outcome in _BY_A_SIGNAL else f" ({name})"


def reason(info: RunInfo, code: int) -> str | None:
    """What stderr should say beside the code; None where the code speaks for itself."""
    if info.outcome in _NEEDS_A_REASON or code == 125:
        return printable(f"{info.name}: {describe(info)}: {why(info) or info.evidence}")
    if info.outcome in (Outcome.KILLED, Outcome.STOPPED):
        return printable(f"{info.name}: {describe(info)}")
    return None


def cause(info: RunInfo, code: int) -> str | None:
    """Why it ended so, where `describe` does not say that."""
    if info.outcome in _NEEDS_A_REASON or code == 125:
        return printable(f"{info.name}: {why(info) or info.evidence}")
    return None


class UnseenEnd:
    """While a run is waited for: that it is removed, or not believed any more, must not look like
    its own exit code 3 or 4."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, NotFound | Refused):
            error.exit_code = OWN_FAILURE
