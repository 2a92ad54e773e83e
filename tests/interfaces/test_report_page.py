"""The report's page in a real browser: with and without JavaScript, light, dark and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.run.events import Kind
from tests.interfaces.chromium import Page, a_page
from tests.support.features import needs
from tests.support.report_scenes import (
    ended,
    happened,
    hostile,
    identity,
    nobody,
    page_of,
    sample,
    seen,
    unresolved,
)


@pytest.fixture
def browser(tmp_path) -> Iterator[Page]:
    needs("chromium")
    place = tmp_path / "browser"
    place.mkdir()
    with a_page(place) as found:
        found.shape(1000, 900)
        yield found


def eventful() -> str:
    """A run with everything: gaps, attempts, an anomaly, a stop, children, a limit."""
    rows = [unresolved(0.0), unresolved(1.0)]
    rows += [
        sample(
            float(t),
            20 + 3 * t,
            cpu=10.0 * (t % 7),
            tree={"processes": 2, "rss_bytes": (50 + 3 * t) << 20, "cpu_percent": 15.0 * (t % 7)}
            | ({"chars": 1, "read_bytes": 0, "write_bytes": t * t << 16} if t % 5 == 0 else {}),
        )
        for t in range(2, 40)
    ]
    rows += [nobody(40.0), nobody(41.0)] + [sample(float(t), 30) for t in range(42, 60)]
    resolved = {"resolution": "resolved", "workload": {**identity(42), "comm": "work"}, "why": "x"}
    alarm = {"rule": "memory_growth", "severity": "warning", "evidence": "grew"}
    events = happened(
        (2.0, Kind.WORKLOAD_RESOLVED, resolved),
        (30.0, Kind.ANOMALY_FIRED, alarm),
        (40.0, Kind.ROOT_EXITED, {"attempt": 1, "exit_code": 1, "signal": None}),
        (42.0, Kind.ATTEMPT_STARTED, {"attempt": 2, "root": identity(51)}),
        (58.0, Kind.STOP_BEGUN, {"cause": "user"}),
        ended(60.0, "stopped"),
    )
    wanted = {"sample_interval_seconds": 1.0, "memory_max_bytes": 600 << 20}
    return page_of(seen(rows, events, wanted=wanted))


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "page.html"
    path.write_text(text)
    return path


def test_it_asks_for_nothing_and_complains_of_nothing(browser, tmp_path):
    path = write(tmp_path, eventful())
    browser.open(path)
    assert browser.look("document.querySelectorAll('.area[data-chart]').length") == 4
    assert set(browser.requests) <= {path.as_uri(), "data:,"}
    assert browser.complaints == []


def test_charts_are_drawn_with_their_axes_inside_the_page(browser, tmp_path):
    browser.open(write(tmp_path, eventful()))
    for width in (1000, 375):
        browser.shape(width, 900)
        assert browser.look("document.documentElement.scrollWidth") <= width
        boxes = browser.look(
            "[...document.querySelectorAll('.area')].map(e => e.getBoundingClientRect().width)"
        )
        assert all(box > width / 2 for box in boxes)
        hidden = browser.look(CUT_OFF)
        assert hidden == []


# Numbers of the axes that reach out of their picture, or over each other.
CUT_OFF = """
[...document.querySelectorAll('.side, .area[data-chart]')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter(t => t.getBoundingClientRect().width);
  const boxes = texts.map(t => [t.getBoundingClientRect(), t.textContent]);
  return boxes.filter(([b], i) => b.left < frame.left - 1 || b.right > frame.right + 4 ||
    b.top < frame.top - 1 || b.bottom > frame.bottom + 1 ||
    boxes.some(([o], j) => j > i && b.left < o.right && o.left < b.right &&
      b.top < o.bottom - 3 && o.top < b.bottom - 3)).map(([, text]) => text);
})
"""


def test_values_are_read_with_the_mouse_and_with_keys(browser, tmp_path):
    browser.open(write(tmp_path, eventful()))
    where = "document.querySelector('[data-chart=memory]')"
    browser.look(f"{where}.scrollIntoView({{block: 'center'}})")
    box = browser.look(f"(b => [b.left, b.top, b.width])({where}.getBoundingClientRect())")
    browser.point_at(box[0] + box[2] / 2, box[1] + 50)
    read = "[...document.querySelectorAll('.readout')].map(e => e.textContent)"
    told = browser.look(read)
    assert told[1].startswith("at 30.0s: whole tree, resident 140 MiB, workload alone")
    assert told[0].startswith("at 30.0s: whole tree 30 %")
    browser.point_at(box[0] + 2, box[1] + 50)
    assert "not known" in browser.look(read)[1]
    browser.look(f"{where}.focus()")
    before = browser.look(read)[1]
    browser.press("ArrowRight")
    assert browser.look(read)[1] != before


def test_it_says_everything_without_javascript(browser, tmp_path):
    browser.open(write(tmp_path, eventful()), scripts=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)  # to look, not for the page
    text = browser.look("document.body.innerText")
    for said in (
        "work",
        "stopped",
        "root exited 0 (seen by waitid)",
        "memory_growth",
        "Attempts",
        "exit 1",
        "at most 167 MiB, at 39s",
        "limit 600 MiB",
        "unresolved for 2.0s: it was not known which process is the workload",
        "no process for 2.0s: no process was alive",
    ):
        assert said in text, said
    assert browser.look("document.querySelectorAll('.line0[d^=M]').length") >= 4


def test_it_is_light_or_dark_as_its_reader_likes_and_readable_in_both(browser, tmp_path):
    browser.open(write(tmp_path, eventful()))
    grounds = []
    for dark in (False, True):
        browser.shape(1000, 900, dark=dark)
        ground = browser.look("getComputedStyle(document.body).backgroundColor")
        grounds.append(_lightness(ground))
        for part in ("body", "small", "th", ".badge", ".facts dt", ".legend span"):
            colour = browser.look(f"getComputedStyle(document.querySelector('{part}')).color")
            assert _contrast(ground, colour) >= 4.5, (part, dark)
        line = browser.look("getComputedStyle(document.querySelector('.line0')).stroke")
        assert _contrast(ground, line) >= 3, dark
    assert grounds[0] > 0.8
    assert grounds[1] < 0.2


def _lightness(colour: str) -> float:
    """Relative luminance of `rgb(1, 2, 3)`."""
    parts = [int(part) / 255 for part in colour[4:-1].split(", ")]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_lightness(one), _lightness(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_that_a_process_calls_itself_runs(browser, tmp_path):
    text = page_of(hostile())
    browser.open(write(tmp_path, text))
    assert browser.complaints == []
    assert browser.look("document.scripts.length") == 2
    assert '<script>alert("x")</script>' in browser.look("document.querySelector('pre').innerText")


def test_what_slipped_in_would_not_run_either(browser, tmp_path):
    planted = (
        "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'o'\">"
    )
    browser.open(write(tmp_path, eventful().replace("<main>", f"<main>{planted}")))
    assert browser.look("document.title").startswith("work")
    assert any("Content Security Policy" in said for said in browser.complaints)


def test_a_long_trace_and_an_empty_one_are_shown(browser, tmp_path):
    rows = [sample(float(t), 900 if t == 7777 else 10) for t in range(20_000)]
    browser.open(write(tmp_path, page_of(seen(rows, happened(ended(19_999.0))))))
    assert "at most 900 MiB, at 2h9m" in browser.look("document.body.innerText")
    browser.open(write(tmp_path, page_of(seen([], happened(ended(3.0))))))
    assert "nothing was measured" in browser.look("document.body.innerText")
    assert browser.complaints == []
