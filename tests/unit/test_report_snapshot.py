"""The snapshot: what was measured, what was not, and that nothing is made up in between."""

from __future__ import annotations

import random

import pytest

from holdfast.manage.report.gaps import Lack
from holdfast.process.procfs import ProcessState
from holdfast.process.sampling.figures import ProcessSample, TreeFigures
from holdfast.process.sampling.samples import Sample, tree_figure
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from holdfast.run.trace import TraceWriter
from holdfast.run.trace_rows import read_rows
from tests.support.report_scenes import (
    BOOT,
    MIB,
    OTHER_BOOT_ID,
    at,
    ended,
    happened,
    identity,
    nobody,
    sample,
    seen,
    token,
    unresolved,
)


def values(snapshot, key, place=0):
    return list(snapshot.chart(key).lines[place].points)


def lacks(snapshot):
    return [(one.lack, one.begin, one.end) for one in snapshot.stretches]


# Unknown


def test_a_run_without_samples_has_no_figures_and_says_so():
    snapshot = seen([], happened(ended(10.0)))
    assert not snapshot.has_figures
    assert lacks(snapshot) == [(Lack.NO_SAMPLES, 0.0, 10.0)]
    assert set(snapshot.usage.values()) == {None}
    assert snapshot.mean_cpu_percent is None


def test_a_run_of_which_nothing_can_be_read_is_reported_all_the_same():
    snapshot = seen(state=State.UNKNOWN, wanted=None, command=None, created_at=None)
    assert snapshot.seconds == 0.0
    assert snapshot.interval_seconds is None
    assert snapshot.to_json()["samples"] == 0


def test_one_sample_is_one_point():
    snapshot = seen([sample(2.0, 30)], happened(ended(4.0)))
    assert values(snapshot, "memory") == [(2.0, 30 * MIB)]
    assert snapshot.has_figures


def test_an_unresolved_stretch_is_a_gap_and_never_the_wrappers_figures():
    rows = [unresolved(0.0), unresolved(1.0), sample(2.0, 30), sample(3.0, 31)]
    snapshot = seen(rows, happened(ended(3.0)))
    assert lacks(snapshot) == [(Lack.UNRESOLVED, 0.0, 2.0)]
    for key in ("cpu", "memory", "processes"):
        assert [value is None for _, value in values(snapshot, key)] == [True, True, False, False]
    assert snapshot.usage["peak_processes"] == 1


def test_a_run_that_stays_unresolved_is_unresolved_to_its_end():
    snapshot = seen([unresolved(0.0), unresolved(1.0)], happened(ended(9.0)))
    assert (Lack.UNRESOLVED, 0.0, 9.0) in lacks(snapshot)
    assert not snapshot.has_figures
    assert snapshot.usage["peak_processes"] is None


def test_between_attempts_no_process_is_0_processes_and_unknown_memory():
    rows = [sample(0.0, 30), sample(1.0, 30), nobody(2.0), nobody(3.0), sample(4.0, 9)]
    snapshot = seen(rows, happened(ended(4.0)))
    assert lacks(snapshot) == [(Lack.NO_PROCESS, 2.0, 4.0)]
    assert values(snapshot, "processes")[2] == (2.0, 0)
    assert values(snapshot, "memory")[2] == (2.0, None)


def test_a_first_sample_without_cpu_is_not_0_percent():
    snapshot = seen([sample(0.0, 3, cpu=None), sample(1.0, 3, cpu=5.0)], happened(ended(1.0)))
    assert values(snapshot, "cpu") == [(0.0, None), (1.0, 5.0)]


def test_no_process_at_any_sample_is_not_a_peak_of_0():
    snapshot = seen([nobody(0.01)], happened(ended(0.01)), usage={"peak_processes": 0})
    assert snapshot.usage["peak_processes"] is None


@pytest.mark.parametrize("wrong", [True, "12", -5, float("nan"), float("inf"), None, []])
def test_a_figure_that_is_no_number_is_unknown(wrong):
    row = sample(1.0, 30)
    row["cpu_percent"] = wrong
    assert values(seen([row], happened(ended(2.0))), "cpu") == [(1.0, None)]


# Times without samples


def test_a_shim_that_was_away_leaves_a_hole_that_nothing_is_drawn_across():
    rows = [sample(float(t), 30) for t in (*range(10), *range(60, 70))]
    snapshot = seen(rows, happened(ended(69.0)))
    assert lacks(snapshot) == [(Lack.NO_SAMPLES, 9.0, 60.0)]
    assert len(snapshot.chart("memory").lines[0].segments()) == 2


