"""The rules on rows that were written down: each fires once an episode, and on nothing else."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from holdfast.run.anomalies.progress_rules import CrashLoop
from holdfast.run.anomalies.rule import Anomaly, Context, Rule, Severity, Threshold
from holdfast.run.anomalies.watch import RULES, SETTLED_ROWS, AnomalyWatch, replay
from holdfast.run.trace_rows import read_rows

MIB = 1 << 20
TOKEN = "hf1.10.110.1010.1." + "b" * 32 + "." + "a" * 8
OTHER = TOKEN.replace("hf1.10.", "hf1.11.")
QUIET_TRACE = Path(__file__).parent / "data" / "quiet-trace.jsonl"


def row(at: float, **changes: object) -> dict:
    """A row of an ordinary process at that second."""
    tree = {
        "processes": 1,
        "cpu_seconds": 1.0,
        "chars": 1000,
        "zombies": 0,
        "fd_ratio": 0.01,
        **changes.pop("tree", {}),  # type: ignore[dict-item]
    }
    plain: dict = {
        "at": f"2026-11-15T18:{int(at // 60):02}:{at % 60:09.6f}Z",
        "boottime": 1000.0 + at,
        "token": TOKEN,
        "comm": "python3",
        "state": "sleeping",
        "cpu_percent": 0.1,
        "rss_bytes": 50 * MIB,
        "swap_bytes": 0,
        "threads": 4,
        "fds": 10,
        "oom_score": 667,
        "quiet_seconds": 0.0,
        "tree": tree,
    }
    return {**plain, **changes}


def rules_of(anomalies: list[Anomaly]) -> list[str]:
    return [anomaly.rule for anomaly in anomalies]


def fired(rows: list[dict], **context: object) -> list[str]:
    return rules_of(replay(rows, Context(**context)))  # type: ignore[arg-type]


def test_C5_an_ordinary_run_fires_nothing():
    assert fired([row(5.0 * n) for n in range(200)]) == []


EVERY_RULE: tuple[type[Rule | CrashLoop], ...] = (*RULES, CrashLoop)


def test_every_number_of_a_rule_has_a_reason():
    numbers = [
        (rule.name, name, value)
        for rule in EVERY_RULE
        for name, value in vars(rule).items()
        if isinstance(value, (int, float)) and not name.startswith("_")
    ]
    assert len(numbers) > 30
    assert [one for one in numbers if not isinstance(one[2], Threshold)] == []
    assert all(value.reason and value > 0 for *_, value in numbers if isinstance(value, Threshold))


def test_every_rule_has_its_own_name_and_is_explained():
    names = [rule.name for rule in EVERY_RULE]
    assert len(set(names)) == len(names)
    page = (Path(__file__).parents[2] / "docs" / "samples.md").read_text()
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_rule_is_asked():
    made = {rule for rule in Rule.__subclasses__() if rule.name}
    made |= {below for rule in Rule.__subclasses__() for below in rule.__subclasses__()}
    assert made == set(RULES)


# Memory.


def test_C5_memory_that_grows_fires_once_within_three_samples_of_the_condition():
    sizes = [50, 60, 80, 100, 130, 160, 200, 250, 300]
    rows = [row(5.0 * n, rss_bytes=size * MIB) for n, size in enumerate(sizes)]
    [anomaly] = replay(rows)
    assert anomaly.rule == "memory_growth"
    # 64 MiB and half as much again are reached at 130: there it is said.
    assert anomaly.boottime == rows[4]["boottime"]
    assert "from 50 to 130 MiB" in anomaly.evidence


def test_memory_that_is_loaded_at_once_is_no_growth():
    sizes = [10, 400, 800, 800, 800, 800, 800]
    assert fired([row(5.0 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]) == []


def test_a_start_is_no_growth_even_when_sampled_often():
    sizes = [20, 60, 120, 200, 280, 300, 300, 300, 300, 301, 301]
    assert fired([row(0.2 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]) == []


def test_a_start_that_goes_on_creeping_is_no_growth():
    # As claude does while it tries a failing API again.
    sizes = [53, 165, 171, 178, 184, 186, 187, 188]
    assert fired([row(5.0 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]) == []


def test_memory_that_doubles_again_and_again_is_growth():
    sizes = [20, 40, 80, 160, 320]
    rows = [row(5.0 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]
    assert fired(rows) == ["memory_growth"]


def test_memory_that_breathes_is_no_growth():
    sizes = itertools.islice(itertools.cycle([200, 260, 330, 240]), 100)
    assert fired([row(5.0 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]) == []


def test_a_slow_leak_is_found_in_the_end():
    rows = [row(5.0 * n, rss_bytes=int((100 + 0.2 * n) * MIB)) for n in range(600)]
    assert fired(rows) == ["memory_growth"]


def test_a_second_growth_is_said_only_when_it_goes_much_higher():
    first = [50, 100, 150, 200, 250]
    rest = [250] * 4
    again = [270, 290, 310, 330]
    higher = [400, 500, 600, 700]
    sizes = [*first, *rest, *again, *([330] * 4), *higher]
    rows = [row(5.0 * n, rss_bytes=s * MIB) for n, s in enumerate(sizes)]
    assert fired(rows) == ["memory_growth", "memory_growth"]


def test_memory_near_the_limit_of_the_run_or_of_its_group():
    full = [row(0, rss_bytes=50 * MIB), row(5, rss_bytes=91 * MIB), row(10, rss_bytes=88 * MIB)]
    assert fired(full, memory_max_bytes=100 * MIB) == ["memory_near_limit"]
    group = {"memory_max_bytes": 100 * MIB, "memory_bytes": 99 * MIB}
    assert fired([row(0, group=group), *full[1:]]) == ["memory_near_limit"]
    assert fired([row(0, group=group)]) == []  # the group's page cache is not the tree's


def test_swap_counts_towards_the_limit():
    assert fired([row(0, swap_bytes=45 * MIB)], memory_max_bytes=100 * MIB) == ["memory_near_limit"]


def test_a_jump_of_the_oom_score_and_a_critical_one():
    assert fired([row(0), row(5, oom_score=760)]) == []
    assert fired([row(0), row(5, oom_score=770), row(10, oom_score=780)]) == ["oom_score_jump"]
    both = replay([row(0), row(5, oom_score=1100)])
    assert rules_of(both) == ["oom_score_jump", "oom_score_critical"]
    assert both[1].severity is Severity.CRITICAL


# Descriptors, threads, zombies.


def test_C5_descriptors_that_run_out_fire_once_an_episode():
    ratios = [0.5, 0.84, 0.86, 0.9, 0.84, 0.99, 0.6, 0.9]
    rows = [row(5.0 * n, tree={"fd_ratio": ratio}) for n, ratio in enumerate(ratios)]
    assert fired(rows) == ["fd_exhaustion", "fd_exhaustion"]


def test_the_culprit_is_named_where_it_is_not_the_workload():
    culprit = {"fd_ratio": 0.9, "token": OTHER, "comm": "leaky"}
    [anomaly] = replay([row(0, tree={"processes": 2, "fd_ratio": 0.9}, fewest_fds=culprit)])
    assert (anomaly.token, anomaly.comm) == (OTHER, "leaky")


def test_C5_threads_that_explode():
    assert fired([row(0, threads=3), row(5, threads=35)]) == []
    assert fired([row(0, threads=3), row(5, threads=110), row(9, threads=300)], cpus=2) == [
        "thread_explosion"
    ]
    assert fired([row(0, threads=250)], cpus=2) == ["thread_explosion"]
    assert fired([row(0, threads=1), row(5, threads=128)], cpus=64) == []


def test_C5_zombies_that_pile_up():
    def zombies(*counts: int) -> list[dict]:
        return [row(5.0 * n, tree={"zombies": c}) for n, c in enumerate(counts)]

    assert fired(zombies(0, 9, 0, 9, 0)) == []
    assert fired(zombies(0, 9, 9, 9, 9)) == ["zombie_pile_up"]
    assert fired(zombies(4, 4, 4, 4)) == []


# Progress.


def stuck(at: float, switches: int | None = 7, token: str = TOKEN) -> dict:
    entry = {"token": token, "comm": "ffmpeg", "wait_channel": "nfs_wait", "switches": switches}
    return row(at, state="disk sleep", stuck=[entry])


def test_C5_disk_sleep_without_a_switch_in_between():
    [anomaly] = replay([stuck(0), stuck(5), stuck(10), stuck(15)])
    assert anomaly.rule == "disk_sleep"
    assert anomaly.boottime == 1010.0
    assert "nfs_wait" in anomaly.evidence
    assert anomaly.comm == "ffmpeg"


def test_a_process_that_waits_for_the_disk_again_and_again_is_at_work():
    assert fired([stuck(5.0 * n, switches=n) for n in range(10)]) == []
    assert fired([stuck(5.0 * n, switches=None) for n in range(10)]) == []
    assert fired([stuck(0), stuck(5), row(10), stuck(15), stuck(20)]) == []


def spinning(at: float, **changes: object) -> dict:
    return row(at, cpu_percent=99.0, quiet_seconds=at + 60, state="running", **changes)


def test_C5_a_spin_without_output_fires_once():
    assert fired([row(0), *(spinning(5.0 * n) for n in range(1, 20))]) == ["cpu_spin"]
    assert fired([spinning(0.5 * n) for n in range(60)]) == ["cpu_spin"]


def test_work_is_no_spin():
    times = [5.0 * n for n in range(1, 30)]
    assert fired([spinning(t) | {"quiet_seconds": 1.0} for t in times]) == []
    assert fired([spinning(t, tree={"chars": int(t)}) for t in times]) == []
    growing = [spinning(t, rss_bytes=int(50 * MIB * (1 + t / 50))) for t in times[:3]]
    assert fired(growing) == []


def test_a_light_row_says_nothing_about_io():
    light = [
        {k: v for k, v in spinning(1.0 * n).items() if k not in ("threads", "fds", "oom_score")}
        | {"tree": {"processes": 1, "cpu_seconds": 1.0 * n}}
        for n in range(1, 60)
    ]
    assert fired(light) == []


def test_a_stall_takes_a_quarter_of_an_hour_and_no_connection():
    quiet = [row(5.0 * n, quiet_seconds=5.0 * n, cpu_percent=0.0) for n in range(300)]
    [anomaly] = replay(quiet)
    assert anomaly.rule == "stall"
    assert anomaly.boottime == 1900.0
    waiting = [dict(r, tree={**r["tree"], "sockets": 1}) for r in quiet]
    assert fired(waiting) == []
    assert fired(quiet[:120]) == []  # ten minutes


def test_C5_a_removed_working_directory():
    assert fired([row(0), row(5, cwd_deleted=True), row(10, cwd_deleted=True)]) == ["deleted_cwd"]


# Who is described.


def test_a_sample_of_another_process_is_critical():
    watch = AnomalyWatch()
    assert watch.feed(row(0), Context(workload_token=TOKEN)) == []
    [anomaly] = watch.feed(row(5, token=OTHER), Context(workload_token=TOKEN))
    assert (anomaly.rule, anomaly.severity) == ("identity_drift", Severity.CRITICAL)
    assert watch.feed(row(6, token=OTHER), Context(workload_token=TOKEN)) == []
    assert watch.feed(row(9, token=OTHER), Context(workload_token=OTHER)) == []


def test_a_sample_of_a_wrapper_is_critical():
    [anomaly] = replay([row(0, comm="script")], Context(TOKEN, (TOKEN,)))
    assert (anomaly.rule, anomaly.severity) == ("wrapper_traced", Severity.CRITICAL)


def test_an_unresolved_row_says_nothing():
    unresolved = {
        "at": "2026-11-15T18:00:00.000000Z",
        "boottime": 1.0,
        "resolution": "unresolved",
        "tree": {"processes": 3},
    }
    assert fired([unresolved] * 500) == []


def test_another_workload_begins_anew():
    low = [row(5.0 * n, rss_bytes=40 * MIB) for n in range(3)]
    high = [row(15 + 5.0 * n, rss_bytes=(200 + n) * MIB, token=OTHER) for n in range(3)]
    assert fired([*low, *high]) == []


# Restarts.


def test_C5_a_crash_loop_fires_once():
    watch = AnomalyWatch()
    said = [watch.restarted("t", 10.0 * n, 0.5) for n in range(6)]
    assert [rules_of(s) for s in said] == [[], [], ["crash_loop"], [], [], []]
    assert said[2][0].severity is Severity.CRITICAL


def test_failures_far_apart_or_after_real_work_are_no_loop():
    watch = AnomalyWatch()
    assert not any(watch.restarted("t", 700.0 * n, 0.5) for n in range(6))
    mixed = [watch.restarted("t", 1e5 + n, 300.0 if n % 2 else 0.1) for n in range(8)]
    assert not any(mixed)


# Stored traces.


def test_an_anomaly_survives_json():
    [anomaly] = replay([row(0, cwd_deleted=True)])
    again = json.loads(json.dumps(anomaly.to_json()))
    assert again["rule"] == "deleted_cwd"
    assert again["severity"] == "warning"
    assert again["token"] == TOKEN


@pytest.mark.skipif(not QUIET_TRACE.exists(), reason="made by `python -m bench.quiet`")
def test_C5_a_stored_quiet_run_of_ten_minutes_fires_nothing():
    rows = list(read_rows(str(QUIET_TRACE)))
    assert rows[-1]["boottime"] - rows[0]["boottime"] > 590
    assert replay(rows) == []


# Rows that say that nothing has changed.


def test_no_rule_counts_more_rows_than_are_written_before_one_is_written_over():
    counts = {
        f"{rule.__name__}.{name}": value
        for rule in RULES
        for name, value in vars(rule).items()
        if isinstance(value, Threshold) and "samples" in name
    }
    assert counts
    late = {name: value for name, value in counts.items() if value >= SETTLED_ROWS}
    assert late == {}, f"of a quiet run only {SETTLED_ROWS} rows alike are written: count fewer"


def test_every_rule_has_slots():
    assert [rule.__name__ for rule in RULES if hasattr(rule(), "__dict__")] == [], "768 bytes each"


@pytest.mark.parametrize("looks", [1, 9])
def test_a_stored_trace_fires_what_fired_live(looks):
    """Live, no rule sees the rows of a stretch; read back, one row stands for all of them."""
    calm = [row(5.0 * n, cpu_percent=0.0, tree={"zombies": 6}) for n in range(4)]
    again = row(20.0 + 5 * looks, cpu_percent=0.0, tree={"zombies": 6})
    repeated = {**again, "unchanged_since": 1015.0, "looks": looks}
    grown = [row(100.0 + 5 * n, rss_bytes=(50 + 40 * n) * MIB) for n in range(6)]
    live = replay([*calm, *grown])
    assert rules_of(live) == ["zombie_pile_up", "memory_growth"]
    assert replay([*calm, repeated, *grown]) == live


def test_a_stall_fires_though_most_looks_are_of_no_row():
    rows = []
    for minute in range(17):
        at = 60.0 * minute
        still = {"cpu_percent": 0.0, "quiet_seconds": at}
        rows.append(row(at, **still))
        rows.append({**row(at + 55, **still), "unchanged_since": 1000.0 + at, "looks": 11})
    assert fired(rows) == ["stall"]
