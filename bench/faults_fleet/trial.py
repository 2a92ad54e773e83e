"""One key on one engine: a workload that tells on itself, a fault, and what is true afterwards.

The workload marks on disk that it has begun, was stopped, has ended, with its PID and start time,
and which lines it wrote. After the fault the trial does what a user would do (the same key again,
`fleet recover`), then compares what is recorded, and what was told, with these marks.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.fleet.fleet_world import Submitter
from tests.support.cli import Finished

COPIES = "second copies"
INVENTED = "invented endings"
LOST = "lost facts"
NEVER = "starts that never began"
FAILED = "trials that failed"
BARS = (COPIES, INVENTED, LOST, NEVER)
CODE, STOPPED_CODE = 42, 43
SETTLE_SECONDS = 120.0
PAUSE_SECONDS = 0.3

WORKLOAD = """\
say() {{ echo "$1 $$ $(cut -d' ' -f22 /proc/$$/stat)" >> {marks}; }}
trap 'say stopped; exit {stopped}' TERM
say begun
i=0
while [ ! -e {gate} ] && [ $i -lt 6000 ]; do
  i=$((i + 1)); if [ $((i % 5)) = 1 ]; then echo line-$i && echo $i >> {lines}; fi
  sleep 0.1
done
say ended
exit {code}
"""


class Violation(AssertionError):
    """A promise that did not hold. `kind` is a column of the table."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Arena:
    """Where trials are played: a submitter, an engine, and how all of it is brought back."""

    engine = ""
    on = ""
    settle_seconds = SETTLE_SECONDS

    def __init__(self, submitter: Submitter, ledger: str) -> None:
        self.submitter = submitter
        self.ledger = ledger  # home, postgres
        self.marks = submitter.folder / "marks"
        self.marks.mkdir()
        self.start_seconds = 1.0  # how long a start takes; measured

    def node_homes(self) -> list[Path]:
        """The Holdfast homes of the nodes."""
        raise NotImplementedError

    def heal(self) -> None:
        """Everything is there again."""

    def mend(self) -> None:
        """What a user does on a node of which a run has no shim."""

    def exported(self, _run_id: str) -> list[int] | None:
        """Which facts of the run have come into the database; None: there is none."""
        return None

    def is_forgotten(self, _info: dict[str, Any]) -> bool:
        """Whether the engine itself has lost it, so that only a person can go on."""
        return False

    def is_refused(self, _info: dict[str, Any]) -> bool:
        """Whether it is told as never started, since the engine lost one start and tried again."""
        return False


ArenaT_co = TypeVar("ArenaT_co", bound=Arena, covariant=True)


