"""How much memory there is: of a v2 hierarchy as its kernel writes it, and what is learned."""

from __future__ import annotations

import pytest

from holdfast.manage.queueing.needs import percentile
from holdfast.process import cgroups
from holdfast.process.cgroups import ControlGroup, GroupMemory
from holdfast.process.memory import MemoryBound, MemoryBounds

G, M = 1 << 30, 1 << 20
STAT = "anon 900\nfile 70\ninactive_file 40\nactive_file 20\nslab_reclaimable 5\nslab 9\n"


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """Files as those of /sys/fs/cgroup/user.slice/job."""
    monkeypatch.setattr(cgroups, "_USUAL_MOUNT", str(tmp_path))

    def group(path: str, **files: str) -> None:
        directory = tmp_path / path
        directory.mkdir(exist_ok=True)
        for name, text in {"cgroup_procs": "", **files}.items():
            (directory / name.replace("_", ".", 1)).write_text(text)

    group("")
    group("user.slice", memory_max="5000\n", memory_high="2000\n", memory_current="1500\n")
    group("user.slice/job", memory_max="max\n", memory_high="max\n", memory_current="1000\n")
    return tmp_path / "user.slice"


def limits() -> list[GroupMemory]:
    group = ControlGroup.of(b"0::/user.slice/job\n")
    assert group is not None
    return group.memory_limits()


def test_the_limits_of_all_groups_above_count_and_files_that_can_be_dropped_do_not(unified):
    (unified / "memory.stat").write_text(STAT)
    assert limits() == [GroupMemory(2000, 1500 - 40 - 20 - 5)]
    (unified / "job" / "memory.max").write_text("1200\n")
    assert limits() == [GroupMemory(1200, 1000), GroupMemory(2000, 1435)]


def test_a_group_that_does_not_say_what_it_uses_is_no_verdict(unified):
    (unified / "memory.current").unlink()
    with pytest.raises(OSError, match="does not say"):
        limits()
    (unified / "memory.current").mkdir()
    with pytest.raises(IsADirectoryError):
        limits()


def test_the_floor_is_five_percent_and_at_least_256_mb():
    machine, group = MemoryBound(100 * G, 50 * G), MemoryBound(2 * G, 1 * G)
    assert machine.floor_bytes == 5 * G
    assert group.floor_bytes == 256 * M
    both = MemoryBounds((machine, group))
    assert (both.free_bytes, both.most_bytes) == (768 * M, 2 * G - 256 * M)
    small = MemoryBounds((machine, MemoryBound(100 * M, 50 * M)))
    assert (small.free_bytes, small.most_bytes) == (-206 * M, 0)


@pytest.mark.parametrize(
    ("peaks", "learned"),
    [([7], 7), ([1, 900], 1), ([5, 900, 6], 6), ([900, *range(1, 10)], 9), ([3] * 10, 3)],
)
def test_one_leak_among_the_last_ten_does_not_decide(peaks, learned):
    assert percentile(peaks) == learned
