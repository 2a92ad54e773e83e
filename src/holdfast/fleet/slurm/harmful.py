"""Settings of Slurm that would harm a run. Pure."""

from __future__ import annotations

from holdfast.errors import Refused
from holdfast.fleet.slurm.limits import ROOM_SECONDS
from holdfast.manage.doctor.findings import failed, works
from holdfast.options import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.fleet.slurm.words import SlurmConfig
    from holdfast.manage.doctor.findings import DoctorFinding


def check_settings(config: SlurmConfig) -> Iterator[DoctorFinding]:
    """For `fleet check`."""
    yield works("slurm", f"Slurm {config.version}, cluster {config.cluster}")
    for name, problem in (("proctrack", _proctrack(config)), ("kill-wait", _kill_wait(config))):
        yield works(name, _fine(name, config)) if problem is None else failed(name, *problem)


def refuse_settings(config: SlurmConfig, grace: float) -> None:
    """Refused where Slurm would lose sight of the run, or kill it in the middle of its stop."""
    for problem in (_proctrack(config), _kill_wait(config, grace)):
        if problem is not None:
            raise Refused(f"{problem[0]}; nothing was submitted", hint=problem[1])


def _proctrack(config: SlurmConfig) -> tuple[str, str] | None:
    if config.proctrack == "proctrack/cgroup":
        return None
    return (
        f"Slurm has {config.proctrack or 'no ProctrackType'}: it would call a run ended that lives",
        "ProctrackType=proctrack/cgroup in slurm.conf",
    )


def _kill_wait(
    config: SlurmConfig, grace: float = float(Wanted().grace_seconds)
) -> tuple[str, str] | None:
    wait = config.kill_wait_seconds
    if wait is not None and grace <= wait - ROOM_SECONDS:
        return None
    says = f"a stop with a grace of {grace:g} s needs a KillWait of {grace + ROOM_SECONDS:g} s"
    return (
        f"{says}, and Slurm's is {wait or 0:g} s",
        f"--grace {max(0.0, (wait or 0) - ROOM_SECONDS):g}, or a longer KillWait in slurm.conf",
    )


def _fine(name: str, config: SlurmConfig) -> str:
    return (
        config.proctrack if name == "proctrack" else f"KillWait is {config.kill_wait_seconds:g} s"
    )