class Trial(Generic[ArenaT_co]):
    """One key, from its first start to its end."""

    def __init__(self, arena: ArenaT_co, name: str, rng: random.Random) -> None:
        self.arena = arena
        self.submitter = arena.submitter
        self.rng = rng
        self.key = name
        folder = arena.marks / name
        folder.mkdir()
        self.gate, self._marks, self._lines = folder / "gate", folder / "marks", folder / "lines"
        self.may_be_stopped = False  # the fault asks for its end
        self.may_be_killed = False  # the fault, or the engine because of it, kills the workload
        self.may_be_lost = False  # whoever would have seen the end was killed
        self.was_left_unknown = False
        self.was_refused = False  # the engine lost its start, and Holdfast does not start it twice
        self.errors = b""  # what the last start said
        self._told: set[str] = set()  # ids that a command gave
        self._waiters: list[subprocess.Popen[bytes]] = []

    # What is done

    def words(self) -> list[object]:
        script = WORKLOAD.format(
            marks=self._marks,
            gate=self.gate,
            lines=self._lines,
            code=CODE,
            stopped=STOPPED_CODE,
        )
        run = ["run", "--on", self.arena.on, "--json", "--key", self.key, "-n", self.key]
        return [*run, "--grace", "5", "--", "sh", "-c", script]

    def begin(self, **env: str) -> subprocess.Popen[bytes]:
        """A start under way."""
        return self.submitter.start(*self.words(), **env)

    def end(self, started: subprocess.Popen[bytes], seconds: float = 90) -> int:
        """Its exit code; what it told is kept."""
        out, self.errors = started.communicate(timeout=seconds)
        if started.returncode == 0:
            self._told.add(json.loads(out)["id"])
        return started.returncode

    def start(self, **env: str) -> int:
        return self.end(self.begin(**env))

    def crash_at(self, point: str, role: str = "submitter") -> None:
        """A submitter that dies there."""
        code = self.start(HOLDFAST_CRASH_AT=f"{point}@{role}")
        assert code == -signal.SIGKILL, f"it did not come by {point}: {code}"

    def pause(self, least: float = 0.0, most: float | None = None) -> None:
        """Some part of a start."""
        longest = self.arena.start_seconds * 1.2 if most is None else most
        time.sleep(self.rng.uniform(least, longest))

    def run(self) -> dict[str, Any]:
        """Started, and under way."""
        assert self.start() == 0
        return self.await_begun()

    def await_begun(self, seconds: float = SETTLE_SECONDS) -> dict[str, Any]:
        """Until its node says that it runs, and it has said so itself."""
        return self._until(lambda info: info["state"] == "running" and self.begun, seconds)

    def follow(self) -> None:
        """Somebody waits for its end from now on."""
        self._waiters.append(self.submitter.start("wait", "--json", self.key))

    def info(self) -> dict[str, Any] | None:
        shown = self.submitter("status", self.key, "--json")
        return shown.json if shown.returncode == 0 else None

    def _until(self, fits: Callable[[dict[str, Any]], object], seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        info: dict[str, Any] | None = None
        while time.monotonic() < deadline:
            info = self.info()
            if info is not None and fits(info):
                return info
            time.sleep(PAUSE_SECONDS)
        evidence = info and f"{info['state']}: {info['evidence']}"
        raise AssertionError(f"not within {seconds:g} s; {evidence}; marks {self.marks()}")

    # What is true

    def marks(self) -> list[list[str]]:
        if not self._marks.exists():
            return []
        return [line.split() for line in self._marks.read_text().splitlines()]

    def marked(self, word: str) -> int:
        return sum(mark[0] == word for mark in self.marks())

    @property
    def begun(self) -> int:
        return self.marked("begun")

    def lives(self) -> list[str]:
        """The workloads that are alive."""
        return [
            pid for word, pid, ticks in self.marks() if word == "begun" and is_alive(pid, ticks)
        ]

    # After the fault

    def settle(self) -> None:
        """All is back; a user goes on with what was left, until it is over."""
        self.arena.heal()
        deeds = [self._again, self._recover]
        self.rng.shuffle(deeds)
        for deed in deeds:
            deed()
        info = self._until(self._is_clear, self.arena.settle_seconds)
        if self.arena.is_forgotten(info):
            if self.begun:
                self.was_left_unknown = True
                self.gate.touch()
                return
            self.submitter("fleet", "give-up", self.key, expect=0)
            self._told.clear()
            self._again()
            self._until(lambda info: info["state"] in ("running", "ended"), SETTLE_SECONDS)
        self.gate.touch()
        self.arena.mend()
        self._until(lambda info: info["state"] == "ended", self.arena.settle_seconds)

    def _is_clear(self, info: dict[str, Any]) -> bool:
        if info["state"] == "running" or self.arena.is_forgotten(info):
            return True
        return bool(info["state"] == "ended")

    def _again(self) -> None:
        def once() -> int:
            code = self.start()
            info = self.info() if code == 6 else None
            return 0 if info is not None and self.arena.is_forgotten(info) else code

        self._retry(once, "the same key again")

    def _recover(self) -> None:
        def once() -> int:
            done = self.submitter("fleet", "recover", "--json")
            if done.returncode == 6 and self._is_only_forgotten(done.json):
                return 0
            return done.returncode

        self._retry(once, "fleet recover")

    def _is_only_forgotten(self, said: dict[str, Any]) -> bool:
        rows = [row for row in said.get("placements", ()) if row["outcome"] == "unknown"]
        return all("any more" in row["says"] or row["name"] != self.key for row in rows)

    def _retry(self, deed: Callable[[], int], what: str) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (code := deed()) != 0:
            if code not in (4, 6) or time.monotonic() > deadline:
                raise AssertionError(f"{what} gave {code}")
            time.sleep(PAUSE_SECONDS)

    def _ask(self, *words: str) -> Finished:
        """What it answers; a node that can't be reached just now is asked again (exit code 6)."""
        answers: list[Finished] = []

        def once() -> int:
            answers.append(self.submitter(*words))
            return answers[-1].returncode

        self._retry(once, " ".join(words))
        return answers[-1]

    def judge(self) -> None:
        """Violation where a promise does not hold."""
        info = self.info()
        assert info is not None
        homes = [home for home in self.arena.node_homes() if (home / "runs" / info["id"]).is_dir()]
        if self.begun > 1 or len(homes) > 1:
            raise Violation(COPIES, f"{self.marks()}, records in {homes}")
        self.was_refused = self.begun == 0 and self.arena.is_refused(info)
        if self.begun == 0 and not self.was_refused:
            raise Violation(NEVER, f"{info['state']}: {info['evidence']}")
        if self._told - {info["id"]}:
            raise Violation(LOST, f"told {self._told}, and it is {info['id']}")
        if self.was_left_unknown:
            if info["outcome"] is not None:
                raise Violation(INVENTED, f"{info['outcome']}: {info['evidence']}")
            return
        self._judge_ending(info)
        self._judge_facts(info, homes)
        self._judge_waiters(info)

    def _judge_ending(self, info: dict[str, Any]) -> None:
        outcome, code = info["outcome"], info["exit_code"]
        says = f"{outcome} ({code}): {info['evidence']}; truth {self.marks()}"
        if self.lives():
            raise Violation(INVENTED, f"it lives: {says}")
        is_true = {
            "failed": (self.marked("ended") and code == CODE)
            or (self.marked("stopped") and code == STOPPED_CODE),
            "stopped": self.may_be_stopped,
            "killed": self.may_be_killed,
            "lost": self.may_be_lost,
            "never_started": self.begun == 0,
        }.get(outcome, False)
        if not is_true:
            raise Violation(INVENTED, says)
        if self.marked("ended") and code != CODE and not self.may_be_lost:
            raise Violation(LOST, f"its exit code: {says}")

    def _judge_facts(self, info: dict[str, Any], homes: list[Path]) -> None:
        """Every fact of the node's record, and every line that was written, is told from here."""
        if not homes:
            return
        record = homes[0] / "runs" / info["id"] / "events.jsonl"
        kept = [json.loads(line)["seq"] for line in record.read_text().splitlines()]
        shown = self._ask("events", info["id"])
        told = [row["seq"] for row in shown.json_lines]
        if told != kept:
            raise Violation(LOST, f"events {kept}, told {told}")
        exported = self.arena.exported(info["id"])
        if exported is not None and exported != kept:
            raise Violation(LOST, f"events {kept}, exported {exported}")
        logs = self._ask("logs", info["id"]).stdout.splitlines()
        written = self._lines.read_text().split() if self._lines.exists() else []
        missing = [number for number in written if f"line-{number}" not in logs]
        if missing:
            raise Violation(LOST, f"lines {missing} of its output")

    def _judge_waiters(self, info: dict[str, Any]) -> None:
        for waiter in self._waiters:
            out, errors = waiter.communicate(timeout=SETTLE_SECONDS)
            told = json.loads(out)["runs"][0] if out else {}
            if (told.get("outcome"), told.get("exit_code")) != (info["outcome"], info["exit_code"]):
                raise Violation(LOST, f"a wait was told {told or errors!r}")

    def close(self) -> None:
        """End what is left; only a trial that failed has something."""
        self.gate.touch()
        for waiter in self._waiters:
            if waiter.poll() is None:
                waiter.kill()
            waiter.communicate()
        for pid in self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def is_alive(pid: str, ticks: str) -> bool:
    """Whether that process, and no other of its PID, is alive."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == ticks and fields[0] != "Z"
