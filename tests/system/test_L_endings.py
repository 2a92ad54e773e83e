"""Endings: a closed terminal, each signal, core dumps, the OOM killer, and what a run lasts for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cgroups import memory_cgroup
from tests.support.features import needs
from tests.support.running import (
    ended,
    events_of,
    info_of,
    is_alive,
    root_pid,
    shim_pid,
    stop,
    wait_for_output,
    workload_pid,
)
from tests.support.waiting import eventually, wait_for_exit

# L8


@contextlib.contextmanager
def in_terminal(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A session leader with a terminal of its own; closing the descriptor hangs it up."""
    main, end = os.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        command,
        stdin=end,
        stdout=end,
        stderr=end,
        preexec_fn=take_terminal,  # noqa: PLW1509 - the tests have one thread
    ) as process:
        os.close(end)
        try:
            yield process, main
        finally:
            with contextlib.suppress(OSError):
                os.close(main)
            process.kill()


def _goes_on(name: str, tick: Path) -> None:
    before = tick.stat().st_size
    eventually(lambda: tick.stat().st_size > before, why=f"{name} goes on")
    assert info_of(name).state == "running"


def _ticking(tick: Path) -> list[str]:
    return ["sh", "-c", f"while echo x >>{tick}; do sleep 0.05; done"]


def test_L8_the_run_goes_on_when_the_terminal_closes(holdfast, tmp_path):
    tick = tmp_path / "tick"
    start = holdfast.argv("run", "-n", "a", *_ticking(tick))
    # The shell stays, as the user's own does, until its terminal is gone.
    with in_terminal("bash", "-c", f"{shlex.join(start)}; sleep 600; true") as (shell, terminal):
        eventually(lambda: tick.exists() and info_of("a").state == "running")
        os.close(terminal)
        shell.wait(20)
        assert shell.returncode == -signal.SIGHUP
        _goes_on("a", tick)
    stop(holdfast, "a")


def test_L8_a_closed_terminal_leaves_a_foreground_run_alone(holdfast, tmp_path):
    tick = tmp_path / "tick"
    with in_terminal(*holdfast.argv("run", "-F", "-n", "a", *_ticking(tick))) as (us, terminal):
        eventually(lambda: tick.exists() and info_of("a").state == "running")
        os.close(terminal)
        assert us.wait(20) == 129
        _goes_on("a", tick)
    stop(holdfast, "a")


def test_L8_sighup_to_everybody_of_the_session_harms_no_run(holdfast, tmp_path):
    tick = tmp_path / "tick"
    with in_terminal(*holdfast.argv("run", "-F", "-n", "a", *_ticking(tick))) as (us, _terminal):
        eventually(lambda: tick.exists() and info_of("a").state == "running")
        shim = shim_pid("a")
        # Nobody of the run is in the session, its group or on its terminal.
        # The root: the `sleep` of its loop may be gone before we ask for its session.
        for pid in (shim, info_of("a").attempts[-1]["root"]["pid"]):
            assert os.getsid(pid) != us.pid
            assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4] == "0"
        for pid in _session(us.pid):
            os.kill(pid, signal.SIGHUP)
        assert us.wait(20) == 129
        os.kill(shim, signal.SIGHUP)  # and the shim does not mind
        _goes_on("a", tick)
    stop(holdfast, "a")


def test_L8_neither_shim_nor_workload_holds_anything_of_the_caller(holdfast):
    main, end = os.openpty()
    inherited, theirs = os.pipe()
    with subprocess.Popen(
        holdfast.argv("run", "-n", "a", "sleep", "600"),
        stdin=end,
        stdout=end,
        stderr=end,
        pass_fds=[theirs],
    ) as start:
        assert start.wait(30) == 0
    for fd in (end, theirs):
        os.close(fd)
    for pid in (shim_pid("a"), workload_pid("a")):
        held = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert held["0"] == "/dev/null"
        assert not [where for where in held.values() if "pts" in where or "ptmx" in where]
    assert [os.readlink(f"/proc/{shim_pid('a')}/fd/{fd}") for fd in "012"] == ["/dev/null"] * 3
    assert os.read(inherited, 1) == b""  # nobody has the other end any more
    for fd in (main, inherited):
        os.close(fd)
    stop(holdfast, "a")


def _session(leader: int) -> list[int]:
    members = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.getsid(int(name)) == leader:
                members.append(int(name))
    return members


# L9

