"""For every crash point and victim: what has to be done so that the victim comes by there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

from holdfast.run.crashpoints import POINTS
from tests.support.neighbours import watched_by
from tests.support.trials import NAME, Trial
from tests.support.waiting import eventually

# An adopter comes by these when the attempt is its own child: after a restart.
OF_AN_ATTEMPT = (
    "shim.forked",
    "shim.attempt-recorded",
    "shim.released",
    "shim.running",
    "shim.ready",
    "shim.reaped",
)
# A queued run's shim comes by these, and so does whoever sets it waiting again.
OF_A_QUEUE = (
    "shim.queued",
    "shim.in-line",
    "shim.baton-taken",
    "shim.memory-locked",
    "shim.slot-taken",
    "shim.admission-recorded",
    "shim.baton-released",
    "shim.admitted",
)


class CrashTrial(NamedTuple):
    """One way to meet a point: `drive` is called with the trial and where to die."""

    point: str
    victim: str
    drive: Callable[[Trial, str], None]

    @property
    def name(self) -> str:
        return f"{self.point}@{self.victim} {self.drive.__name__}"

    def run(self, trial: Trial) -> None:
        """Meet the point, and die there."""
        self.drive(trial, f"{self.point}@{self.victim}")


def crash_trials() -> Iterator[CrashTrial]:
    """Every point with every victim that can come by it; a submitter's are in tests/fleet."""
    for point in POINTS:
        owner = point.partition(".")[0]
        if owner == "submitter":
            continue
        if owner == "launcher":
            yield CrashTrial(point, "launcher", launched)
        elif owner == "remover":
            yield CrashTrial(point, "remover", archived if "archive" in point else removed)
        elif owner == "adopter":
            hangs = point in ("adopter.tree-emptied", "adopter.shim-ended")
            yield CrashTrial(point, "adopter", hung if hangs else adopted)
        elif point in OF_A_QUEUE:
            yield CrashTrial(point, "shim", queued)
            yield CrashTrial(point, "adopter", queued_again)
        elif point.startswith("shim.rescue-"):
            yield CrashTrial(point, "shim", rescued)
        else:
            yield from _of_a_supervisor(point)


def _of_a_supervisor(point: str) -> Iterator[CrashTrial]:
    """A shim and its adopter both come by most points of supervision."""
    if point in ("shim.started", "shim.locked", "shim.supervised", "shim.lock-released"):
        yield CrashTrial(point, "shim", ended)
    elif point in ("shim.pause-begun", "shim.continued"):
        yield CrashTrial(point, "shim", paused)
    elif point == "shim.adjusted":
        yield CrashTrial(point, "shim", adjusted)
    elif point == "shim.budget-reached":
        yield CrashTrial(point, "shim", spent)
        yield CrashTrial(point, "adopter", spent_by_an_adopter)
    elif point in ("shim.stop-begun", "shim.cleaned"):
        yield CrashTrial(point, "shim", stopped)
        yield CrashTrial(point, "adopter", stopped_by_an_adopter)
    elif point == "shim.restart-scheduled":
        yield CrashTrial(point, "shim", restarted)
        yield CrashTrial(point, "adopter", restarted_by_an_adopter)
    elif point in OF_AN_ATTEMPT:
        yield CrashTrial(point, "shim", ended)
        yield CrashTrial(point, "adopter", restarted_by_an_adopter)
    else:
        yield CrashTrial(point, "shim", ended)
        yield CrashTrial(point, "shim", stopped)
        yield CrashTrial(point, "adopter", adopted)


def _began(trial: Trial) -> None:
    eventually(lambda: len(list(trial.told.glob("lines.*"))) > 0, why="the workload writes")


def launched(trial: Trial, crash_at: str) -> None:
    """The launcher dies."""
    trial.start("--key", "k", crash_at=crash_at)


def ended(trial: Trial, crash_at: str) -> None:
    """The shim dies on the way from its start to an ending of the workload's own."""
    trial.start(crash_at=crash_at)
    trial.gate.touch()
    until_dead_or_over(trial)


def stopped(trial: Trial, crash_at: str) -> None:
    """The shim dies while it stops the tree."""
    trial.start(crash_at=crash_at)
    _began(trial)
    trial.stop()
    until_dead_or_over(trial)


def restarted(trial: Trial, crash_at: str) -> None:
    """The shim dies between two attempts."""
    trial.gate.touch()
    trial.start("--restart", "on-failure:1", crash_at=crash_at)
    until_dead_or_over(trial)


def _orphaned(trial: Trial, *options: object) -> None:
    trial.start(*options)
    _began(trial)
    trial.kill_shim()


def adopted(trial: Trial, crash_at: str) -> None:
    """The adopter dies on the way from its start to an ending."""
    _orphaned(trial)
    trial.holdfast("recover", crash_at=crash_at)
    trial.gate.touch()
    until_dead_or_over(trial)


def stopped_by_an_adopter(trial: Trial, crash_at: str) -> None:
    """The adopter dies while it stops the tree."""
    _orphaned(trial)
    trial.holdfast("recover", crash_at=crash_at)
    trial.stop()


