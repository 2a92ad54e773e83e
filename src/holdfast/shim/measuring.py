"""Samples of a run: written to its trace, watched for anomalies, added up to its usage."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.members import Member
    from holdfast.process.resolution import Resolution
    from holdfast.process.sampling import Sampler
    from holdfast.shim.supervisor import Supervisor


class Measuring:
    """The figures of one run, as this shim saw them."""

    def __init__(self, supervisor: Supervisor, sampler: Sampler) -> None:
        self._supervisor = supervisor
        self._sampler = sampler

    def sample(self, members: list[Member], resolution: Resolution) -> None:
        """Measure now."""
        self._sampler.sample(members, resolution)

    def last_sample(self, members: list[Member], resolution: Resolution) -> None:
        """Measure what has ended and was not reaped yet."""
        self.sample(members, resolution)

    def usage(self, _resolution: Resolution | None) -> dict[str, Any] | None:
        """The contract's `usage`; None: nothing was measured."""
        return None
