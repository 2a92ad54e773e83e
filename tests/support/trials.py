"""One fault, one trial: a run whose workload tells by itself what it did, and an honest look at it.

A trial has a home of its own and bystanders that nobody may touch. `Trial.settle` does what a
user would do after a fault; `Trial.judge` compares what is recorded with what really happened.
The paths are explicit, so that trials can go on side by side in one program.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.manage.info import RunInfo
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.stamped import find_stamped
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.lifecycle import fold
from holdfast.run.outcomes import Outcome

NAME = "subject"
CODE = 42
SETTLE_SECONDS = 60.0

# Whatever is written to stdout is told to a file of its own right after: so much must be kept.
WORKLOAD = """
echo $$ >> {told}/started
i=0
while [ ! -e {gate} ] && [ $i -lt 2000 ]; do
  i=$((i + 1)); echo line-$$-$i && echo $i >> {told}/lines.$$
  sleep 0.03
done
echo {code} >> {told}/code.$$
exit {code}
"""


class Violation(AssertionError):
    """An invariant that did not hold. `kind` is a row of the campaign's table."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


WRONG_SIGNAL = "wrong signals"
INVENTED = "invented endings"
LOST_OUTPUT = "lost output"
BLOCKED = "names left blocked"
QUEUE = "queue: over the limit, twice, lost"
KINDS = (WRONG_SIGNAL, INVENTED, LOST_OUTPUT, BLOCKED, QUEUE)


