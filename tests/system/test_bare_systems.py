"""Without /proc, or without leave to write files: said in a sentence, and what to do about it."""

from __future__ import annotations

import resource
import subprocess

import pytest

from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.running import ended, info_of
from tests.system import bare_scenes

OWN_MOUNTS = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})


@pytest.mark.parametrize("mount", ["tmpfs", "proc -o subset=pid"])
def test_without_a_whole_proc_it_is_said_and_is_6(mount):
    needs("root")
    told = run_in(OWN_MOUNTS, bare_scenes.without_proc, options=mount)
    for command in ("run", "who", "check", "guard"):
        code, said = told[command]
        assert code == 6, (command, said)
        assert "/proc is not mounted here, or shows too little" in said
        assert "mount -t proc" in said
    assert told["doctor"][0] == 1, "it looks at everything, and says what fails"
    assert told["ls"][0] == 0


def _run(holdfast, most_bytes: int, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        holdfast.argv("run", *words),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
    )


@pytest.mark.parametrize("flags", [[], ["-F"]], ids=["run", "foreground"])
def test_without_leave_to_write_a_file_a_start_says_so(holdfast, flags):
    done = _run(holdfast, 0, *flags, "-n", "a", "true")
    assert done.returncode == (125 if flags else 6)
    assert "File too large" in done.stderr
    assert "ulimit -f" in done.stderr
    holdfast("status", "a", expect=3)


def test_leave_to_write_small_files_is_enough_for_a_run(holdfast):
    assert _run(holdfast, 64 << 10, "-n", "a", "sh", "-c", "exit 3").returncode == 0
    assert (ended("a").outcome, info_of("a").exit_code) == ("failed", 3)
