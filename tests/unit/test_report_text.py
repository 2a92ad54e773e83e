"""Text and charts for a terminal: 80 columns, units, gaps that are seen, nothing that moves."""

from __future__ import annotations

import pytest

from holdfast.manage.report.text_charts import ASCII, HEIGHT, UNICODE
from holdfast.run.facts import State
from tests.support.report_scenes import (
    SCENES,
    ended,
    happened,
    hostile,
    plot_of,
    sample,
    seen,
    text_of,
    waves,
)

FIRST_CHART = 2  # its title, below that of the run
every_scene = pytest.mark.parametrize("scene", SCENES)


@every_scene
@pytest.mark.parametrize("show", [text_of, plot_of])
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_screen_or_moves_the_cursor(scene, show, width):
    lines = show(SCENES[scene](), width)
    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if not line.isprintable()] == []
    assert lines


@every_scene
@pytest.mark.parametrize("show", [text_of, plot_of])
def test_a_screen_that_knows_ascii_alone_gets_that(scene, show):
    lines = show(SCENES[scene](), 80, ASCII)
    assert "".join(lines).isascii()


@pytest.mark.parametrize("show", [text_of, plot_of])
def test_secrets_are_not_shown(show):
    assert "sk-1234567890abcdefghij" not in "\n".join(show(hostile(), 80))


def test_charts_have_a_title_a_unit_axes_and_marks():
    lines = plot_of(waves())
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
    lines = plot_of(waves())
    floor = lines[FIRST_CHART + HEIGHT][9:]
    assert floor.startswith("???")
    assert "·" in floor
    why = "it was not known which process is the workload"
    at = lines.index(f"unmeasured ? unresolved for 2.0s: {why}")
    assert lines[at + 1] == "           · no process for 1.0s: no process was alive"


def test_a_known_0_is_drawn_and_is_no_gap():
    lines = plot_of(seen([sample(float(t), 5, cpu=0.0) for t in range(9)], happened(ended(8.0))))
    assert set(lines[FIRST_CHART + HEIGHT][9:].rstrip()) == {"▁"}


def test_a_peak_is_drawn_however_many_samples_there_are():
    rows = [sample(float(t), 900 if t == 7777 else 10) for t in range(20_000)]
    lines = plot_of(seen(rows, happened(ended(19_999.0))))
    top = lines[lines.index(next(line for line in lines if line.startswith("Memory"))) + 1]
    assert top[9:].strip(" ") in set("▁▂▃▄▅▆▇█")


@pytest.mark.parametrize("ink", [UNICODE, ASCII])
def test_a_sparkline_has_the_sign_of_the_gap_where_nothing_is_known(ink):
    lines = text_of(waves(), ink=ink)
    drawn = next(line for line in lines if line.startswith("Memory"))[11:]
    gaps = "".join(ink.gaps.values())
    assert len(drawn) == 40
    assert drawn[:9] == "?" * 9
    assert set(drawn) <= set(ink.bars + gaps)
    assert not set(ink.bars) & set(gaps)


def test_what_is_unknown_is_said_and_never_0():
    lines = text_of(seen([], happened(ended(3.0))))
    figures = [line for line in lines if line.startswith(("CPU", "memory", "swap", "read", "writ"))]
    assert len(figures) == 7
    assert all("unknown" in line for line in figures)
    assert any(line == "anomalies  unknown: nothing was measured" for line in lines)
    assert "nothing was measured (samples: none)" in lines
    assert "nothing was measured (samples: none)" in plot_of(seen([], happened(ended(3.0))))


def test_a_run_that_nobody_measures_any_more_is_said_to_be_stale():
    stale = seen([sample(1.0, 5)], happened(), state=State.ORPHANED, looked_at=600.0)
    assert any("the last sign of it is 9m59s old" in line for line in text_of(stale))
    fresh = seen([sample(1.0, 5)], happened(), looked_at=2.0)
    assert not any("last sign" in line for line in text_of(fresh))


def test_many_rows_are_cut_in_the_middle():
    lines = text_of(SCENES["many attempts"]())
    assert "           ... 88 more: holdfast report --json lists them all" in lines
    assert len(lines) < 60


@pytest.mark.parametrize("scene", ["waves", "many attempts", "one sample"])
def test_a_table_has_no_holes_however_wide_the_screen_is(scene):
    def blanks(width: int) -> int:
        return sum(not line.strip() for line in text_of(SCENES[scene](), width))

    assert {blanks(width) for width in range(40, 130)} == {blanks(80)}


def test_the_same_material_gives_the_same_text():
    assert text_of(waves()) == text_of(waves())
    assert plot_of(waves()) == plot_of(waves())
