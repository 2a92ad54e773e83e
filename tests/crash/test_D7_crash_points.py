"""D7: at each crash point, whoever dies there, the invariants hold."""

from __future__ import annotations

import pytest

from holdfast.run.crashpoints import POINTS
from tests.support.crash_trials import crash_trials
from tests.support.queue_trials import crowd_trials
from tests.support.trials import trial

TRIALS = list(crash_trials())
CROWDED = [pytest.param(crash, marks=pytest.mark.faults) for crash in crowd_trials()]


@pytest.mark.parametrize("crash", [*TRIALS, *CROWDED], ids=lambda crash: crash.name)
def test_D7_dies_at(crash, tmp_path):
    with trial(tmp_path / "trial") as one:
        crash.run(one)
        one.settle()
        one.judge()
        assert set(one.crashed) == {f"{crash.point}@{crash.victim}"}, "it came by, and died there"


def test_D7_every_point_has_a_trial():
    here = {point for point in POINTS if not point.startswith("submitter.")}  # tests/fleet
    assert {crash.point for crash in TRIALS} == here
