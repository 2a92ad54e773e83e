"""A full disk takes neither the ending nor the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import disk_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in


@pytest.fixture(autouse=True)
def _own_mounts() -> None:
    needs("pid_namespace")


def test_L5_the_ending_is_written_on_a_full_disk(tmp_path: Path):
    seen = run_in(Place(), disk_scenes.end_on_a_full_disk, path=str(tmp_path))
    assert seen["recorded"] == [True, True]
    assert (seen["outcome"], seen["is_behind"]) == ("failed", False)
    assert (seen["damage"], seen["is_whole"]) == (None, True)
    # The reserve serves for a while, and then only what matters.
    assert 0 < seen["faults_recorded"] == seen["faults_read"]


def test_L5_a_partial_write_is_cut_and_the_ending_comes_when_there_is_room(tmp_path: Path):
    seen = run_in(Place(), disk_scenes.end_without_a_reserve, path=str(tmp_path))
    assert seen == {
        "was_behind": True,
        "ends_with_a_line": True,
        "flushed": True,
        "has_ended": [False, True],
    }


def test_output_beyond_the_disk_is_bound_and_keeps_its_offsets(tmp_path: Path):
    seen = run_in(Place(), disk_scenes.bound_the_output, path=str(tmp_path))
    assert seen["size"] == 500 * 4096
    assert seen["first_byte"] == seen["size"] - 64 * 1024
    assert (seen["kept"], seen["begins"]) == (64 * 1024, "0484")
