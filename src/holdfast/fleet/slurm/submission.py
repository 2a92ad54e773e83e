"""What sbatch is told, and what of our environment it gets. Pure, but for that environment."""

from __future__ import annotations

import math
import os

from holdfast.fleet.placement import PROTOCOL
from holdfast.fleet.session import asked_of
from holdfast.fleet.slurm.limits import LIMIT_ROOM_SECONDS, WARNING_SECONDS
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.placement import Placement
    from holdfast.fleet.settings import FleetTarget

_ENVIRONMENT = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS")  # what sbatch needs, of ours
_PATH = "/usr/local/bin:/usr/bin:/bin"


def job_name(placement: Placement) -> str:
    """By which a job is found again."""
    return f"hf-{placement.id}"


def sbatch_words(target: FleetTarget, placement: Placement, grace: float) -> list[str]:
    """A held job for it."""
    words = ["--parsable", "--hold", "--no-requeue", "--nodes=1", "--ntasks=1"]
    words += ["--export=ALL", "--output=/dev/null", "--chdir=/"]
    words += [f"--signal=B:TERM@{WARNING_SECONDS}"]
    if target.name:
        words.append(f"--partition={target.name}")
    timeout = (placement.request.get("options") or {}).get("timeout")
    if timeout is not None:
        limit = seconds_given(timeout, "timeout") + grace + LIMIT_ROOM_SECONDS
        words.append(f"--time={math.ceil((limit + WARNING_SECONDS) / 60)}")
    wanted = placement.resources
    if wanted.cpus:
        words.append(f"--cpus-per-task={wanted.cpus}")
    if wanted.memory_bytes:
        words.append(f"--mem={math.ceil(wanted.memory_bytes / 2**20)}M")
    if wanted.gpus:
        words.append(f"--gpus={wanted.gpus}")
    if placement.request.get("on_host"):
        words.append(f"--nodelist={placement.request['on_host']}")
    return [*words, "--job-name", job_name(placement), *target.settings.options]


def attendant_request(placement: Placement) -> dict[str, Any]:
    """What the attendant reads: without secrets, or without a request if there are some."""
    request = placement.request if placement.is_whole else None
    return {
        "id": placement.id,
        "key": placement.key,
        "placement": placement.in_spec(""),
        "request": request,
        "on_node": placement.request.get("on_node"),
        "protocol": PROTOCOL,
        "options": asked_of(placement.request),
    }


def batch_environment() -> dict[str, str]:
    """Of sbatch, which hands it to the job: ours may hold secrets, and is of another machine.

    Of a submitter that is in a job itself, SLURM_RESTART_COUNT would be taken for that of the run.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith("SBATCH_")
    }
    return {**kept, "PATH": _PATH}
