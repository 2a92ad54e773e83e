"""What every watcher has: an option that may stop a run, the shim, its clock."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from holdfast.run.outcomes import StopCause
    from holdfast.shim.observer import Observer
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.watching.output_watch import OutputWatch


class Watcher:
    """Acts on one option that may stop a run; made with its value, if it was given.

    A new one: a subclass and its name in `WATCHERS` (`watchers.py`), the option (`options.py`,
    `watched=True`), and its cause with the outcome that follows (`run/outcomes.py`).
    """

    field: ClassVar[str]  # of `wanted`
    cause: ClassVar[StopCause]
    reads_output: ClassVar[bool] = False
    timer: ClassVar[str] = ""  # the name of its timer

    def __init__(
        self, supervisor: Supervisor, output: OutputWatch | None, observer: Observer, asked: Any
    ) -> None:
        # Before it is said: a stop may have no descriptor left to load words with. A shim without a
        # watcher does without them.
        from holdfast.run import units

        self._units = units
        self._supervisor = supervisor
        self._output = output  # None: nothing reads the output of this run
        self._observer = observer
        self._asked = asked
        self._prepare()

    def _prepare(self) -> None:
        """Once for the run."""

    def begin(self) -> None:
        """An attempt runs, or was adopted: watch from now on."""

    def end(self) -> None:
        """Another value was given: stop watching."""
        self._supervisor.loop.cancel(self.timer)

    def rest(self) -> None:
        """The attempt is over, and another one is to follow."""
        self._supervisor.loop.cancel(self.timer)

    def _stop(self, detail: str, **how: Any) -> None:
        self._supervisor.begin_stop(self.cause, detail, **how)
