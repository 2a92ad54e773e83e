"""How a placed run stands, seen from its submitter: each row of the table, what none may say."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast.cli.text.ending_text import reason
from holdfast.fleet.ledger import LastLook
from holdfast.fleet.placement import EngineView, Placement
from holdfast.fleet.remote_info import info_of
from holdfast.fleet.verdict import NodeLook, Sight, VerdictSource, judge
from holdfast.manage.words.notes import note
from holdfast.manage.words.reasons import why
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome

AT = "2026-11-18T03:46:53.000000Z"
BOUND = {"engine": "slurm", "job": 7}


def placement(**fields: Any) -> Placement:
    known: dict[str, Any] = {
        "reservation": BOUND,
        "committed_at": AT,
        "node": "n",
        "node_name": "n2",
        **fields,
    }
    request = {"argv": ["true"], "options": {}}
    return Placement(
        "0tqwwj27vvky24kza0yx", "a", None, "slurm", "slurm", request, True, "me@here", AT, **known
    )


def last(state: str, **facts: Any) -> LastLook:
    run = {"id": "0tqwwj27vvky24kza0yx", "name": "a", "state": state, "evidence": "seen", **facts}
    return LastLook(AT, run)


ENDED = last("ended", is_recorded=True, outcome="failed", exit_code=3)
GONE = last("ended", is_recorded=False, outcome="lost", exit_code=None)
RUNNING = last("running", is_recorded=True)
NODE_FAIL = EngineView("slurm", "NODE_FAIL", node="n2")
PENDING = EngineView("slurm", "PENDING", is_waiting=True)

ROWS = [
    (Sight(placement(), NodeLook.ANSWERED, last=RUNNING), State.RUNNING, VerdictSource.NODE),
    (Sight(placement(), NodeLook.ANSWERED, last=ENDED), State.ENDED, VerdictSource.NODE),
    (Sight(placement(), NodeLook.SILENT, last=ENDED), State.ENDED, VerdictSource.RECORD),
    (Sight(placement(), NodeLook.ABSENT, last=ENDED), State.ENDED, VerdictSource.RECORD),
    (Sight(placement(), NodeLook.SILENT, last=GONE), State.ENDED, VerdictSource.SEEN),
    (Sight(placement(), NodeLook.ABSENT, last=GONE), State.ENDED, VerdictSource.SEEN),
    (
        Sight(placement(given_up={"by": "me", "at": AT}), NodeLook.SILENT, last=GONE),
        State.ENDED,
        VerdictSource.PERSON,
    ),
    (Sight(placement(), NodeLook.SILENT, last=RUNNING), State.UNKNOWN, VerdictSource.NOBODY),
    (Sight(placement(), NodeLook.SILENT), State.UNKNOWN, VerdictSource.NOBODY),
    (Sight(placement(), NodeLook.OTHER, last=RUNNING), State.UNKNOWN, VerdictSource.NOBODY),
    (Sight(placement(), NodeLook.ABSENT), State.UNKNOWN, VerdictSource.NOBODY),
    (
        Sight(placement(), NodeLook.SILENT, engine=NODE_FAIL, last=RUNNING),
        State.UNKNOWN,
        VerdictSource.NOBODY,
    ),
    (
        Sight(placement(given_up={"by": "me", "at": AT}), NodeLook.SILENT, last=RUNNING),
        State.ENDED,
        VerdictSource.PERSON,
    ),
    (
        Sight(placement(given_up={"by": "me", "at": AT}), NodeLook.ANSWERED, last=RUNNING),
        State.RUNNING,
        VerdictSource.NODE,
    ),
    (
        Sight(placement(reservation=None, committed_at=None), NodeLook.NOT_ASKED),
        State.QUEUED,
        VerdictSource.LEDGER,
    ),
    (
        Sight(placement(committed_at=None), NodeLook.ABSENT),
        State.QUEUED,
        VerdictSource.LEDGER,
    ),
    (Sight(placement(), NodeLook.SILENT, engine=PENDING), State.QUEUED, VerdictSource.ENGINE),
    (
        # Requeued: it has begun before, so the engine's "pending" says nothing about that one.
        Sight(placement(), NodeLook.SILENT, engine=PENDING, last=RUNNING),
        State.UNKNOWN,
        VerdictSource.NOBODY,
    ),
]


@pytest.mark.parametrize(("sight", "state", "source"), ROWS)
def test_a_row_of_the_table(sight, state, source):
    verdict = judge(sight)
    assert (verdict.state, verdict.source) == (state, source)
    assert verdict.evidence


def every_sight():
    placements = [
        placement(),
        placement(committed_at=None),
        placement(reservation=None, committed_at=None),
        placement(given_up={"by": "me", "at": AT}),
    ]
    unseen = last("ended", is_recorded=False)
    lasts = [None, last("queued"), RUNNING, unseen, GONE, ENDED, last("odd")]
    gone = EngineView("slurm", "COMPLETED", is_gone=True)
    engines = [None, NODE_FAIL, PENDING, gone, EngineView("slurm", "CANCELLED", is_gone=True)]
    for one in itertools.product(placements, NodeLook, lasts, engines):
        made_from, look, seen, engine = one
        if look is NodeLook.ANSWERED and seen is None:
            continue  # an answer has a document
        yield Sight(made_from, look, "no route", engine, seen, AT)


def test_no_ending_is_invented_whatever_is_at_hand():
    for sight in every_sight():
        verdict = judge(sight)
        info = info_of(sight.placement, verdict, sight.last.run if sight.last else None)
        if verdict.source in (VerdictSource.NODE, VerdictSource.RECORD, VerdictSource.SEEN):
            continue  # the node's own words
        assert info.exit_code is None
        if info.outcome is not None:
            assert (info.outcome, info.vouched) == (Outcome.LOST, True)
            assert sight.placement.given_up is not None


def test_a_given_up_run_is_told_as_a_person_s_word_and_nothing_of_its_processes():
    process = {"pid": 25572, "comm": "sh", "verdict": "SAME"}
    seen = last("running", workload=process, duration_seconds=3.0)
    sight = Sight(placement(given_up={"by": "me", "at": AT}), NodeLook.SILENT, "cut", last=seen)
    info = info_of(sight.placement, judge(sight), seen.run)
    for said in (note(info), why(info), reason(info, 125) or ""):
        assert f"given up by me at {AT}, as their assertion" in said
        assert not any(word in said for word in ("GONE", "25572", "supervised", "after 3"))


def test_an_ending_that_its_node_recorded_is_kept_whatever_the_engine_says():
    for sight in every_sight():
        if sight.last is ENDED:
            info = info_of(sight.placement, judge(sight), sight.last.run)
            assert (info.state, info.outcome, info.exit_code) == (State.ENDED, Outcome.FAILED, 3)


def test_an_ending_that_a_node_has_seen_and_nobody_recorded_does_not_become_unknown():
    sight = Sight(placement(), NodeLook.SILENT, "timed out", NODE_FAIL, GONE, AT)
    info = info_of(sight.placement, judge(sight), GONE.run)
    assert (info.state, info.outcome, info.is_recorded) == (State.ENDED, Outcome.LOST, False)
    for part in ("seen", f"so n2 said at {AT}", f"n2 does not answer since {AT}", "NODE_FAIL"):
        assert part in info.evidence
    exported = Sight(placement(), NodeLook.SILENT, last=last("ended", is_recorded=False))
    assert judge(exported).state is State.UNKNOWN, "how it ended is not known"


def test_what_is_unknown_says_who_is_silent_since_when_what_the_engine_says_and_the_last_fact():
    sight = Sight(placement(), NodeLook.SILENT, "timed out", NODE_FAIL, RUNNING, AT)
    evidence = judge(sight).evidence
    for part in (f"n2 does not answer since {AT}", "timed out", "Slurm says NODE_FAIL", "running"):
        assert part in evidence


def test_a_word_of_a_later_version_is_unknown_and_never_another_word():
    verdict = judge(Sight(placement(), NodeLook.ANSWERED, last=last("hibernating")))
    assert verdict.state is State.UNKNOWN
    info = info_of(placement(), verdict, {"state": "hibernating", "id": "x", "outcome": "eaten"})
    assert (info.state, info.outcome) == (State.UNKNOWN, None)
    assert "hibernating" in info.evidence
