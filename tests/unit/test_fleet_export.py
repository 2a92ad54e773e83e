"""What is exported, part by part: the digest of a fact, what a database can hold, what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.fleet.export.batches import ExportedEvent, FactBatch, RunLook
from holdfast.fleet.export.storing import document_text, time_text
from holdfast.fleet.ledger import LastFact, LastLook
from holdfast.fleet.placement import Reservation
from holdfast.fleet.verdict import NodeLook, Sight, judge
from holdfast.run.facts import State
from tests.fleet.fake_engine import FACTS, request_of, wanted

RUN = "0tqxhdchh0m1bpzvvppw"
AT = "2026-11-18T11:16:09.939316Z"
EVENT = ExportedEvent(RUN, "a", 1, AT, 1140.725129, "running", {"b": 1, "a": "ü\udc80\0"})
LOOK = RunLook.of(RUN, AT, {"state": "running", "placement": {}, "command": ["x"]})


def test_a_batch_is_the_same_after_its_way_over_the_link():
    batch = FactBatch((EVENT,), (LOOK,), "e1..", is_reread=True, damage={RUN: "torn"})
    again = FactBatch.from_json(json.loads(json.dumps(batch.to_json())))
    assert again == batch
    assert again.events[0].digest == EVENT.digest


def test_a_digest_is_of_all_that_was_recorded_in_any_order():
    assert EVENT.replace(facts={"a": EVENT.facts["a"], "b": 1}).digest == EVENT.digest
    changes: list[dict[str, Any]] = [{"seq": 2}, {"at": "x"}, {"boottime": 1.0}, {"facts": {}}]
    for change in [*changes, {"kind": "ended"}]:
        assert EVENT.replace(**change).digest != EVENT.digest


def test_of_a_run_that_nobody_placed_only_how_it_stands_is_taken():
    look = RunLook.of(RUN, AT, {"state": "running", "placement": None, "command": ["secret"]})
    assert "secret" not in json.dumps(look.document)


@pytest.mark.parametrize(
    "change",
    [
        {"events": None},
        {"events": [{}]},
        {"events": [{**EVENT.as_dict(), "run": "../x"}]},
        {"events": [{**EVENT.as_dict(), "seq": 0}]},
        {"events": [{**EVENT.as_dict(), "seq": 1 << 63}]},
        {"events": [{**EVENT.as_dict(), "facts": []}]},
        {"looks": [{**LOOK.as_dict(), "document": "x"}]},
        {"cursor": 7},
        {"damage": None},
    ],
    ids=str,
)
def test_what_a_node_says_that_is_no_batch_is_refused(change):
    document: dict[str, Any] = {"events": [], "looks": [], "cursor": None}
    assert FactBatch.from_json({**document, "later": 1}) == FactBatch((), (), None)
    with pytest.raises(Unavailable):
        FactBatch.from_json({**document, **change})
    with pytest.raises(Unavailable):
        FactBatch.from_json(None)


def test_a_document_is_one_that_postgresql_takes():
    odd = {"a\0": ["\udc80x", {"n": float("nan"), "i": float("inf")}, (1, 2.5, None, True)]}
    text = document_text(odd)
    assert json.loads(text) == {
        "a\ufffd": ["\ufffdx", {"n": None, "i": None}, [1, 2.5, None, True]]
    }
    assert text.encode()
    assert (time_text(AT), time_text("soon"), time_text(None)) == (AT, None, None)


def sight(look: NodeLook, fact: LastFact | None, **run: Any) -> Sight:
    placed = wanted(None, request_of()).replace(
        reservation=Reservation("ssh", {"host": "n1"}).to_json(),
        node=FACTS.node,
        node_name="n1",
        committed_at=AT,
    )
    return Sight(placed, look, "no route", last=LastLook(AT, {"state": "running", **run}, fact))


def test_a_silent_node_is_unknown_with_its_last_exported_fact():
    verdict = judge(sight(NodeLook.SILENT, LastFact(7, "running", AT, False)))
    assert verdict.state is State.UNKNOWN
    assert f"last fact: 7 running at {AT}, then seen running" in verdict.evidence
    assert "copy" not in verdict.evidence
    before = judge(sight(NodeLook.SILENT, None))
    assert f"last fact: running at {AT}" in before.evidence


def test_an_ending_that_was_exported_is_shown_and_a_conflict_is_told():
    ended = {"state": "ended", "is_recorded": True}
    verdict = judge(sight(NodeLook.SILENT, LastFact(9, "ended", AT, True), **ended))
    assert verdict.state is State.ENDED
    assert f"exported at {AT}" in verdict.evidence
    assert "restored from a copy" in verdict.evidence
    unrecorded = {"state": "ended", "is_recorded": False}
    verdict = judge(sight(NodeLook.SILENT, LastFact(8, "root_exited", AT, False), **unrecorded))
    assert verdict.state is State.UNKNOWN, "nobody has recorded it"
