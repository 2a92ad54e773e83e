"""`holdfast top` in tmux beside `ls --json`, again and again, while runs change. Exits 1 on a lag.

    python -m bench.top_agreement [--runs 200] [--seconds 60]

Runs start, fail, stall, ask, are answered, queued, stopped and removed, and shims are killed and
recovered. What `ls --json` said a second before a look at the screen, and still says after it,
must be on it. A look may come while tmux draws: what is wrong must be so in a second look too.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.manage.runs import Runs
from tests.support.cli import CommandLine
from tests.support.pretend_talker import install
from tests.support.tmux import tmux
from tests.support.top_agreement import disagreements, listed_rows, shown_rows

LAG_SECONDS = 1.0


class Storm:
    """Changes runs until it is told to end."""

    def __init__(self, runs: Runs, count: int, seed: int, claude: str) -> None:
        self._runs, self._count, self._claude = runs, count, claude
        self._random = random.Random(seed)
        self._number = 0
        self.done: dict[str, int] = {}
        self.answered: Counter[str] = Counter()  # by name: it may ask anew, and be answered again
        self.is_over = False

    def start(self) -> None:
        self._number += 1
        kinds = ("long", "long", "long", "fails", "fails", "stalls", "stalls", "queued", "queued")
        kind = self._random.choice((*kinds, "asks"))
        name = f"{kind}-{self._number}"
        words = {"fails": ["sh", "-c", "exit 3"], "asks": [self._claude]}
        more: dict[str, Any] = {
            "stalls": {"idle_timeout": "3s"},
            "queued": {"queue": "q"},
            "asks": {"pty": True, "approve": "ask"},
        }.get(kind, {})
        run = self._runs.start(words.get(kind, ["sleep", "100000"]), name=name, **more)
        if kind == "asks":
            run.send(b"ask true\n")  # which it reads when it is ready

    def run(self) -> None:
        while not self.is_over:
            deeds = ("start", "start", "start", "answer", "stop", "kill", "recover", "remove")
            deed = self._random.choice(deeds)
            try:
                getattr(self, f"_{deed}")()
            except HoldfastError:  # it had ended, or is gone: that is part of a storm
                continue
            self.done[deed] = self.done.get(deed, 0) + 1
            time.sleep(0.05)  # a change now and then, not a load test

    def _start(self) -> None:
        if len(self._runs.list(active=True)) < self._count:
            self.start()

    def _answer(self) -> None:
        asking = [one for one in self._runs.list(active=True) if one.attention is not None]
        for one in asking[:1]:
            assert one.attention is not None
            if one.attention["kind"] == "permission":
                self.answered[one.name] += 1
                self._runs.get(one.id).approve(one.attention["id"])
                self._runs.get(one.id).send(b"ask true\n")

    def _stop(self) -> None:
        self._runs.get(self._random.choice(self._runs.list(active=True)).id).stop(grace=1)

    def _kill(self) -> None:
        shim = self._random.choice(self._runs.list(active=True)).shim
        if shim is not None:
            os.kill(shim["pid"], signal.SIGKILL)

    def _recover(self) -> None:
        self._runs.recover()

    def _remove(self) -> None:
        ended = self._runs.list(active=False)
        if len(ended) > 20:
            self._runs.get(ended[-1].id).remove()


def main() -> int:
    parser = argparse.ArgumentParser(description="`top` says what `ls --json` says")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-top-") as home:
        os.environ["HOLDFAST_HOME"] = home
        runs, holdfast = Runs(home), CommandLine()
        holdfast("queue", "set", "q", "--limit", "3", expect=0)
        os.environ["HOME"] = home  # the agent's own files
        storm = Storm(runs, args.runs, seed=1, claude=install(Path(home)))
        for _ in range(args.runs):
            storm.start()
        try:
            return _compare(storm, holdfast, args.runs, args.seconds)
        finally:
            storm.is_over = True
            holdfast("stop", "--all", "--grace", "1")


def _compare(storm: Storm, holdfast: CommandLine, count: int, seconds: float) -> int:
    looks, lagging, seen = 0, 0, Counter[str]()
    with tmux(120, 3 * count + 40) as window:
        window.run(holdfast, "top")
        window.wait_for("q quit")
        threading.Thread(target=storm.run, daemon=True).start()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            answered = storm.answered.copy()
            before = listed_rows(holdfast)
            time.sleep(LAG_SECONDS)  # the lag itself is what is measured
            shown, again = (shown_rows(window.screen()) for _ in range(2))
            after = listed_rows(holdfast)
            for name in storm.answered - answered:
                before.pop(name, None)
            wrong = [
                one
                for one in disagreements(before, shown, after)
                if one in disagreements(before, again, after)
            ]
            looks, lagging = looks + 1, lagging + bool(wrong)
            seen.update(shown.values())
            for one in wrong[:3]:
                print(f"after {LAG_SECONDS:g} s: {one}")
        storm.is_over = True
    print(f"{looks} looks at {len(shown)} rows, {lagging} lagged; {storm.done}")
    print(f"what was shown: {dict(seen)}")
    return 1 if lagging or not looks else 0


if __name__ == "__main__":
    sys.exit(main())
