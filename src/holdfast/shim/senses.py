"""What the shim can't observe right now; each change is recorded.

A failure to observe is not an observation: code that loses a sense reports it here, looks again by
other means, and concludes nothing from what it did not see.
"""

from __future__ import annotations

from holdfast.run.events import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.shim.journal import Journal

_MOST_CHANGES = 50  # a sense that comes and goes must not fill the disk


class Senses:
    """The senses that are missing; each change is an event."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._missing = set(journal.facts.degraded)  # of an earlier shim, until tried
        self._changes = 0

    def lose(self, sense: str, why: object) -> None:
        """It is missing from now on; recorded once."""
        if sense not in self._missing:
            self._missing.add(sense)
            self._record(f"{sense}: {why}")

    def regain(self, sense: str) -> None:
        """It works."""
        if sense in self._missing:
            self._missing.discard(sense)
            self._record(f"{sense} works again")

    def _record(self, why: str) -> None:
        self._changes += 1
        if self._changes <= _MOST_CHANGES and not self._journal.facts.has_ended:
            missing = sorted(self._missing)
            self._journal.record(Kind.WATCHING, degraded=missing, why=why[:500])
