"""A storm in a queue: many submitters at once, while waiting shims are killed and recovered.

The runs keep the ledger themselves; `submit` is played by processes of their own.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import HoldfastError
from holdfast.manage.queueing.changes import change_queue
from holdfast.manage.runs import Runs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.procfs import ProcessState, read_stat
from holdfast.process.signals import send_signal
from holdfast.process.verdict import Verdict
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.run.lifecycle import fold
from holdfast.run.queueing.disk import Queue
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "storm"
_SUBMIT = """
import sys
from pathlib import Path
from holdfast.manage.runs import Runs
from tests.support.queues import recording
home, told, names = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
for name in names:
    Runs(home).start(recording(told, name), name=name, queue="storm", sample_interval=0)
"""


class Storm(NamedTuple):
    """What became of it."""

    told: Path
    names: list[str]
    killed: int
    adopted: int  # waiters that were set waiting again


def storm(home: Path, *, runs: int, limit: int, submitters: int, kills: int, seed: int) -> Storm:
    """Submit, kill and recover until every run has ended.

    Nothing is admitted before a half of the runs is there, and more than half of those to be killed
    are: so there is always somebody who waits. If none is to be killed, before all are there.
    """
    library, told = Runs(str(home)), home / "told"
    change_queue(library.home, QUEUE, limit=limit, paused=True)
    names = [f"r{number:03}" for number in range(runs)]
    words = [sys.executable, "-c", _SUBMIT, str(home), str(told)]
    senders = [
        subprocess.Popen([*words, *names[one::submitters]], cwd=ROOT) for one in range(submitters)
    ]
    rng, killed = random.Random(seed), 0
    try:
        for number in range(kills):
            _wait_for_so_many(library, min((number + 1) * runs // kills, runs // 2))
            killed += _kill_the_next(library, rng, runs)
            if number == kills // 2:
                change_queue(library.home, QUEUE, paused=False)
        if not kills:
            _wait_for_so_many_in_line(library, runs)
            change_queue(library.home, QUEUE, paused=False)
        for sender in senders:
            assert sender.wait(110) == 0
    finally:
        for sender in senders:
            sender.kill()
            sender.wait()
    eventually(lambda: _are_over(library, runs) or _recover(library), 110, "all have ended")
    return Storm(
        told, names, killed, sum(_waited_again(library, i) for i in library.home.run_ids())
    )


def _recover(library: Runs) -> bool:
    """As a user would who sees that nobody is left to do it."""
    if not any(RunDirectory(library.home, one).lock_is_held() for one in _active(library)):
        library.recover()
    return False


def _waited_again(library: Runs, run_id: str) -> bool:
    events = RunDirectory(library.home, run_id).read_events().events
    return len([event for event in events if event.kind is Kind.QUEUED]) > 1


def _active(library: Runs) -> list[str]:
    return library.home.run_ids(active=True)


def _are_over(library: Runs, runs: int) -> bool:
    return len(library.home.run_ids()) == runs and not _active(library)


def _wait_for_so_many(library: Runs, count: int) -> None:
    eventually(lambda: len(library.home.run_ids()) >= count, 110, f"{count} are submitted")


def _wait_for_so_many_in_line(library: Runs, count: int) -> None:
    line = Queue(library.home, QUEUE).waiting
    eventually(lambda: len(line()) >= count, 110, f"{count} wait")


def _kill_the_next(library: Runs, rng: random.Random, runs: int) -> bool:
    """Whether there was one before all were over."""

    def look() -> bool:
        is_killed = _kill_a_waiter(library, rng)
        killed.append(is_killed)
        return is_killed or _are_over(library, runs) or _recover(library)

    killed: list[bool] = []
    eventually(look, 60, "one waits")
    return killed[-1]


def _kill_a_waiter(library: Runs, rng: random.Random) -> bool:
    """One that waits, or is about to: never one whose command may run.

    It is stopped before it is looked at for good: else it may begin between look and signal.
    """
    ids = _active(library)
    if not ids:
        return False
    directory = RunDirectory(library.home, rng.choice(ids))
    shim = _waiting_shim(directory)
    if shim is None or not _sent(shim, signal.SIGSTOP):
        return False
    eventually(lambda: shim.verdict() is not Verdict.SAME or _stands_still(shim), 60, "it stops")
    if _waiting_shim(directory) == shim:
        return _sent(shim, signal.SIGKILL)
    _sent(shim, signal.SIGCONT)
    return False


def _waiting_shim(directory: RunDirectory) -> ProcessIdentity | None:
    try:
        facts = fold(directory.read_events().events)
    except (HoldfastError, OSError):
        return None
    return facts.shim if facts.waits_to_begin else None


def _stands_still(shim: ProcessIdentity) -> bool:
    try:
        return read_stat(shim.pid).state is ProcessState.STOPPED
    except HoldfastError:
        return False


def _sent(shim: ProcessIdentity, number: int) -> bool:
    try:
        return send_signal(shim, number).delivered
    except (HoldfastError, OSError):
        return False
