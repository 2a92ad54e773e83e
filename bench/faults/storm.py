"""A storm: 16 at once start, stop, replace, remove, recover, archive and clean the same names.

In two homes, while shims are killed. The workloads keep the ledger (`workload.py`). Bars: two of
one name alive 0, wrong exit codes 0, exit 70 0, bystanders struck 0.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.manage.runs import Runs
from holdfast.process.stamped import find_stamped
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.lifecycle import fold

SECONDS = 180.0
ACTORS = 16
NAMES = ("ant", "bee", "cat")
KINDS = ("plain", "stubborn", "forking", "late")
WORKLOAD = Path(__file__).with_name("workload.py")
COMMAND_SECONDS = 180.0  # a command that takes longer hangs
TWO, CODES, BUGS, HUNG, STRUCK = (
    "two of one name alive",
    "wrong codes",
    "exit 70",
    "commands that hung",
    "bystanders struck",
)

# What a command may come to. 125: the shim was killed while it started the run. 6: try again.
RIGHT = {
    "run": {0, 4, 6, 125},
    "replace": {0, 4, 6, 125},
    "stop": {0, 3, 6},
    "rm": {0, 3, 4},
    "rm --stop": {0, 3, 4, 6},
    "archive": {0, 3, 4},
    "recover": {0, 1},
    "recover --stop-orphans": {0, 1},
    "clean": {0, 4},
    "status": {0, 3},
    "ls": {0},
}
WEIGHTS = {"run": 8, "replace": 4, "stop": 4, "rm": 2, "rm --stop": 2, "recover": 2, "clean": 1}


class Storm:
    """Two homes, the ledger, and what was seen."""

    def __init__(self, root: Path, seconds: float, seed: int) -> None:
        self.root = root
        self.homes = [root / "one", root / "two"]
        self.ledger = root / "ledger"
        self.ledger.mkdir()
        self.seed = seed
        self.end = time.monotonic() + seconds
        self.codes: Counter[tuple[str, int]] = Counter()
        self.wrong: list[tuple[str, str]] = []
        self.kills = 0
        self.bystander = subprocess.Popen(["sleep", "100000"], stdin=subprocess.DEVNULL)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    # --- what the actors do ------------------------------------------------------------

    def act(self, number: int) -> None:
        """One actor: one command after the other."""
        rng = random.Random(self.seed + number)
        verbs = [verb for verb in RIGHT for _ in range(WEIGHTS.get(verb, 1))]
        while not self.is_over:
            self.command(rng.choice(verbs), rng.choice(self.homes), rng.choice(NAMES), rng)

    def command(self, verb: str, home: Path, name: str, rng: random.Random) -> None:
        words = self._words(verb, home, name, rng)
        env = {**os.environ, "HOLDFAST_HOME": str(home)}
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            said = process.communicate(timeout=COMMAND_SECONDS)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.wrong.append((HUNG, f"{verb} {home.name}/{name}"))
            return
        code = process.returncode
        self.codes[verb, code] += 1
        if code not in RIGHT[verb]:
            told = f"{verb} {home.name}/{name}: exit {code}: {said[-600:]}"
            self.wrong.append((BUGS if code == 70 else CODES, told))

    def _words(self, verb: str, home: Path, name: str, rng: random.Random) -> list[str]:
        if verb in ("run", "replace"):
            kind, seconds = rng.choice(KINDS), rng.choice(("0", "0.3", "2", "30"))
            replace = ["--replace"] if verb == "replace" else []
            grace = rng.choice(("0", "0.2", "1"))
            argv = [sys.executable, "-S", str(WORKLOAD), str(self.ledger), f"{home.name}-{name}"]
            return ["run", "-n", name, *replace, "--grace", grace, *argv, kind, seconds]
        if verb == "stop":
            return ["stop", "--grace", rng.choice(("0", "0.2", "1")), name]
        if verb == "clean":
            return ["clean", "--keep", "3"]
        if verb in ("ls", "recover", "recover --stop-orphans"):
            return verb.split()
        return [*verb.split(), name]

    # --- what happens to them ----------------------------------------------------------

    def strike(self) -> None:
        """Kill a shim, again and again."""
        rng = random.Random(self.seed - 1)
        while not self.is_over:
            time.sleep(rng.uniform(0.02, 0.5))
            home = Home(str(rng.choice(self.homes)))
            active = home.run_ids(active=True)
            if active and self._kill_shim(RunDirectory(home, rng.choice(active))):
                self.kills += 1

    def _kill_shim(self, directory: RunDirectory) -> bool:
        with contextlib.suppress(HoldfastError, OSError):
            shim = fold(directory.read_events().events).shim
            if shim is None:
                return False
            with shim.hold() as held:
                signal.pidfd_send_signal(held.fd, signal.SIGKILL)
                return True
        return False

    # --- the end -----------------------------------------------------------------------

    def judge(self) -> None:
        two = self.ledger / "two"
        if two.exists():
            self.wrong += [(TWO, line) for line in two.read_text().splitlines()]
        if os.waitpid(self.bystander.pid, os.WNOHANG | os.WUNTRACED)[0]:
            self.wrong.append((STRUCK, "the bystander"))

    def settle(self) -> int:
        """Stop everything as a user would; how many processes nobody knew of."""
        for home in self.homes:
            runs = Runs(str(home), notice=lambda _text: None)
            runs.recover()
            for info in runs.list(active=True):
                with contextlib.suppress(HoldfastError):
                    runs.get(info.id).stop(grace=0)
        return self._end_the_rest()

    def _end_the_rest(self) -> int:
        """Whoever holds a lock of the ledger: by its path among the open files."""
        left = 0
        for _run_id, member in find_stamped():
            try:
                with member.identity.hold() as held:
                    files = f"/proc/{member.identity.pid}/fd"
                    paths = [os.readlink(f"{files}/{name}") for name in os.listdir(files)]
                    if any(path.startswith(f"{self.ledger}/") for path in paths):
                        signal.pidfd_send_signal(held.fd, signal.SIGKILL)
                        left += 1
            except (HoldfastError, OSError):
                continue
        self.bystander.kill()
        self.bystander.wait()
        return left

    def report(self, left: int) -> None:
        total = sum(self.codes.values())
        print(f"{'commands':<24}{total:>7}")
        for verb in RIGHT:
            counts = sorted((code, n) for (one, code), n in self.codes.items() if one == verb)
            shown = ", ".join(f"exit {code}: {count}" for code, count in counts)
            print(f"  {verb:<22}{sum(count for _, count in counts):>7}  {shown}")
        print(f"{'shims killed':<24}{self.kills:>7}")
        print(f"{'workloads begun':<24}{_begun(self.ledger / 'ledger'):>7}")
        print(f"{'left, and unknown':<24}{left:>7}")
        for kind in (TWO, CODES, BUGS, HUNG, STRUCK):
            print(f"{kind:<24}{sum(one == kind for one, _ in self.wrong):>7}")


def _begun(ledger: Path) -> int:
    return ledger.read_text().count(" begin\n") if ledger.exists() else 0


def run(seconds: float, seed: int) -> bool:
    """Let it rage, say what was seen; whether nothing was wrong."""
    root = Path(tempfile.mkdtemp(prefix="holdfast-storm-"))
    print(f"a storm of {seconds:g} s, {ACTORS} at once, seed {seed}", flush=True)
    storm = Storm(root, seconds, seed)
    actors = [threading.Thread(target=storm.act, args=(number,)) for number in range(ACTORS)]
    actors.append(threading.Thread(target=storm.strike))
    for actor in actors:
        actor.start()
    for actor in actors:
        actor.join()
    storm.judge()
    storm.report(storm.settle())
    for kind, text in storm.wrong:
        print(f"VIOLATION, {kind}: {text}", file=sys.stderr)
    if storm.wrong:
        print(f"kept: {root}", file=sys.stderr)
    else:
        shutil.rmtree(root, ignore_errors=True)
    return not storm.wrong
