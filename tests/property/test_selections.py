"""Whatever is selected, and whatever became of the index: a listing is what the directories say."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.index_rows import FIGURES
from holdfast.manage.info import read_run
from holdfast.manage.listing import place_of, select_runs
from holdfast.manage.selection import Selection
from holdfast.manage.usage.totals import add_up
from holdfast.process.clock import iso_time, seconds_of
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.outcomes import Outcome
from tests.support.history import DAY, make_ended, template_of

COUNT = 96
OUTCOMES = ("succeeded", "failed", "stopped", "lost", "timed-out")
AGENTS = (None, "claude", "codex")
NAMES = ("Train-{}", "eval.{}", "a_b-{}")
TAGS: tuple[dict[str, str], ...] = (
    {},
    {"part": "1"},
    {"part": "2", "Keep": ""},
    {"part": "\udcff", "who": "ä=b"},
)


def _make(home: Home, template: dict, number: int, now: float) -> None:
    """One of a kind: the numbers are coprime, so that all combinations come up."""
    outcome = OUTCOMES[number % 5]
    spec = {
        **template["spec"],
        "agent": AGENTS[number % 3],
        "tags": TAGS[number % 4],
    }
    figures = {} if number % 7 == 0 else {"tokens_in": number, "cost_usd": number * 0.25}
    at = now - DAY * (1.5 + number * number / 40)
    name = NAMES[number % 2].format(number) if number % 11 else NAMES[2].format(number)
    run_id = make_ended(home, {**template, "spec": spec}, at, name)
    events = Path(RunDirectory(home, run_id).events_path)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    for line in lines:
        if line["kind"] == "ended":
            line |= {"outcome": outcome, "exit_code": None if outcome == "lost" else number % 3}
            line["usage"] = {**(line.get("usage") or {}), **figures}
            line["at"] = iso_time(at + 3600 * (number % 13))  # not in the order of the ids
            if outcome == "lost":
                line |= {"loss": "reboot", "ended_by": "unknown"}
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = Home(str(tmp_path_factory.mktemp("home"))).prepare()
    template = template_of(home)
    now = time.time()
    for number in range(COUNT):
        _make(home, template, number, now)
    cut = [RunDirectory(home, one) for one in home.run_ids()[3:60:20]]
    for directory in cut:
        os.truncate(directory.events_path, 100)  # unknown: no row can ever stand for it
    os.mkdir(f"{home.runs_path}/no-id-at-all")
    return home


@pytest.fixture(scope="module")
def every(home):
    """Each run as its directory has it, newest first."""
    return [read_run(RunDirectory(home, run_id)) for run_id in reversed(home.run_ids())]


GLOBS = ("*", "train-*", "TRAIN-?", "*.[0-3]*", "[!t]*", "[^t]*", "eval.[", "a_b-5[!0-4]", "x*", "")
selections = st.builds(
    Selection.of,
    active=st.sampled_from((None, None, True, False)),
    state=st.none() | st.sets(st.sampled_from(("ended", "unknown", "running")), max_size=2),
    outcome=st.none() | st.sets(st.sampled_from([*Outcome]), max_size=2),
    agent=st.none() | st.sets(st.sampled_from(("claude", "codex", "none")), max_size=2),
    name=st.none() | st.sets(st.sampled_from(GLOBS), max_size=2),
    tags=st.dictionaries(
        st.sampled_from(("part", "Keep", "who", "x")),
        st.none() | st.sets(st.sampled_from(("1", "2", "", "\udcff", "ä=b")), max_size=2),
        max_size=2,
    ),
    since=st.none() | st.floats(0.1 * DAY, 300 * DAY).map(lambda ago: time.time() - ago),
)


pages = st.tuples(st.booleans(), st.integers(0, COUNT))


@given(selections, pages, st.booleans())
def test_a_selection_through_the_index_is_that_of_the_directories(
    home, every, selection, page, is_cold
):
    by_end, limit = page
    candidates = selection.candidates(home)  # the markers tell what is active, or ended lately
    expected = [info for info in every if info.id in candidates and selection.fits(info)]
    if by_end:
        expected.sort(key=place_of, reverse=True)
    if is_cold and os.path.exists(home.index_path):
        os.unlink(home.index_path)
    found = list(itertools.islice(select_runs(home, selection, by_end=by_end), limit))
    assert [one.id for one in found] == [one.id for one in expected[:limit]]
    assert found == expected[:limit]


@pytest.fixture(params=["by a new listing", "by the last one"])
def _way(home, request, monkeypatch):
    """Whether `runs/` is listed for a sum."""
    if request.param == "by the last one":
        monkeypatch.setattr("holdfast.manage.listing._MANY_BYTES", 1)
        monkeypatch.setattr("holdfast.manage.reading.runs_stamp._QUIET_SECONDS", 0.05)
        time.sleep(0.1)
        for _ in range(2):  # the first makes the index, if there is none
            assert list(select_runs(home, by_end=True, closely=False))
        monkeypatch.delattr("holdfast.manage.usage.totals._add_all")


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("by", [None, "agent", "tag", "day"])
@pytest.mark.parametrize("days", [None, 20, 100])
def test_usage_through_the_index_is_the_sum_over_the_directories(home, every, by, days):
    since = None if days is None else time.time() - days * DAY
    expected: dict[str | None, dict[str, float]] = {}
    selection = Selection(since=since)
    for info in filter(selection.fits, every):
        for part in {None, *_parts(info, by)}:
            sums = expected.setdefault(part, {"runs": 0})
            sums["runs"] += 1
            for name in FIGURES:
                if (value := (info.usage or {}).get(name)) is not None:
                    sums[name] = sums.get(name, 0) + value
    for _ in range(2):
        found = add_up(home, since=since, by=by)
        totals = [(None, found.total), *found.parts.items()]
        told = {part: {"runs": one.runs, **one.sums} for part, one in totals}
        assert told.keys() == expected.keys()
        for part, sums in expected.items():
            assert told[part] == pytest.approx(sums)


def _parts(info, by):
    if by == "agent":
        return [info.agent or "none"]
    if by == "tag":
        return [f"{key}={value}" for key, value in info.tags.items()] or ["none"]
    if by == "day":
        return [time.strftime("%Y-%m-%d", time.localtime(seconds_of(info.created_at)))]
    return []
