"""Q1, Q2: many submitters, killed waiters: all run, none twice, never more than the limit."""

from __future__ import annotations

import pytest

from holdfast.manage.runs import Runs
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
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
    assert done.killed > kills // 2  # the rest as long as there was somebody who waited
    assert done.adopted > 0
    queue = queue_of(tmp_path, QUEUE)
    assert (queue.active(), queue.waiting()) == ([], [])


def test_Q1_50_runs_from_10_processes_two_at_a_time_in_order(tmp_path):
    done = storm(tmp_path, runs=50, limit=2, submitters=10, kills=0, seed=0)
    library = Runs(str(tmp_path))
    assert {info.outcome for info in library.list()} == {Outcome.SUCCEEDED}
    assert sorted(names_in(done.told)) == done.names
    assert most_at_once(done.told) <= 2
    admitted = []
    for run_id in library.home.run_ids():
        directory = RunDirectory(library.home, run_id)
        at = [e.boottime for e in directory.read_events().events if e.kind is Kind.ADMITTED]
        assert len(at) == 1
        admitted.append((at[0], (directory.read_spec().waits or {})["order"]))
    admitted.sort()
    line = sorted(order for _, order in admitted)
    may_be_ahead = 0
    for number, (moment, order) in enumerate(admitted):
        # Who does not take its turn for 2 s, on a machine that is so busy, is gone past.
        may_be_ahead += number > 0 and moment - admitted[number - 1][0] > 2
        assert line.index(order) <= number + may_be_ahead