class Trial:
    """A home, a workload that tells on itself, and two bystanders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.gate = root / "gate"
        self.told = root / "told"
        self.crash_log = root / "crashes"
        self.told.mkdir(parents=True)
        self.runs = Runs(str(self.home))
        self.environment: dict[str, str] = {}
        self.struck: set[int] = set()  # signals that the trial itself sent to the workload
        self.was_stopped = False
        self.judges: list[Callable[[], None]] = []  # of what else was started
        self.is_forgotten = False  # the subject was removed or replaced: nothing to compare with
        self._bystanders = [
            subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) for _ in range(2)
        ]

    def close(self) -> None:
        """End everything that is still there; only a failed trial has something."""
        self.gate.touch()
        for bystander in self._bystanders:
            bystander.kill()
            bystander.wait()
        for identity in self.stamped():
            with contextlib.suppress(HoldfastError, ProcessLookupError), identity.hold() as held:
                signal.pidfd_send_signal(held.fd, signal.SIGKILL)

    # What is done to it

    def holdfast(self, *words: object, crash_at: str | None = None) -> int:
        """One command to its end; its exit code."""
        return self.begin(*words, crash_at=crash_at).wait(SETTLE_SECONDS)

    def begin(self, *words: object, crash_at: str | None = None) -> subprocess.Popen[bytes]:
        """One command under way."""
        env = {**os.environ, **self.environment, "HOLDFAST_HOME": str(self.home)}
        if crash_at is not None:
            env.update(HOLDFAST_CRASH_AT=crash_at, HOLDFAST_CRASH_LOG=str(self.crash_log))
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *map(str, words)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def command(self, *options: object) -> list[object]:
        """The words of a start of the workload."""
        script = WORKLOAD.format(told=self.told, gate=self.gate, code=CODE)
        return ["run", "-n", NAME, *options, "sh", "-c", script]

    def start(self, *options: object, crash_at: str | None = None) -> int:
        return self.holdfast(*self.command(*options), crash_at=crash_at)

    def stop(self, grace: float = 1.0) -> int:
        self.was_stopped = True
        return self.holdfast("stop", "--grace", grace, NAME)

    def kill(self, recorded: dict[str, Any] | None, *, is_workload: bool = False) -> None:
        """SIGKILL to a recorded process, if it is still that one."""
        if recorded is None:
            return
        identity = ProcessIdentity.from_json(recorded)
        with contextlib.suppress(HoldfastError, ProcessLookupError), identity.hold() as held:
            if is_workload:
                self.struck.add(signal.SIGKILL)
            signal.pidfd_send_signal(held.fd, signal.SIGKILL)
            select.select([held.fd], [], [], 20)  # readable when it has exited

    def kill_shim(self) -> None:
        info = self.info()
        self.kill(info.shim if info is not None else None)

    def kill_workload(self) -> None:
        for event in self.events("attempt_started")[-1:]:
            self.kill(event["root"], is_workload=True)

    # What is seen of it

    @property
    def crashed(self) -> list[str]:
        """The points at which a process was made to die."""
        try:
            return [line.split()[0] for line in self.crash_log.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def subject(self) -> Run | None:
        try:
            return self.runs.get(NAME)
        except RunNotFound:
            return None

    def info(self) -> RunInfo | None:
        run = self.subject()
        return None if run is None else run.info()

    def events(self, kind: str) -> list[dict[str, Any]]:
        run = self.subject()
        read = () if run is None else run.directory.read_events().events
        return [event.to_json() for event in read if event.kind == kind]

    def has_begun(self) -> bool:
        return (self.told / "started").exists()

    def stamped(self) -> list[ProcessIdentity]:
        """Live processes of this trial's runs, shims aside."""
        ours = set(self.runs.home.run_ids())
        return [member.identity for run_id, member in find_stamped() if run_id in ours]

    def forget_if_gone(self) -> None:
        """A run that was removed, or replaced, has nothing left to compare with."""
        roots = [event["root"]["pid"] for event in self.events("attempt_started")]
        started = self.told / "started"
        known = set(started.read_text().split()) if started.exists() else set()
        if not known & set(map(str, roots)):
            self.is_forgotten = True

    # After the fault

    def settle(self) -> None:
        """Recover, as a user would, until nothing is under way any more."""
        self.gate.touch()
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._is_settled():
            if time.monotonic() > deadline:
                info = self.info()
                raise Violation(BLOCKED, f"nothing settles: {info and info.evidence}")
            if not self._is_supervised():
                self.holdfast("recover")
            time.sleep(0.02)

    def _is_supervised(self) -> bool:
        run = self.subject()
        return run is not None and run.directory.lock_is_held()

    def _is_settled(self) -> bool:
        home = self.runs.home
        return not home.run_ids(active=True) and not self._is_supervised()

    def judge(self) -> RunInfo | None:
        """Every invariant; Violation where one does not hold. What the subject came to."""
        self._judge_bystanders()
        info = self.info()
        if not self.is_forgotten:
            if info is None and self.has_begun():
                raise Violation(INVENTED, "a command ran of which there is no record")
            for run_id in self.runs.home.run_ids():
                self._judge_run(run_id)
            self._judge_output()
        self._judge_name()
        for judge in self.judges:
            judge()
        return info

    def _judge_run(self, run_id: str) -> None:
        try:
            run = self.runs.get(run_id)
        except RunNotFound:  # a launcher died before it wrote what was asked
            return
        info = run.info()
        if info.name == NAME:
            self._judge_ending(info)
            self._judge_signals(run)

    def _judge_bystanders(self) -> None:
        for bystander in self._bystanders:
            pid, status = os.waitpid(bystander.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                raise Violation(WRONG_SIGNAL, f"a bystander was struck: status {status}")

    def _judge_ending(self, info: RunInfo) -> None:
        roots = [str(attempt["root"]["pid"]) for attempt in info.attempts]
        started = self.told / "started"
        began = set(started.read_text().split()) if started.exists() else set()
        ran = bool(began.intersection(roots))
        finished = any((self.told / f"code.{pid}").exists() for pid in roots)
        if info.state is not State.ENDED:
            raise Violation(BLOCKED, f"{info.state}: {info.evidence}")
        if info.outcome is Outcome.NEVER_STARTED and ran:
            raise Violation(INVENTED, f"it ran, but: {info.evidence}")
        has_code = info.exit_code is not None and info.outcome is not Outcome.NEVER_STARTED
        if has_code and not (finished and info.exit_code == CODE):
            raise Violation(INVENTED, f"exit {info.exit_code}: {info.evidence}")
        if info.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) and info.exit_code is None:
            raise Violation(INVENTED, f"{info.outcome} without a code: {info.evidence}")
        if info.outcome is Outcome.STOPPED and not self.was_stopped:
            raise Violation(INVENTED, f"nobody stopped it: {info.evidence}")
        if info.signal is not None and info.signal not in self.struck | self._sent(info.id):
            raise Violation(INVENTED, f"nobody sent signal {info.signal}: {info.evidence}")

    def _sent(self, run_id: str) -> set[int]:
        rows = self.runs.get(run_id).directory.read_signals()
        return {signal.Signals[row["signal"]] for row in rows if row["fate"] == "delivered"}

    def _judge_signals(self, run: Run) -> None:
        directory = run.directory
        events = directory.read_events().events
        # Whom a pause stops is recorded before the signal, and forgotten when it goes on.
        paused = [event for event in events if event.kind is Kind.PAUSED]
        ours = fold(events).named_tokens() | {t for one in paused for t in one.facts["stopped"]}
        for row in directory.read_signals():
            # Below a shim that hung, and that was proven: recorded only once that is ended.
            below_shim = row["why"].startswith("hung shim: stop")
            if row["fate"] == "delivered" and row["to"] not in ours and not below_shim:
                raise Violation(WRONG_SIGNAL, f"{row['signal']} to {row['to']}, which is not ours")

    def _judge_output(self) -> None:
        """Whichever run it was of: every line that was told is kept."""
        home, kept = self.runs.home, set()
        for run_id in home.run_ids():
            with contextlib.suppress(RunNotFound):
                kept |= set(self.runs.get(run_id).output().decode(errors="replace").splitlines())
        for path in self.told.glob("lines.*"):
            pid = path.name.partition(".")[2]
            for number in path.read_text().split("\n")[:-1]:
                if f"line-{pid}-{number}" not in kept:
                    raise Violation(LOST_OUTPUT, f"line {number} of {pid}")

    def _judge_name(self) -> None:
        left = [identity.pid for identity in self.stamped()]
        code = self.holdfast("run", "-n", NAME, "true")
        if code != 0:
            info = self.info()
            raise Violation(BLOCKED, f"exit {code}; {left} live; {info and info.evidence}")


@contextlib.contextmanager
def trial(root: Path) -> Iterator[Trial]:
    """A trial, and nothing of it afterwards."""
    one = Trial(root)
    try:
        yield one
    finally:
        one.close()
