"""Pid files that other programs wrote: whose number it is, and when equal start times prove it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from holdfast.errors import AlreadyRunning
from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from holdfast.process.pidfile_format import is_of_this_boot
from holdfast.process.verdict import Proof, Verdict
from tests.support import pidfile_scenes as scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.places import sleeper

A_DAY = 86400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.pid"


# --- the caller's own number ------------------------------------------------------------------


@pytest.mark.parametrize("form", ["$$", "$$ 1", '{\\"pid\\": $$}', "$$ 1500000000.25"])
def test_a_program_that_wrote_its_own_pid_and_became_the_guard_starts(holdfast, path, form):
    """A container has the same low PID at each start; its legacy file must not block it."""
    guard = shlex.join(holdfast.argv("guard", path, "cat", path))
    script = f'echo "{form}" >{shlex.quote(str(path))}; exec {guard}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pid, token = done.stdout.split()
    assert int(pid) == ProcessIdentity.parse(token).pid, "the guard wrote its own record over it"


def test_a_library_program_may_hold_the_file_in_which_it_wrote_its_pid(path):
    path.write_text(f"{os.getpid()}\n")
    with PidFile(path).hold():
        assert PidFile(path).read() == ProcessIdentity.current()


def test_the_pid_of_the_guards_parent_is_another_process(holdfast, path):
    guard = shlex.join(holdfast.argv("guard", path, "true"))
    script = f"echo $$ >{shlex.quote(str(path))}; {guard}; exit $?"
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 4


# --- start ticks without a boot ---------------------------------------------------------------


def ticks_of(pid: int) -> int:
    ticks = ProcessIdentity.of(pid).start_ticks
    assert ticks is not None
    return ticks


def test_equal_ticks_in_a_file_of_this_boot_are_the_same_process(holdfast, path):
    with sleeper() as process:
        for form in ("{} {}\n", '{{"pid": {}, "startToken": "{}"}}'):
            path.write_text(form.format(process.pid, ticks_of(process.pid)))
            look = PidFile(path).read().look()
            assert (look.verdict, look.proof) == (Verdict.SAME, Proof.TICKS)
            assert "weaker" in look.evidence
            assert "weaker" in holdfast("check", path, expect=0).stdout
            with pytest.raises(AlreadyRunning) as caught, PidFile(path).hold():
                pass
            assert caught.value.exit_code == 4
        holdfast("signal", "TERM", path, expect=0)
        assert process.wait(30) == -signal.SIGTERM
    assert PidFile(path).read().verdict() is Verdict.GONE


def test_equal_ticks_in_an_older_file_prove_nothing(holdfast, path):
    """Such a file was copied or kept over a reboot: its content is older than the process."""
    with sleeper() as process:
        path.write_text(f"{process.pid} {ticks_of(process.pid)}\n")
        os.utime(path, (1e9, 1e9))
        assert PidFile(path).read().verdict() is Verdict.UNKNOWN
        holdfast("check", path, expect=12)
        holdfast("signal", "KILL", path, expect=4)
        holdfast("guard", path, "true", expect=4)
        os.utime(path, (time.time() + A_DAY, time.time() + A_DAY))
        assert PidFile(path).read().verdict() is Verdict.SAME, "the change time is before that"
        assert process.poll() is None


def test_a_time_namespace_changes_nothing_about_it(path):
    needs("root", "time_namespace")
    with sleeper() as process:
        path.write_text(f"{process.pid} {ticks_of(process.pid)}\n")
        for offset in (86400 * 400, -30):
            place = Place(pid_namespace=False, boottime_offset_seconds=offset)
            assert run_in(place, scenes.read, path=str(path))["verdict"] == "SAME"


@pytest.mark.parametrize(
    ("written_at", "believed"),
    [
        (1_000_000.0, False),  # before this boot
        (2_000_030.0, False),  # since the boot, and before the process that it names
        (2_000_099.0, True),  # at its start, by a coarse clock
        (2_000_300.0, True),
        (2_000_900.0, False),  # not yet: the clock was set back since
    ],
)
def test_a_file_is_of_this_boot_when_it_was_written_since_the_process_started(written_at, believed):
    ticks = 100 * os.sysconf("SC_CLK_TCK")
    assert is_of_this_boot(ticks, written_at, booted_at=2e6, now=2_000_600.0) is believed


# --- creation times ---------------------------------------------------------------------------


def test_a_creation_time_as_psutil_writes_it_is_read(holdfast, path):
    with sleeper() as process:
        created = psutil.Process(process.pid).create_time()
        path.write_text(f"{process.pid} {created}\n")
        look = PidFile(path).read().look()
        assert (look.verdict, look.proof) == (Verdict.SAME, Proof.CREATE_TIME)
        assert "weaker" in look.evidence
        with pytest.raises(AlreadyRunning), PidFile(path).hold():
            pass
        holdfast("signal", "TERM", path, expect=0)
        assert process.wait(30) == -signal.SIGTERM
    assert PidFile(path).read().verdict() is Verdict.GONE


def test_a_creation_time_of_another_process_is_told(path):
    with sleeper() as process:
        created = psutil.Process(process.pid).create_time()
        path.write_text(f"{process.pid} {created - 3600.37:.2f}\n")
        assert PidFile(path).read().verdict() is Verdict.RECYCLED
        path.write_text(f"{process.pid} {created - 3600:.2f}\n")  # the clock may have been set
        assert PidFile(path).read().verdict() is Verdict.UNKNOWN
        with pytest.raises(AlreadyRunning), PidFile(path).hold():
            pass


def test_a_creation_time_in_whole_seconds_can_disprove_and_not_prove(path):
    with sleeper() as process:
        created = int(psutil.Process(process.pid).create_time())
        path.write_text(f"{process.pid} {created}\n")
        assert PidFile(path).read().verdict() is Verdict.UNKNOWN
        path.write_text(f"{process.pid} {created - 4000}\n")
        assert PidFile(path).read().verdict() is Verdict.RECYCLED
