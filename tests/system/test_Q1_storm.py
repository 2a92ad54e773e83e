"""Q1, Q2: many submitters, killed waiters: all run, none twice, never more than the limit."""

from __future__ import annotations

import pytest

from holdfast.manage.runs import Runs
from holdfast.run.outcomes import Outcome
from tests.support.queues import most_at_once, names_in, queue_of
from tests.system.queue_storm import QUEUE, storm


@pytest.mark.parametrize(
    ("runs", "kills"), [(60, 8), pytest.param(300, 30, marks=pytest.mark.faults)]
)
def test_Q1_from_many_submitters_all_run_once_within_the_limit_though_waiters_are_killed(
    tmp_path, runs, kills
):
    done = storm(tmp_path, runs=runs, limit=8, submitters=10, kills=kills, seed=runs)
    assert {info.outcome for info in Runs(str(tmp_path)).list()} == {Outcome.SUCCEEDED}
    assert sorted(names_in(done.told)) == done.names
    assert most_at_once(done.told) <= 8
    assert done.killed == kills
    assert done.adopted > 0
    queue = queue_of(tmp_path, QUEUE)
    assert (queue.active(), queue.waiting()) == ([], [])
