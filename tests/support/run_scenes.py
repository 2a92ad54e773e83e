"""Scenes with runs, played in a place of the kernel lab: another user, other file systems."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from holdfast.errors import Unavailable
from holdfast.manage.runs import Runs
from tests.support import fuse_server, kernel_lab


def _holdfast(*words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def start_a_run(home: str) -> tuple[int, str]:
    """The exit code and stderr of a start in that home."""
    return _holdfast("run", "true", HOLDFAST_HOME=home)


def start_with_few_processes(home: str, more: int, words: list[str]) -> tuple[int, str]:
    """The exit code and stderr of a start by a user who may have so many processes beside us."""
    resource.setrlimit(resource.RLIMIT_NPROC, (1 + more, 1 + more))
    return _holdfast("run", *words, HOLDFAST_HOME=home)


def start_in_library_with_few_processes(home: str, more: int) -> str:
    """What the library says of a start by such a user."""
    resource.setrlimit(resource.RLIMIT_NPROC, (1 + more, 1 + more))
    try:
        Runs(home).start(["true"], name="a")
    except Unavailable as error:
        return str(error)
    return "it was started"


def runs_on_tmpfs(path: str) -> list[tuple[int, str]]:
    """A start, and a wait for its end, on a tmpfs."""
    home = Path(path) / "tmpfs"
    home.mkdir()
    options = "size=16m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(home)], check=True)
    return [
        _holdfast(*words, HOLDFAST_HOME=str(home))
        for words in (("run", "-n", "a", "true"), ("wait", "a"))
    ]


def starts_on_fuse(path: str, kind: str) -> list[tuple[int, str]]:
    """A start on a FUSE file system, and one that says that this is wanted."""
    home = Path(path) / "fuse"
    home.mkdir()
    with fuse_server.mounted(str(home), kind):
        return [
            _holdfast("run", "true", HOLDFAST_HOME=str(home)),
            _holdfast("run", "true", HOLDFAST_HOME=str(home), HOLDFAST_ALLOW_REMOTE="1"),
        ]


_JUMPING = """
import sys, time
real = time.time
began = time.monotonic()
time.time = lambda: real() + ({jump} if time.monotonic() - began > 0.5 else 0.0)
from holdfast.cli import main
sys.exit(main(sys.argv[1:]))
"""


def timeout_under_a_jump(home: str, jump_seconds: float) -> tuple[float, str]:
    """A run with a timeout of 2 s, whose shim sees the time of day jump; how long it lived."""
    env = {**os.environ, "HOLDFAST_HOME": home}
    script = _JUMPING.format(jump=jump_seconds)
    words = ["run", "-F", "-n", "a", "--timeout", "2", "--grace", "0", "sleep", "600"]
    began = time.monotonic()
    # The shim is forked from this process, so its clock is the patched one.
    subprocess.run([sys.executable, "-c", script, *words], env=env, check=False, timeout=60)
    return time.monotonic() - began, str(Runs(home).get("a").info().outcome)


def start_in_a_login_session(home: str, group: str) -> list[tuple[int, str]]:
    """Starts from a session scope of a systemd that kills it at logout; with and without -q.

    `group` is a directory of systemd's own control group hierarchy.
    """
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    os.makedirs("/run/systemd/system")
    Path("/run/systemd/logind.conf.d").mkdir()
    settings = "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=\n"
    Path("/run/systemd/logind.conf.d/kill.conf").write_text(settings)
    scope = Path(group) / "user.slice" / "session-3.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.procs").write_text(str(os.getpid()))
    try:
        start = ("run", "-n", "a", "true")
        return [
            _holdfast(*words, HOLDFAST_HOME=home)
            for words in (start, ("wait", "a"), (*start[:1], "-q", *start[1:]), ("wait", "a"))
        ]
    finally:
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))


def call(home: str, calls: list[list[str]]) -> list[tuple[int, str]]:
    """The exit code and stderr of each of these commands, one after the other."""
    return [_holdfast(*words, HOLDFAST_HOME=home) for words in calls]


def call_and_stay(home: str, calls: list[list[str]]) -> None:
    """The same, announced; the place goes on to exist."""
    kernel_lab.announce(call(home, calls))
    time.sleep(600)
