"""300 runs at once of one ordinary user with default kernel limits: no wrong outcome.

Runs with `--idle-timeout` that write, to stdout or stderr alone, or fall silent; with
`--done-when`; that fail; pretended agents; and four real ones where they are installed. As root it
becomes an unprivileged user first, with 1024 descriptors. Each ends as it was told to end, and not
before: whoever is taken for silent, or is not seen to be done, is a wrong outcome.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
UID = 61234  # nobody's: the kernel counts what a user has
DESCRIPTORS = 1024
AT_ONCE = 4  # starts
REAL_AGENTS = ("claude", "codex", "gemini", "claude")
SLACK_SECONDS = 180.0


class Kind(NamedTuple):
    """Runs of one sort, and how each has to end."""

    share: int  # of 300
    options: tuple[str, ...]
    script: str  # {seconds}, {half}, {pause}: how long, and between two lines
    outcome: str
    exit_code: int | None
    least: str  # it must not end before: "seconds", "half", "idle" or "nothing"


def _until(time: str, does: str) -> str:
    """Shell text that does it again and again, for so long."""
    loop = f"while [ $(date +%s) -lt $end ]; do {does}; sleep {{pause}}; done; "
    return f"end=$(($(date +%s) + {{{time}}})); {loop}"


_IDLE = ("--idle-timeout", "{idle}s")
KINDS = {
    "writes": Kind(90, _IDLE, _until("seconds", "echo tick"), "succeeded", 0, "seconds"),
    "writes stderr": Kind(
        30,
        (*_IDLE, "--split-stderr"),
        _until("seconds", "echo tick >&2"),
        "succeeded",
        0,
        "seconds",
    ),
    "falls silent": Kind(30, _IDLE, "echo tick; sleep 100000", "stalled", None, "idle"),
    "is done": Kind(
        60,
        ("--done-when", "all done", *_IDLE),
        _until("half", "echo tick") + "echo all done; sleep 100000",
        "completed",
        None,
        "half",
    ),
    "fails": Kind(30, _IDLE, _until("half", "echo tick") + "exit 7", "failed", 7, "half"),
    "agent": Kind(
        40,
        ("--agent", "claude"),
        "sleep {half}; exec {claude} -p --output-format stream-json --verbose linger",
        "completed",
        None,
        "half",
    ),
    "agent fails": Kind(
        20,
        ("--agent", "claude"),
        "sleep {half}; exec {claude} -p --output-format stream-json --verbose fail",
        "failed",
        None,
        "half",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long the longest last")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside is not None:
        return 0 if Crowd(Path(args.inside), args.runs, args.seconds).is_well() else 1
    root = Path(tempfile.mkdtemp(prefix="holdfast-crowd-", dir="/var/tmp"))  # codex: not in /tmp
    try:
        return _as_ordinary_user(root, args)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _as_ordinary_user(root: Path, args: argparse.Namespace) -> int:
    prefix: list[str] = []
    if os.geteuid() == 0:
        os.chown(root, UID, UID)
        prefix = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        prefix += ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        # setpriv itself may still go anywhere: what comes after it may not.
        prefix += ["sh", "-c", 'exec "$0" "$@"']
    python = _reachable_python(prefix)
    words = ["--inside", str(root), "--runs", str(args.runs), "--seconds", str(args.seconds)]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(root),
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOLDFAST_HOME": str(root / "state"),
        "HOLDFAST_AGENTS_DIR": os.environ.get("HOLDFAST_AGENTS_DIR", f"{cache}/holdfast-agents"),
    }
    done = subprocess.run(
        [*prefix, python, "-m", "bench.crowd", *words],
        env=env,
        cwd=root,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS)),
        check=False,
    )
    return done.returncode


def _reachable_python(prefix: list[str]) -> str:
    """An interpreter that this user may run: ours may be in somebody's home."""
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        tried = subprocess.run([*prefix, python, "-c", test], capture_output=True, check=False)
        if tried.returncode == 0:
            return python
    raise SystemExit(f"uid {UID} can reach no Python 3.11: try as an ordinary user")


