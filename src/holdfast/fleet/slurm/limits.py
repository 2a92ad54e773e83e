"""What a run's grace and Slurm's limits have to do with each other. Pure."""

from __future__ import annotations

from holdfast.options import Wanted
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOM_SECONDS = 5.0  # between a run's grace and Slurm's SIGKILL
LIMIT_ROOM_SECONDS = 10.0  # between a run's own deadline with its grace, and the job's limit
WARNING_SECONDS = 60  # before its limit, or more, the attendant is warned by a SIGTERM


def grace_of(request: dict[str, Any]) -> float:
    """How long a stop of it may take, before SIGKILL."""
    grace = (request.get("options") or {}).get("grace")
    return float(Wanted().grace_seconds if grace is None else seconds_given(grace, "grace"))