def test_a_thinned_trace_is_not_taken_for_one_with_holes_but_for_those_of_an_adoption(tmp_path):
    chance = random.Random(4)
    writer = TraceWriter(str(tmp_path / "trace"))
    for second in (*range(5000), *range(6000, 25_000)):
        writer.append(sample(float(second), chance.uniform(1, 900), chance.uniform(0, 100)))
    writer.close()
    rows = list(read_rows(str(tmp_path / "trace")))
    assert len(rows) < 20_000
    adopted = (5990.0, Kind.SUPERVISED, {"shim": identity(50), "how": "adopted"})
    found = seen(rows, happened(adopted, ended(24_999.0))).stretches
    assert [one.lack for one in found] == [Lack.NO_SAMPLES]
    assert 4900 < found[0].begin < 5000
    assert 6000 <= found[0].end < 6100


def test_samples_that_begin_late_or_end_early_are_said():
    rows = [sample(float(t), 30) for t in range(20, 30)]
    snapshot = seen(rows, happened(ended(90.0)))
    assert lacks(snapshot) == [(Lack.NO_SAMPLES, 0.0, 20.0), (Lack.NO_SAMPLES, 29.0, 90.0)]


# I/O


def full(seconds: float, read: int, written: int, **more):
    moved = {"chars": read + written, "read_bytes": read, "write_bytes": written}
    return sample(seconds, 10, tree={**moved, **more})


def test_a_rate_is_the_growth_between_two_readings_and_rows_between_don_t_break_it():
    rows = [full(1.0, 0, 1000), sample(2.0, 10), sample(3.0, 10), full(5.0, 4000, 3000)]
    snapshot = seen(rows, happened(ended(5.0)))
    assert values(snapshot, "io", 0) == [(0.0, None), (1.0, 0.0), (5.0, 1000.0)]
    assert values(snapshot, "io", 1) == [(0.0, None), (1.0, 1000.0), (5.0, 500.0)]


def test_a_count_that_falls_began_anew_and_its_rate_is_unknown():
    snapshot = seen([full(1.0, 0, 9000), full(2.0, 0, 100), full(3.0, 0, 300)], happened())
    assert values(snapshot, "io", 1)[1:] == [(1.0, 9000.0), (2.0, None), (3.0, 200.0)]


def test_a_rate_counts_the_time_that_somebody_was_alive_and_is_not_drawn_elsewhere():
    rows = [full(1.0, 0, 0), nobody(2.0), nobody(3.0), sample(4.0, 1), full(5.0, 0, 2000)]
    snapshot = seen(rows, happened(ended(5.0)))
    written = values(snapshot, "io", 1)
    assert written == [(0.0, None), (1.0, 0.0), (2.0, 1000.0), (4.0, None), (5.0, 1000.0)]


def test_how_bytes_spread_over_a_time_without_samples_is_unknown():
    rows = [full(float(t), 0, 0) for t in range(5)] + [full(float(t), 0, 9) for t in range(60, 65)]
    written = values(seen(rows, happened(ended(64.0))), "io", 1)
    assert (60.0, None) in written
    assert all(not 4.0 < t < 60.0 for t, _ in written)


def test_a_row_that_did_not_add_up_the_tree_has_no_total():
    rows = [full(1.0, 0, 9000), sample(2.0, 10, write_bytes=10), full(3.0, 0, 9000)]
    assert values(seen(rows, happened()), "io", 1)[1:] == [(1.0, 9000.0), (3.0, 0.0)]


def test_the_bytes_of_ended_processes_stay_in_the_row_of_the_one_that_is_left():
    named = ProcessSample(token=token(42), comm="work", state=ProcessState.SLEEPING)
    one = named.replace(rss_bytes=5, cpu_percent=1.0, write_bytes=10)
    tree = TreeFigures(processes=1, rss_bytes=5, cpu_percent=1.0, write_bytes=400)
    row = Sample(at(0), BOOT, False, tree, one, (one,)).to_json()
    assert tree_figure(row, "write_bytes") == 400
    assert tree_figure(row, "rss_bytes") == 5


# Figures of the whole run


