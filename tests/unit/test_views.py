"""Rows, notes and hints: what is said about a run, and that nothing is invented."""

from __future__ import annotations

import time

import pytest

from holdfast.manage.info import RunInfo
from holdfast.manage.process_info import ProcessInfo
from holdfast.manage.words.notes import note
from holdfast.manage.words.views import hints, next_steps, row_of, summary
from holdfast.run.facts import State
from holdfast.run.outcomes import EndedBy, Loss, Outcome, StopCause


def _info(**fields) -> RunInfo:
    empty = dict.fromkeys(RunInfo._fields)
    base = {"schema": 1, "id": "0" * 20, "name": "x", "state": State.RUNNING, "evidence": ""}
    base |= {"attempts": [], "wrappers": [], "tags": {}, "anomaly_count": 0}
    return RunInfo(**{**empty, **base, **fields})


_WORKLOAD = ProcessInfo.from_json({"pid": 4243, "token": "hf1.4243"})


def _ended(outcome: Outcome, **fields) -> RunInfo:
    return _info(state=State.ENDED, outcome=outcome, **fields)


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (_info(), ""),
        (_info(attempt=3, anomaly_count=1), "attempt 3, 1 anomaly"),
        (_info(anomaly_count=2, workload_resolution="unresolved"), "workload unresolved, 2 anomal"),
        (_info(state=State.ORPHANED, shim={"pid": 902}), "shim 902 gone"),
        (_info(state=State.UNKNOWN, evidence="another host; kept, and not touched"), "another h"),
        (_ended(Outcome.SUCCEEDED, exit_code=0), ""),
        (_ended(Outcome.FAILED, exit_code=3), "exit 3"),
        (_ended(Outcome.FAILED, exit_code=0, completion={"is_error": True}), "the agent says"),
        (_ended(Outcome.FAILED, exit_code=1, limit={"retry_at": None}), "usage limit"),
        (_info(limit={"retry_at": "2026-01-02T03:04:05Z"}), "usage limit until "),
        (_ended(Outcome.KILLED, signal=11, core_dumped=True), "SIGSEGV, core dumped"),
        (_ended(Outcome.KILLED, signal=9, ended_by=EndedBy.OUTSIDE), "SIGKILL from outside"),
        (_ended(Outcome.OUT_OF_MEMORY, signal=9, oom_killed=True), "SIGKILL, by the kernel"),
        (
            _ended(
                Outcome.OUT_OF_MEMORY,
                ended_by=EndedBy.HOLDFAST,
                wanted={"memory_max_bytes": 2 << 30},
            ),
            "over 2G, stopped",
        ),
        (_ended(Outcome.STALLED, wanted={"idle_timeout_seconds": 900.0}), "silent 15m, stopped"),
        (_ended(Outcome.TIMED_OUT, wanted={"timeout_seconds": 5400.0}), "after 1h30m, stopped"),
        (_ended(Outcome.LOST, loss=Loss.REBOOT, workload=_WORKLOAD), "reboot"),
        (_ended(Outcome.LOST, loss=Loss.RECYCLED, workload=_WORKLOAD), "pid 4243 RECYCLED"),
        (_ended(Outcome.LOST, loss=Loss.UNSEEN, workload=_WORKLOAD), "pid 4243 GONE"),
        (
            _ended(
                Outcome.LOST, loss=Loss.RECYCLED, workload=_WORKLOAD, workload_exit_code=0
            ),  # the root's PID, not the workload's
            "its end was not seen",
        ),
        (_ended(Outcome.LOST), "its end was not seen"),
        (_ended(Outcome.STOPPED, stop_reason=StopCause.USER), ""),
        (_ended(Outcome.STOPPED, stop_reason=StopCause.SHIM_SIGNALLED), "the shim was sent"),
        (_ended(Outcome.STOPPED, stop_reason=StopCause.REPLACED), "replaced"),
        (
            _ended(Outcome.STOPPED, stop_reason=StopCause.OUTER),
            "stopped with the run it was started in",
        ),
        (_ended(Outcome.STOPPED, signal=10, ended_by=EndedBy.HOLDFAST), "SIGUSR1"),
        (
            _ended(Outcome.STOPPED, cleanup={"survivors": [{"pid": 5120, "comm": "ffmpeg"}]}),
            "survives: 5120 ffmpeg",
        ),
    ],
)
def test_notes(info, says):
    assert note(info).startswith(says)
    assert bool(note(info)) is bool(says)


def test_what_is_not_known_is_empty():
    cells = row_of(_info()).cells(time.time())
    assert {name: text for name, text in cells.items() if text} == {"NAME": "x", "STATE": "running"}


def test_a_full_row():
    now = 1_800_000_000.0
    at = "2027-01-15T07:48:00.000000Z"  # twelve minutes before
    usage = {"tokens_in": 81000, "tokens_out": 6000, "cost_usd": 0.31}
    info = _info(created_at=at, last_output_at="2027-01-15T07:59:56Z", usage=usage)
    info = info.replace(now={"cpu_percent": 37.6, "rss_bytes": 400 << 20, "swap_bytes": 12 << 20})
    shown = ("x", "", "running", "", "12m", "38%", "412M", "4s ago", "87k", "$0.31", "")
    assert tuple(row_of(info).cells(now).values()) == shown


def test_a_summary_counts_states_in_a_fixed_order():
    infos = [_ended(Outcome.LOST), _info(), _info(), _info(state=State.ORPHANED)]
    assert summary([info.state for info in infos], window="24h", older=212) == (
        "2 running, 1 orphaned, 1 ended in 24h (212 older: ls --all)"
    )
    assert summary([]) == "no runs"


def test_hints_name_a_few_and_count_the_rest():
    orphans = [_info(state=State.ORPHANED, name=f"o{n}") for n in range(5)]
    lost = _ended(Outcome.LOST, name="l", is_recorded=False)
    assert hints([*orphans, lost]) == [
        "holdfast recover adopts o0, o1, o2 and 2 more",
        "holdfast recover records the end of l",
    ]
    assert hints([_info(), _ended(Outcome.FAILED)]) == []


@pytest.mark.parametrize(
    ("info", "first"),
    [
        (_info(), "logs -f x"),
        (_info(state=State.ORPHANED), "recover"),
        (_info(state=State.UNKNOWN), "recover --dry-run"),
        (_ended(Outcome.SUCCEEDED), "logs x"),
        (_ended(Outcome.STOPPED, cleanup={"survivors": [{"pid": 1}]}), "tree x"),
    ],
)
def test_next_steps(info, first):
    assert next_steps(info)[0] == first


def test_resume_and_attach_are_offered_where_they_work():
    assert 'resume x "..."' in next_steps(_ended(Outcome.FAILED, session={"id": "1"}))
    assert "attach x" in next_steps(_info(pty=True))
