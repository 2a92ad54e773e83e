"""Control groups of the real kernel: found where they are mounted, and what they count."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.process.cgroups import ControlGroup
from tests.support.cgroups import CGroup, memory_cgroup, mount_point
from tests.support.features import needs
from tests.support.kernel_lab import ROOT

LIMIT_BYTES = 64 << 20
# In a mount namespace of its own: the group appears at another place, and nothing at the usual one.
ELSEWHERE = """
set -e
mount --bind "$1" "$2"
mount -t tmpfs none /sys/fs/cgroup
exec "$3" -c "$4" "$5"
"""
LOOK = """
import json, sys
from holdfast.process.cgroups import ControlGroup
group = ControlGroup.of(sys.argv[1].encode())
print(json.dumps(group and [group.memory_max_bytes(), group.oom_kills()]))
"""


@pytest.fixture
def group():
    needs("root", "memory_cgroup")
    with memory_cgroup(LIMIT_BYTES) as made:
        yield made


def _text(group: CGroup, below: str = "") -> str:
    """As /proc/<pid>/cgroup would have it."""
    is_v1 = (group.path / "memory.limit_in_bytes").exists()
    point = mount_point("memory")
    assert point is not None
    name = f"{below}/{group.path.relative_to(point)}"
    return f"4:memory:{name}\n0::/\n" if is_v1 else f"0::{name}\n"


def test_the_figures_of_a_group_are_what_the_kernel_counts(group):
    enter = f"echo $$ >{group.path}/cgroup.procs; echo; exec sleep 600"
    child = subprocess.Popen(["sh", "-c", enter], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        found = ControlGroup.of(Path(f"/proc/{child.pid}/cgroup").read_bytes())
        assert found is not None
        assert found.path.endswith(group.path.name)
        figures = found.figures()
        assert figures is not None
        assert (figures.memory_max_bytes, figures.oom_kills) == (LIMIT_BYTES, 0)
        assert figures.memory_bytes is not None
        assert 0 < figures.memory_bytes < LIMIT_BYTES
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("name", ["plain", "with a space"])
def test_a_group_is_found_where_the_mount_table_says(group, tmp_path, name):
    needs("pid_namespace")  # and with it a mount namespace
    place = tmp_path / name
    place.mkdir()
    words = [str(group.path), str(place), sys.executable, LOOK, _text(group)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", ELSEWHERE, "sh", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [LIMIT_BYTES, 0]


def test_the_root_of_a_hierarchy_is_the_machine_and_of_no_run():
    found = ControlGroup.of(b"4:memory:/\n0::/\n" if _has_v1() else b"0::/\n")
    assert found is None or found.figures() is None


def _has_v1() -> bool:
    return b":memory:" in Path("/proc/self/cgroup").read_bytes()