def test_mean_cpu_is_cpu_time_over_time_and_not_the_mean_of_kept_samples():
    rows = [sample(0.0, 1, 0.0), sample(10.0, 1, 900.0), sample(20.0, 1, 900.0)]
    for row, used in zip(rows, (0.0, 1.0, 2.0), strict=True):
        row["tree"]["cpu_seconds"] = used
    assert seen(rows, happened(ended(20.0))).mean_cpu_percent == 10.0


def test_what_was_recorded_at_the_end_counts_more_than_what_the_trace_kept():
    rows = [sample(0.0, 10), sample(1.0, 20)]
    assert seen(rows, happened(ended(1.0))).usage["peak_rss_bytes"] == 20 * MIB
    recorded = {"peak_rss_bytes": 90 * MIB, "tokens_in": 5, "peak_swap_bytes": None}
    usage = seen(rows, happened(ended(1.0)), usage=recorded).usage
    assert (usage["peak_rss_bytes"], usage["tokens_in"]) == (90 * MIB, 5)
    assert usage["peak_swap_bytes"] is None


def test_the_workload_has_its_own_line_only_where_it_differs():
    alone = seen([sample(0.0, 10), sample(1.0, 10)], happened(ended(1.0)))
    assert [line.key for line in alone.chart("memory").lines] == ["tree"]
    rows = [sample(0.0, 10), sample(1.0, 10, tree={"processes": 2, "rss_bytes": 99 * MIB})]
    both = seen(rows, happened(ended(1.0)))
    assert [line.key for line in both.chart("memory").lines] == ["tree", "workload"]


def test_a_memory_limit_that_was_asked_for_is_in_the_chart():
    wanted = {"sample_interval_seconds": 1.0, "memory_max_bytes": 600 * MIB}
    assert seen([sample(0.0, 1)], happened(), wanted=wanted).chart("memory").limit == 600 * MIB


# The clock


def test_a_wall_clock_that_steps_does_not_move_anything():
    rows = [sample(1.0, 1), {**sample(2.0, 1), "at": at(-500.0)}]
    assert [t for t, _ in values(seen(rows, happened()), "memory")] == [1.0, 2.0]


def test_an_end_that_nobody_saw_does_not_stretch_the_axis_to_its_recording():
    lost = {
        "outcome": "lost",
        "evidence": "another boot",
        "ended_at": None,
        "last_seen_at": at(9.0),
    }
    later = 86_400.0
    events = happened(
        (later, Kind.SUPERVISED, {"shim": identity(9, OTHER_BOOT_ID), "how": "adopted"}),
        (later, Kind.ENDED, lost),
    )
    snapshot = seen([sample(1.0, 1)], events, state=State.ENDED, outcome=Outcome.LOST)
    assert snapshot.seconds == 9.0
    assert snapshot.marks[-1].seconds == later


def test_after_a_reboot_the_wall_clock_counts():
    events = happened(
        (500.0, Kind.SUPERVISED, {"shim": identity(9, OTHER_BOOT_ID), "how": "adopted"}),
    )
    events = (*events[:-1], events[-1].replace(boottime=BOOT + 3.0))
    assert seen([sample(1.0, 1)], events).marks[-1].seconds == 500.0


def test_after_a_reboot_the_wall_clock_counts_for_attempts_and_workloads_too():
    found = {"resolution": "direct", "workload": identity(51, OTHER_BOOT_ID)}
    events = happened(
        (500.0, Kind.SUPERVISED, {"shim": identity(9, OTHER_BOOT_ID), "how": "adopted"}),
        (501.0, Kind.ATTEMPT_STARTED, {"attempt": 2, "root": identity(51, OTHER_BOOT_ID)}),
        (502.0, Kind.WORKLOAD_RESOLVED, found),
    )
    # The other boot's clock is at about the same time.
    events = (*events[:2], *(one.replace(boottime=one.boottime - 498.0) for one in events[2:]))
    snapshot = seen([sample(1.0, 1)], events)
    assert snapshot.attempts[1].seconds == 501.0
    assert snapshot.findings[0].seconds == 502.0
    assert snapshot.seconds == 502.0


# What happened