class Crowd:
    """All runs, as one user, and how they ended."""

    def __init__(self, root: Path, runs: int, seconds: int) -> None:
        from tests.support.pretend_claude import install

        self.root = root
        self.seconds = seconds
        self.idle = max(10, min(30, seconds // 4))
        (root / "bin").mkdir()
        self.figures = {
            "seconds": seconds,
            "half": seconds // 2,
            "idle": self.idle,
            "pause": max(1, self.idle // 5),
            "nothing": 0,
            "claude": shlex.quote(install(root / "bin")),
        }
        self.kinds: dict[str, str] = {}  # by name of the run
        for kind, one in KINDS.items():
            for number in range(max(1, round(one.share * runs / 300))):
                self.kinds[f"{kind.replace(' ', '-')}-{number}"] = kind
        self.wrong: list[str] = []
        self.most_at_once = 0
        self.degraded: Counter[str] = Counter()

    def is_well(self) -> bool:
        """Start them all, wait, compare."""
        began = time.monotonic()
        with StubModel() as port, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._start, self.kinds))
            real = self._start_real(port) if port is not None else []
            print(f"{len(self.kinds) + len(real)} started in {time.monotonic() - began:.0f} s")
            sys.stdout.flush()
            self._await_end()
            self._judge(real)
        return not self.wrong

    def _start(self, name: str) -> None:
        kind = KINDS[self.kinds[name]]
        options = [word.format(**self.figures) for word in kind.options]
        self._run(name, [*options, "sh", "-c", kind.script.format(**self.figures)])

    def _run(self, name: str, words: list[str], env: dict[str, str] | None = None) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "run", "-n", name, *words],
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            self.wrong.append(f"{name}: start: exit {done.returncode}: {done.stderr[-300:]}")

    def _start_real(self, port: int) -> list[str]:
        """Real agents that answer after a while; which."""
        from tests.agents.lab import executable, sealed_command

        started = []
        for number, agent in enumerate(REAL_AGENTS):
            if not os.access(executable(agent), os.X_OK):
                continue
            name = f"real-{agent}-{number}"
            prompt = f"[[delay: {self.figures['half']}]] say hi"
            home = self.root / f"home-{number}"
            argv, env = sealed_command(agent, prompt, port, home)
            self._run(name, ["--agent", agent, "--", *argv], env)
            started.append(name)
        return started

    # --- while they run, and after -------------------------------------------------------

    def _await_end(self) -> None:
        from holdfast.manage.runs import Runs

        runs = Runs()
        deadline = time.monotonic() + self.seconds + self.idle + SLACK_SECONDS
        while time.monotonic() < deadline:
            active = runs.list(active=True)
            self.most_at_once = max(self.most_at_once, len(active))
            for info in active:
                for sense in ((info.to_json().get("watching") or {}).get("degraded")) or ():
                    self.degraded[sense] += 1
            if not active:
                return
            time.sleep(max(1.0, self.seconds / 30))
        for info in runs.list(active=True):
            self.wrong.append(f"{info.name}: still {info.state}: {info.evidence}")
            runs.get(info.id).stop(grace=0)

    def _judge(self, real: list[str]) -> None:
        from holdfast.manage.runs import Runs

        seen: Counter[tuple[str, str]] = Counter()
        faults = 0
        runs = Runs()
        for info in runs.list(active=False):
            document = info.to_json()
            kind = self.kinds.get(info.name or "", "real agent")
            seen[kind, str(info.outcome)] += 1
            events = runs.get(info.id).directory.read_events().events
            told = [event.facts for event in events if event.kind == "fault"]
            faults += len(told)
            self.wrong += [f"{info.name}: fault: {fault}" for fault in told]
            self._judge_one(info.name or info.id, kind, document)
        self._report(seen, faults, real)

    def _judge_one(self, name: str, kind: str, document: dict[str, Any]) -> None:
        got = (document["outcome"], document["exit_code"])
        said = f"{name}: {got[0]} {got[1]}, after {document['duration_seconds']} s"
        why = f": {document['evidence']}"
        if kind == "real agent":
            if got[0] not in ("succeeded", "completed"):
                self.wrong.append(said + why)
            return
        wanted = KINDS[kind]
        if got[0] != wanted.outcome or wanted.exit_code not in (None, got[1]):
            self.wrong.append(f"{said}, not {wanted.outcome}{why}")
        elif (document["duration_seconds"] or 0) < int(self.figures[wanted.least]) - 1:
            self.wrong.append(f"{said}, too early{why}")

    def _report(self, seen: Counter[tuple[str, str]], faults: int, real: list[str]) -> None:
        for (kind, outcome), count in sorted(seen.items()):
            print(f"{kind:<16}{outcome:<14}{count:>5}")
        print(f"{'most at once':<30}{self.most_at_once:>5}")
        print(f"{'real agents':<30}{len(real):>5}")
        for sense, count in self.degraded.items():
            print(f"{'looks without ' + sense:<30}{count:>5}")
        print(f"{'faults':<30}{faults:>5}")
        print(f"{'wrong':<30}{len(self.wrong):>5}")
        for text in self.wrong:
            print(f"WRONG {text}", file=sys.stderr)


class StubModel:
    """A pretended model for real agents, in this block; None where there is none."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> int | None:
        from tests.agents.lab import STUB, executable

        if not any(os.access(executable(agent), os.X_OK) for agent in REAL_AGENTS):
            print("real agents are not installed, or not to be reached: left out")
            return None
        self._process = subprocess.Popen(
            [sys.executable, str(STUB), "0"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


if __name__ == "__main__":
    sys.exit(main())
