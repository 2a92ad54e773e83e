"""Has a run without a shim adopted, for an operation that waits: again while adopters fail, with
longer and longer pauses; in the end it gives up, with the reason.

An installation without its adopter, a disk without room, a limit on processes: no number of
adopters helps against these.
"""

from __future__ import annotations

from holdfast.errors import LockBusy, Unavailable
from holdfast.manage.starting.launch import start_shim
from holdfast.manage.state import read_facts
from holdfast.process import this_host
from holdfast.process.clock import boottime
from holdfast.run.claims import claim_name
from holdfast.run.conclusion import is_restart_due
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.operations import Steps
    from holdfast.manage.state import RunView
    from holdfast.run.directory import RunDirectory

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # pauses after each adopter that failed
_LASTING_SECONDS = 5.0  # once a run was supervised for this long, failures are counted anew
_STARTING_SECONDS = 0.25  # between looks whether its launcher is still starting it


def is_being_launched(view: RunView) -> bool:
    """Whether a launcher may be starting it: no restart is due, which only an adopter does."""
    if view.standing.state is not State.STARTING:
        return False
    return not is_restart_due(view.facts, this_host.place().boot_id)


class Adopting:
    """The adopters of one run that one wait has started."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._tried = 0
        self._last_at = float("-inf")
        self._due_at = float("-inf")
        self._reason: str | None = None

    def adopt(self) -> Steps[None]:
        """Start an adopter, if one is due. Unavailable once all tries have failed."""
        now = boottime()
        if now < self._due_at:
            return
        if now - self._last_at > _LASTING_SECONDS:
            self._tried = 0
        if self._tried > len(_PAUSES):
            raise self._given_up()
        reason = yield from start_shim("adopt", self._directory.path)
        self._reason = reason or self._reason
        self._last_at = boottime()
        if not self._directory.lock_is_held():
            self._due_at = self._last_at + _PAUSES[min(self._tried, len(_PAUSES) - 1)]
        self._tried += 1

    def adopt_unless_starting(self, name: str) -> Steps[bool]:
        """Like `adopt`, unless a launcher holds the run's name: then it is starting the run.

        False: nothing was tried; the launcher is starting the run, or no adopter is due.
        """
        if boottime() < self._due_at:
            return False
        try:
            claim = claim_name(self._directory.home, name, 0)
        except LockBusy:
            self._due_at = boottime() + _STARTING_SECONDS
            return False
        with claim:
            if not self._directory.lock_is_held() and not read_facts(self._directory).has_ended:
                yield from self.adopt()
        return True

    def _given_up(self) -> Unavailable:
        from holdfast.run.last_words.crash_note import read_reason

        run_id = self._directory.id
        reason = self._reason or read_reason(self._directory.path) or "the reason is not known"
        return Unavailable(
            f"run {run_id} has no supervisor, and {self._tried} new ones failed: {reason}",
            hint=f"holdfast status {run_id}; once that is repaired, holdfast recover",
            run=run_id,
        )
