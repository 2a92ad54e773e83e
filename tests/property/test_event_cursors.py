"""Whatever runs do and whenever a reader stops: a cursor loses nothing and repeats nothing."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.reading import events
from holdfast.manage.reading.cursor import SETTLE_SECONDS
from holdfast.manage.reading.events import all_events
from holdfast.process.clock import iso_time
from holdfast.run.home import Home
from holdfast.run.names import CROCKFORD

TOTAL_SECONDS = 1000


class Life(NamedTuple):
    """One run: when its id was made, when its events happened, how many of them at first."""

    made_seconds_ago: int
    delays: list[int]
    ends: bool
    known_at_first: int
    is_late: bool  # its directory appears only after the first reader


lives = st.builds(
    Life,
    st.integers(0, TOTAL_SECONDS),
    st.lists(st.integers(-5, 300), min_size=1, max_size=6),
    st.booleans(),
    st.integers(0, 6),
    st.booleans(),
)


def _id(seconds: int, number: int) -> str:
    value = seconds << 64 | number
    return "".join(CROCKFORD[value >> 5 * place & 31] for place in reversed(range(20)))


class World:
    """Run directories that hold nothing but events."""

    def __init__(self, home: Home, runs: list[Life], now: int) -> None:
        self._home = home
        self._events: dict[str, list[str]] = {}
        self._runs: dict[str, Life] = {}
        for number, life in enumerate(runs):
            run_id = _id(now - life.made_seconds_ago, number)
            # A launcher that is slower than the settling time is not to be expected.
            late = life.is_late and life.made_seconds_ago < SETTLE_SECONDS // 2
            self._runs[run_id] = life._replace(is_late=late)
            self._events[run_id] = list(_lines(life, now))

    def show(self, *, everything: bool) -> None:
        """Write what a reader finds now."""
        for run_id, life in self._runs.items():
            if life.is_late and not everything:
                continue
            directory = Path(self._home.runs_path) / run_id
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "spec.json").write_text("{}")
            count = None if everything else life.known_at_first
            (directory / "events.jsonl").write_text("".join(self._events[run_id][:count]))

    def all(self) -> set[tuple[str, int]]:
        """Every event that there will ever be."""
        return {(i, seq) for i, lines in self._events.items() for seq in range(1, len(lines) + 1)}


def _lines(life: Life, now: int):
    at = now - life.made_seconds_ago
    for seq, delay in enumerate(life.delays, 1):
        at += delay
        last = life.ends and seq == len(life.delays)
        kind = {"kind": "ended", "outcome": "failed"} if last else {"kind": "running"}
        head = {"seq": seq, "at": iso_time(at), "boottime": float(at)}
        yield json.dumps({**head, **kind}) + "\n"


def _read(home: Home, since: str | None = None):
    return list(all_events(home, since=since, follow=False))


@given(st.lists(lives, max_size=6), st.sampled_from([1, 2, 3, 256]), st.data())
def test_a_reader_goes_on_exactly_where_another_stopped(runs, soon, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_SOON", soon)  # most histories are longer than that
        _stop_and_go_on(runs, data)


def _stop_and_go_on(runs, data):
    with tempfile.TemporaryDirectory() as path:
        home = Home(path)
        Path(home.runs_path).mkdir()
        world = World(home, runs, int(time.time()))
        world.show(everything=False)
        before = _read(home)
        given_before = [(event.run, event.seq) for event in before]
        assert len(set(given_before)) == len(given_before)
        for run_id in {event.run for event in before}:
            own = [event.seq for event in before if event.run == run_id]
            assert own == list(range(1, len(own) + 1))
        if before:
            stopped_at = data.draw(st.integers(0, len(before) - 1))
            same = _read(home, before[stopped_at].cursor)
            assert [(one.run, one.seq) for one in same] == given_before[stopped_at + 1 :]
        world.show(everything=True)
        stopped_at = data.draw(st.integers(-1, len(before) - 1))
        cursor = before[stopped_at].cursor if stopped_at >= 0 else None
        after = [(event.run, event.seq) for event in _read(home, cursor)]
        seen = given_before[: stopped_at + 1]
        assert len(set(after)) == len(after)
        assert not set(after) & set(seen)
        assert set(after) | set(seen) == world.all()