def test_events_anomalies_and_signals_are_on_one_time_line():
    events = happened(
        (1.0, Kind.MEMBERS_SEEN, {"members": [{"token": token(42), "comm": "work"}]}),
        (2.0, Kind.STOP_BEGUN, {"cause": "user", "detail": "asked"}),
        (4.0, Kind.ROOT_EXITED, {"attempt": 1, "exit_code": None, "signal": 15}),
        ended(4.0),
    )
    alarm = {"rule": "spin", "severity": "warning", "evidence": "busy", "token": token(42)}
    shot = {"to": token(42), "signal": "SIGTERM", "why": "stop", "fate": "delivered"}
    snapshot = seen(
        [sample(1.0, 1)],
        events,
        anomalies=[{**alarm, "at": at(1.5), "boottime": BOOT + 1.5, "comm": "work"}],
        signals=[{**shot, "at": at(3.0), "boottime": BOOT + 3.0, "by": token(40)}],
    )
    told = [(mark.seconds, mark.label) for mark in snapshot.marks]
    assert told == [
        (0.0, "attempt 1"),
        (1.5, "spin (warning)"),
        (2.0, "stop: user"),
        (3.0, "SIGTERM to 42 work"),
        (4.0, "root ended by SIGTERM"),
        (4.0, "ended: succeeded"),
    ]
    assert snapshot.anomalies[0].process == "42 work"


def test_an_anomaly_that_only_the_events_have_is_told_once():
    facts = {"rule": "spin", "severity": "warning", "evidence": "busy"}
    events = happened((1.0, Kind.ANOMALY_FIRED, facts))
    assert [one.rule for one in seen([], events).anomalies] == ["spin"]
    rows = [{**facts, "at": at(0.9), "boottime": BOOT + 0.9}]
    assert [one.seconds for one in seen([], events, anomalies=rows).anomalies] == [0.9]


def test_an_anomaly_is_known_by_rule_and_time_not_by_its_words():
    facts = {"rule": "spin", "severity": "warning", "evidence": "busy"}
    other = {**facts, "rule": "fd_leak"}
    events = happened(
        (1.0, Kind.ANOMALY_FIRED, {**facts, "evidence": "said otherwise"}),
        (2.0, Kind.ANOMALY_FIRED, facts),  # its row was lost: the disk was full
        (3.0, Kind.ANOMALY_FIRED, other),
        (4.0, Kind.ANOMALY_FIRED, facts),
    )
    rows = [{**facts, "at": at(t), "boottime": BOOT + t} for t in (0.9, 3.9)]
    found = seen([], events, anomalies=rows).anomalies
    assert [(one.rule, one.seconds) for one in found] == [
        ("spin", 0.9),
        ("spin", 2.0),
        ("fd_leak", 3.0),
        ("spin", 3.9),
    ]


def test_a_refused_signal_to_somebody_unnamed_is_told():
    shot = {"at": at(1.0), "to": "garbage", "signal": "SIGKILL", "fate": "refused"}
    found = seen([], happened(), signals=[shot]).signals[0]
    assert (found.to, found.fate, found.proof) == ("?", "refused", None)


def test_attempts_say_what_was_seen_of_them():
    events = happened(
        (3.0, Kind.ROOT_EXITED, {"attempt": 1, "exit_code": 3, "signal": None}),
        (3.0, Kind.RESTART_SCHEDULED, {"attempt": 2, "delay_seconds": 1.0}),
        (4.0, Kind.ATTEMPT_STARTED, {"attempt": 2, "root": identity(51)}),
    )
    first, second = seen([], events).attempts
    assert (first.exit_code, first.outcome, first.lasted_seconds) == (3, "failed", 3.0)
    assert (second.seconds, second.lasted_seconds, second.outcome) == (4.0, None, None)


def test_a_stretch_without_changes_is_no_gap():
    still = sample(600.0, 10, unchanged_since=BOOT + 1.0, looks=599, cpu=0.0)
    snapshot = seen([sample(0.0, 10), sample(1.0, 10, cpu=0.0), still, sample(601.0, 12)])
    assert lacks(snapshot) == []
    assert snapshot.to_json()["samples"] == 602
    assert [value for _, value in values(snapshot, "memory")] == [10 * MIB] * 3 + [12 * MIB]


def test_a_gap_before_or_after_such_a_stretch_is_one():
    still = sample(600.0, 10, unchanged_since=BOOT + 300.0, looks=300, cpu=0.0)
    snapshot = seen([sample(0.0, 10), sample(1.0, 10, cpu=0.0), still, sample(700.0, 12)])
    assert lacks(snapshot) == [(Lack.NO_SAMPLES, 1.0, 300.0), (Lack.NO_SAMPLES, 600.0, 700.0)]