SIGNALS = ["HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV"]
SIGNALS += ["USR2", "PIPE", "ALRM", "TERM", "XCPU", "XFSZ", "VTALRM", "PROF", "SYS"]
FROM_OUTSIDE = {"HUP", "INT", "QUIT", "KILL", "USR1", "USR2", "TERM"}
STRIKE = """\
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
number = int(sys.argv[1])
if number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize("codes", [(0, 1), (2, 3), (126, 127), (128, 137), (143, 255)])
def test_L9_every_exit_code_is_the_runs(holdfast, codes):
    for code in codes:
        holdfast("run", "-n", f"n{code}", "sh", "-c", f"exit {code}", expect=0)
        info = ended(f"n{code}")
        assert (info.exit_code, info.signal) == (code, None)
        assert info.outcome == ("failed" if code else "succeeded")
        assert (info.core_dumped, info.oom_killed, info.ended_by) == (False, False, "itself")
        assert holdfast("wait", f"n{code}").returncode == code


@pytest.mark.parametrize("name", SIGNALS)
def test_L9_each_signal_is_told_apart(holdfast, name):
    number = getattr(signal, f"SIG{name}")
    # No shell of this machine may turn it into an exit code: the process strikes itself.
    words = [sys.executable, "-S", "-c", STRIKE, str(int(number))]
    holdfast("run", "-n", "a", *words, expect=0)
    info = ended("a")
    assert (info.signal, info.exit_code, info.outcome) == (number, None, "killed")
    assert info.core_dumped is False
    assert info.oom_killed is False
    assert info.ended_by == ("outside" if name in FROM_OUTSIDE else "itself")
    assert f"SIG{name}" in info.evidence
    assert holdfast("wait", "a").returncode == 128 + number


OWN_DOING = {
    "PIPE": "import os; r, w = os.pipe(); os.close(r); os.write(w, b'x')",
    "ALRM": "signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
    "XFSZ": "resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1)); open('big', 'wb').write(b'xx')",
}


@pytest.mark.parametrize("name", sorted(OWN_DOING))
def test_L9_what_the_kernel_sends_for_a_process_own_doing_is_its_own(holdfast, tmp_path, name):
    begin = f"import resource, signal; signal.signal(signal.SIG{name}, signal.SIG_DFL)"
    words = [sys.executable, "-S", "-c", f"{begin}; {OWN_DOING[name]}"]
    holdfast("run", "-n", "a", "-C", tmp_path, *words, expect=0)
    info = ended("a")
    assert (info.signal, info.ended_by) == (getattr(signal, f"SIG{name}"), "itself")


def test_L9_a_core_dump_is_said(holdfast, tmp_path):
    # Where the kernel is told to pipe cores away, the flag is set all the same.
    script = "ulimit -c unlimited; kill -ABRT $$"
    holdfast("run", "-n", "a", "-C", tmp_path, "sh", "-c", script, expect=0)
    info = ended("a")
    if info.core_dumped is False:
        pytest.skip(f"no cores here: {Path('/proc/sys/kernel/core_pattern').read_text()!r}")
    assert (info.signal, info.core_dumped, info.ended_by) == (signal.SIGABRT, True, "itself")
    done = holdfast("wait", "a", expect=134)
    assert "core dumped" in done.stdout


GREEDY = "held = []\nwhile True: held.append(bytearray(1 << 20))"


@pytest.mark.parametrize("who", ["the whole run", "the workload alone"])
def test_L9_an_oom_kill_is_told_from_any_other(holdfast, who):
    needs("root", "memory_cgroup")
    with memory_cgroup(64 << 20) as group:
        greedy = [sys.executable, "-S", "-c", GREEDY]
        if who == "the whole run":
            enter = f"echo $$ >{group.path}/cgroup.procs; exec "
            start = holdfast.argv("run", "-n", "a", *greedy)
            done = subprocess.run(["sh", "-c", enter + shlex.join(start)], timeout=60)
            assert done.returncode == 0
        else:
            script = f"echo $$ >{group.path}/cgroup.procs; read go; exec {shlex.join(greedy)}"
            holdfast("run", "-n", "a", "--stdin", "pipe", "sh", "-c", script, expect=0)
            eventually(lambda: root_pid("a") in group.pids())
            eventually(lambda: _members_were_seen("a"), why="the shim has looked at it")
            holdfast("send", "a", "go", expect=0)
        info = ended("a")
        assert (info.signal, info.outcome, info.oom_killed) == (9, "out_of_memory", True), info
        assert info.ended_by == "outside"
        assert "OOM killer" in info.evidence
        assert holdfast("wait", "a").returncode == 137


def _members_were_seen(name: str) -> bool:
    return bool(events_of(name, "members_seen"))


def test_L9_a_sigkill_from_outside_is_not_taken_for_the_oom_killer(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    os.kill(workload_pid("a"), signal.SIGKILL)
    info = ended("a")
    assert (info.outcome, info.ended_by, info.signal) == ("killed", "outside", 9)
    # Null only where the machine's counter grew meanwhile, because of somebody else.
    assert info.oom_killed in (False, None)


# L11


@pytest.mark.parametrize("wrapper", ["setsid {}", "sh -c '{} & sleep 0.3'"])
def test_L11_the_run_lasts_as_long_as_the_named_workload(holdfast, tmp_path, wrapper):
    script = tmp_path / "worker"
    go = tmp_path / "go"
    os.mkfifo(go)
    script.write_text(f"#!/bin/bash\necho working\nread line <{go}\necho done\nexit 7\n")
    script.chmod(0o755)
    words = ["sh", "-c", "exec " + wrapper.format(script)]
    holdfast("run", "-n", "a", "--workload", "worker", *words, expect=0)
    wait_for_output("a", b"working")
    pid = eventually(lambda: _workload_called("a", "worker"), why="the workload is found")
    eventually(lambda: not _root_lives("a"), why="the root has exited")
    assert info_of("a").state == "running"
    assert is_alive(pid)
    with open(go, "w") as fifo:
        fifo.write("go\n")
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 7)


def _workload_called(name: str, comm: str) -> int | None:
    workload = info_of(name).workload
    return workload["pid"] if workload is not None and workload["comm"] == comm else None


def _root_lives(name: str) -> bool:
    return not events_of(name, "root_exited")


@pytest.mark.parametrize("what", ["keep", "stop"])
def test_L11_leftovers_are_kept_or_stopped_as_asked(holdfast, tmp_path, what):
    pids = tmp_path / "pids"
    script = f"setsid sleep 600 & echo $! >>{pids}; sleep 600 & echo $! >>{pids}; exit 5"
    holdfast("run", "-n", "a", "--leftovers", what, "bash", "-c", script, expect=0)
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 5)
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    if what == "stop":
        assert [pid for pid in left if is_alive(pid)] == []
        assert info.cleanup is not None
        assert (info.cleanup["signalled"], info.cleanup["complete"]) == (2, True)
        return
    assert [pid for pid in left if is_alive(pid)] == left
    for pid in left:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "setsid sh -c 'echo $$ >{pids}; exec sleep 600' & read x <{go}; exit 5"],
        ["setsid", "sh", "-c", "sleep 600 & echo $! >{pids}; exit 5"],
        ["setsid", "sh", "-c", "setsid sleep 600 & echo $! >{pids}; exit 5"],
        ["setsid", "--wait", "sh", "-c", "sleep 600 & echo $! >{pids}; exit 5"],
    ],
    ids=["shell", "setsid", "setsid twice", "setsid that waits"],
)
def test_L11_a_daemon_that_a_short_command_leaves_is_a_leftover(holdfast, tmp_path, command):
    pids, go = tmp_path / "pids", tmp_path / "go"
    os.mkfifo(go)
    # Both ends: whoever writes a line first need not wait for a reader.
    fifo = os.open(go, os.O_RDWR)
    words = [word.format(pids=pids, go=go) for word in command]
    holdfast("run", "-n", "a", *words, expect=0)
    eventually(lambda: pids.exists() and pids.read_text().strip(), why="the daemon lives")
    os.write(fifo, b"go\n")
    info = ended("a")
    os.close(fifo)
    assert (info.outcome, info.exit_code) == ("failed", 5)
    assert info.cleanup is not None
    assert (info.cleanup["signalled"], info.cleanup["complete"]) == (1, True)
    assert not is_alive(int(pids.read_text()))


def test_L11_what_setsid_leaves_is_the_root_whatever_becomes_of_its_programs(holdfast, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    fifo = os.open(go, os.O_RDWR)
    stage = f"head -n 1 {go}"
    words = ["setsid", "sh", "-c", f"{stage}; {stage}; exit 6"]
    holdfast("run", "-n", "a", *words, expect=0)
    eventually(lambda: not _root_lives("a"), why="setsid has exited")
    os.write(fifo, b"one\n")
    wait_for_output("a", b"one")
    # The shim of a run whose root is gone dies between two programs of what it left.
    shim = shim_pid("a")
    os.kill(shim, signal.SIGKILL)
    wait_for_exit(shim, why="the shim is gone")
    assert info_of("a").state == "orphaned"
    holdfast("recover", expect=0)
    assert info_of("a").state == "running"
    os.write(fifo, b"two\n")
    info = ended("a")
    os.close(fifo)
    assert (info.outcome, info.exit_code) == ("failed", 6)
    assert wait_for_output("a", b"two") == b"one\ntwo\n"


def test_L11_the_code_of_a_short_command_behind_setsid_is_the_runs(holdfast):
    for code in (0, 3):
        done = holdfast("run", "-F", "-n", f"a{code}", "setsid", "sh", "-c", f"exit {code}")
        assert done.returncode == code
        assert ended(f"a{code}").exit_code == code
