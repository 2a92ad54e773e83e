"""Text and charts for a terminal: 80 columns, units, gaps that are seen, nothing that moves."""

from __future__ import annotations

import functools

import pytest

from holdfast.manage.report.plot import ASCII, HEIGHT, UNICODE, plot, sparkline
from holdfast.manage.report.text import text
from holdfast.run.events import Kind
from holdfast.run.facts import State
from tests.support.report_scenes import (
    ended,
    happened,
    hostile,
    identity,
    nobody,
    sample,
    seen,
    unresolved,
)

STOPPED = (7.0, Kind.STOP_BEGUN, {"cause": "user", "detail": "asked by uid 0"})


def waves():
    rows = [unresolved(0.0), unresolved(1.0)]
    rows += [sample(float(t), 10 * (t % 4), cpu=20.0 * (t % 3)) for t in range(2, 6)]
    rows += [nobody(6.0), sample(7.0, 10), sample(8.0, 0, cpu=0.0)]
    alarm = {"rule": "spin", "severity": "warning", "evidence": "busy for nothing"}
    return seen(rows, happened((5.0, Kind.ANOMALY_FIRED, alarm), STOPPED, ended(8.0)))


SCENES = {
    "waves": waves,
    "hostile": hostile,
    "empty": lambda: seen([], happened(ended(3.0))),
    "nothing known": lambda: seen(state=State.UNKNOWN, wanted=None, command=None, name=None),
    "one sample": lambda: seen([sample(1.0, 30)], happened(ended(2.0))),
    "one sample at once": lambda: seen([sample(0.0, 30)], happened()),
    "long": lambda: seen([sample(float(t), t % 977) for t in range(20_000)], happened()),
    "many attempts": lambda: seen(
        [sample(0.0, 30)],
        happened(
            *((t, Kind.ATTEMPT_STARTED, {"attempt": t, "root": identity(t)}) for t in range(2, 99))
        ),
    ),
}
SCENES = {name: functools.cache(make) for name, make in SCENES.items()}
every_scene = pytest.mark.parametrize("scene", SCENES)


@every_scene
@pytest.mark.parametrize("show", [text, plot])
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_screen_or_moves_the_cursor(scene, show, width):
    lines = show(SCENES[scene](), width)
    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if not line.isprintable()] == []
    assert lines


@every_scene
@pytest.mark.parametrize("show", [text, plot])
def test_a_screen_that_knows_ascii_alone_gets_that(scene, show):
    lines = show(SCENES[scene](), 80, ASCII)
    assert "".join(lines).isascii()


@pytest.mark.parametrize("show", [text, plot])
def test_secrets_are_not_shown(show):
    assert "sk-1234567890abcdefghij" not in "\n".join(show(hostile(), 80))


def test_charts_have_a_title_a_unit_axes_and_marks():
    lines = plot(waves())
    titles = [line for line in lines if line.startswith(("CPU (", "Memory (", "I/O (", "Proc"))]
    assert [title.split("  ")[0] for title in titles] == [
        "CPU (% of one core)",
        "Memory (MiB)",
        "I/O (bytes/s)",
        "Processes (number)",
    ]
    chart = lines[lines.index(titles[0]) :][: HEIGHT + 3]
    assert chart[1].startswith("      40┤")
    assert chart[HEIGHT + 1].startswith("       0└0s")
    marks = chart[HEIGHT + 2][9:]
    assert (marks[0], marks.count("!"), marks.count("#"), marks.rstrip()[-1]) == (">", 1, 1, "x")


def test_what_was_not_measured_is_drawn_as_such_and_said():
    lines = plot(waves())
    floor = lines[HEIGHT][9:]
    assert floor.startswith("???")
    assert "·" in floor
    assert "not measured:  ? unresolved   · no process" in lines
    assert any("it was not known which process is the workload" in line for line in lines)


def test_a_known_0_is_drawn_and_is_no_gap():
    lines = plot(seen([sample(float(t), 5, cpu=0.0) for t in range(9)], happened(ended(8.0))))
    assert set(lines[HEIGHT][9:].rstrip()) == {"▁"}


def test_a_peak_is_drawn_however_many_samples_there_are():
    rows = [sample(float(t), 900 if t == 7777 else 10) for t in range(20_000)]
    lines = plot(seen(rows, happened(ended(19_999.0))))
    top = lines[lines.index(next(line for line in lines if line.startswith("Memory"))) + 1]
    assert top[9:].strip(" ") in set("▁▂▃▄▅▆▇█")


def test_a_sparkline_is_blank_where_nothing_is_known():
    line = waves().chart("memory").lines[0]
    drawn = sparkline(line, waves(), 8)
    assert len(drawn) == 8
    assert drawn[:2] == "  "
    assert set(drawn) <= set(UNICODE.bars)


def test_what_is_unknown_is_said_and_never_0():
    lines = text(seen([], happened(ended(3.0))))
    figures = [line for line in lines if line.startswith(("CPU", "memory", "swap", "read", "writ"))]
    assert len(figures) == 7
    assert all("unknown" in line for line in figures)
    assert any(line == "anomalies  unknown: nothing was measured" for line in lines)
    assert "nothing was measured" in plot(seen([], happened(ended(3.0))))


def test_a_run_that_nobody_measures_any_more_is_said_to_be_stale():
    stale = seen([sample(1.0, 5)], happened(), state=State.ORPHANED, looked_at=600.0)
    assert any("the last sign of it is 9m59s old" in line for line in text(stale))
    fresh = seen([sample(1.0, 5)], happened(), looked_at=2.0)
    assert not any("last sign" in line for line in text(fresh))


def test_many_rows_are_cut_in_the_middle():
    lines = text(SCENES["many attempts"]())
    assert any("more ..." in line for line in lines)
    assert len(lines) < 60


def test_the_same_material_gives_the_same_text():
    assert text(waves()) == text(waves())
    assert plot(waves()) == plot(waves())