def restarted_by_an_adopter(trial: Trial, crash_at: str) -> None:
    """The adopter dies around a new attempt, which is its own child."""
    _orphaned(trial, "--restart", "on-failure:1")
    trial.holdfast("recover", crash_at=crash_at)
    trial.gate.touch()
    eventually(lambda: trial.crashed or _is_over(trial), timeout=30, why="an attempt has ended")


def paused(trial: Trial, crash_at: str) -> None:
    """The shim dies while it pauses the tree, or lets it go on."""
    trial.start(crash_at=crash_at)
    _began(trial)
    trial.holdfast("pause", NAME)
    trial.holdfast("unpause", NAME)
    eventually(lambda: trial.crashed, why="the shim is dead")
    trial.holdfast("recover")
    trial.holdfast("unpause", NAME)


def adjusted(trial: Trial, crash_at: str) -> None:
    """The shim dies when it has recorded other limits."""
    trial.start(crash_at=crash_at)
    _began(trial)
    trial.holdfast("adjust", NAME, "--timeout", "1h")
    eventually(lambda: trial.crashed, why="the shim is dead")
    trial.holdfast("recover")
    trial.gate.touch()


# Each line of the workload is a token.
_COUNTED = """
name = "counted"
[[usage]]
line = '^line-[0-9]+-(?P<number>[0-9]+)$'
during = true
tokens_out = ["number"]
"""


def _budget(trial: Trial, tokens: int) -> tuple[object, ...]:
    agents = trial.root / "config" / "holdfast" / "agents"
    agents.mkdir(parents=True)
    (agents / "counted.toml").write_text(_COUNTED)
    trial.environment["XDG_CONFIG_HOME"] = str(trial.root / "config")
    trial.was_stopped = True
    return "--agent", "counted", "--max-tokens", tokens, "--grace", "1s"


def spent(trial: Trial, crash_at: str) -> None:
    """The shim dies when a budget is used up, before it acts on that."""
    trial.start(*_budget(trial, 5), crash_at=crash_at)
    until_dead_or_over(trial)


def spent_by_an_adopter(trial: Trial, crash_at: str) -> None:
    """The adopter does."""
    _orphaned(trial, *_budget(trial, 100))
    trial.holdfast("recover", crash_at=crash_at)
    until_dead_or_over(trial)


def queued(trial: Trial, crash_at: str) -> None:
    """The shim of a run in a queue dies on its way to its start."""
    trial.start("-Q", "main", "--needs-memory", "1M", crash_at=crash_at)
    trial.gate.touch()
    until_dead_or_over(trial)


def queued_again(trial: Trial, crash_at: str) -> None:
    """Whoever sets a queued run waiting again dies on the way to its start."""
    trial.holdfast("queue", "set", "main", "--limit", "1")
    trial.holdfast("queue", "pause", "main")
    trial.start("-Q", "main", "--needs-memory", "1M")
    trial.kill_shim()
    trial.holdfast("queue", "unpause", "main")
    trial.holdfast("recover", crash_at=crash_at)
    trial.gate.touch()
    until_dead_or_over(trial)


def rescued(trial: Trial, crash_at: str) -> None:
    """A shim dies while it has its neighbour adopted."""
    waits = f"while [ ! -e {trial.gate} ]; do sleep 0.05; done"
    trial.holdfast("run", "-n", "neighbour", "sh", "-c", waits, crash_at=crash_at)
    trial.start()
    _began(trial)
    watching, watched = trial.runs.get("neighbour").info().shim, trial.runs.get(NAME).info().shim
    assert watching is not None
    assert watched is not None
    eventually(lambda: watched["pid"] in watched_by(watching["pid"]), why="it has a neighbour")
    trial.kill_shim()
    eventually(lambda: trial.crashed, why="the neighbour is dead")


def hung(trial: Trial, crash_at: str) -> None:
    """Whoever ends a shim that hangs dies on the way."""
    trial.start()
    _began(trial)
    info = trial.info()
    assert info is not None
    assert info.shim is not None
    os.kill(info.shim["pid"], signal.SIGSTOP)
    trial.was_stopped = True
    asking = trial.begin("stop", "--grace", "0", NAME, crash_at=crash_at)
    eventually(lambda: trial.crashed, timeout=30, why="the adopter is dead")
    asking.kill()  # it would send another one after it
    asking.wait()
    trial.stop(grace=0)


def removed(trial: Trial, crash_at: str) -> None:
    """Whoever removes an ended run dies on the way."""
    _over(trial)
    trial.holdfast("rm", NAME, crash_at=crash_at)
    trial.forget_if_gone()


def archived(trial: Trial, crash_at: str) -> None:
    """Whoever packs an ended run away dies on the way."""
    _over(trial)
    trial.holdfast("archive", NAME, crash_at=crash_at)


def _over(trial: Trial) -> None:
    trial.gate.touch()
    trial.start()
    eventually(lambda: _is_over(trial), why="it is over")


def _is_over(trial: Trial) -> bool:
    run = trial.subject()
    return bool(trial.events("ended")) and run is not None and not run.directory.lock_is_held()


def until_dead_or_over(trial: Trial) -> None:
    """What a drive ends with."""
    eventually(
        lambda: trial.crashed or _is_over(trial) or trial.subject() is None,
        timeout=30,
        why="the victim has come by",
    )
