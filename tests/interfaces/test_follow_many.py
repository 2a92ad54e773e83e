"""`logs -f --all`: many runs are followed with one inotify instance."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from tests.support.running import run_of
from tests.support.waiting import eventually


def _instances(pid: int) -> int:
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found += os.readlink(one) == "anon_inode:inotify"
    return found


def test_many_runs_are_followed_with_one_instance(holdfast, tmp_path):
    gate = tmp_path / "gate"
    script = f"echo begun; until [ -e {gate} ]; do sleep 0.05; done; echo over"
    names = [f"a{number}" for number in range(5)]
    for name in names:
        holdfast("run", "-n", name, "sh", "-c", script, expect=0)
    with subprocess.Popen(holdfast.argv("logs", "-f", "--all"), stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        first = [follower.stdout.readline().split()[-1] for _ in names]
        assert first == [b"begun"] * len(names)
        eventually(lambda: _instances(follower.pid) == 1, 30, "it waits")
        held = [_instances(follower.pid) for _ in range(20)]
        assert max(held) == 1
        gate.touch()
        rest = follower.stdout.read().splitlines()
        assert follower.wait(60) == 0
    assert [line.split()[-1] for line in rest] == [b"over"] * len(names)
    assert all(run_of(name).output() == b"begun\nover\n" for name in names)
