"""A watcher is declared in one place: an option turns it on, and its cause leads to one outcome."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.manage.info import RunInfo
from holdfast.manage.processes import Processes
from holdfast.manage.words.status_page import StatusFacts, lines_of
from holdfast.options import WATCHED, Wanted, wanted_options
from holdfast.run.facts import RunFacts, State
from holdfast.run.outcomes import EndedBy, Outcome, StopCause, decide_outcome
from holdfast.shim.watching.watcher import Watcher
from holdfast.shim.watching.watchers import WATCHERS, asked_watchers

# By cause: the outcome, and whether a proven completion goes before it.
DECIDED = {
    StopCause.TIMEOUT: (Outcome.TIMED_OUT, True),
    StopCause.IDLE: (Outcome.STALLED, True),
    StopCause.SILENCE: (Outcome.STALLED, True),
    StopCause.MEMORY: (Outcome.OUT_OF_MEMORY, False),
    StopCause.TOKENS: (Outcome.OVER_BUDGET, True),
    StopCause.COST: (Outcome.OVER_BUDGET, True),
    StopCause.COMPLETION: (Outcome.COMPLETED, False),
    StopCause.REQUIRE_WORKLOAD: (Outcome.FAILED, False),
}
VALUES = {"float | None": 1.0, "int | None": 1, "str | None": "x", "bool": True}

every_watcher = pytest.mark.parametrize("watcher", WATCHERS, ids=lambda one: one.__name__)


def subclasses(of: type[Watcher]) -> set[type[Watcher]]:
    return {below for one in of.__subclasses__() for below in (one, *subclasses(one))}


def test_each_watched_option_has_one_watcher():
    fields = [one.field for one in WATCHERS]
    assert set(WATCHED) == set(fields), "watched=True in options.py, its class in WATCHERS"
    assert len(fields) == len(set(fields))
    assert [option.field for option in wanted_options() if option.watched] == WATCHED
    assert set(WATCHERS) == subclasses(Watcher)


@every_watcher
def test_it_is_made_when_its_option_is_given_and_only_then(watcher):
    assert asked_watchers(Wanted()) == []
    given: dict[str, Any] = {watcher.field: VALUES[Wanted.__annotations__[watcher.field]]}
    assert asked_watchers(Wanted(**given)) == [watcher]


@every_watcher
def test_its_cause_decides_the_outcome(watcher):
    assert watcher.cause in DECIDED, "decide here what its cause means"
    outcome, yields = DECIDED[watcher.cause]
    ending = decide_outcome(stop_cause=watcher.cause, signal=9)
    assert (ending.outcome, ending.ended_by) == (outcome, EndedBy.HOLDFAST)
    assert watcher.cause.yields_to_completion is yields


def test_no_two_watchers_share_a_cause():
    assert len({one.cause for one in WATCHERS}) == len(WATCHERS)


def test_status_shows_each_of_their_options_that_was_given():
    wanted: dict[str, Any] = {one: 90 if one.endswith("_seconds") else 2048 for one in WATCHED}
    wanted |= {"done_when": "^ok$", "require_workload": True}
    given: dict[str, Any] = dict.fromkeys(RunInfo._fields)
    given |= {"state": State.ENDED, "wanted": wanted, "tags": {}, "attempts": [], "wrappers": []}
    info = RunInfo(**given)
    known = StatusFacts(info, RunFacts(), (), Processes((), (), 0), 0.0)
    asked = dict(lines_of(known))["asked for"].split(", ")
    for said in ("timeout 1m30s", "memory max 2K", "max tokens 2048", "max cost $2048"):
        assert said in asked
    assert {"done when ^ok$", "require workload"} <= set(asked)
    assert len(asked) == len(WATCHED)
