"""The page as text: it needs nothing else, and whatever a process calls itself stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from holdfast.manage.report.markup import element, escaped, raw
from holdfast.run.facts import State
from tests.support.report_scenes import (
    SCENES,
    ended,
    happened,
    hostile,
    page_of,
    sample,
    seen,
    unresolved,
)

every_scene = pytest.mark.parametrize("scene", SCENES)


class Reader(HTMLParser):
    """Which elements and attributes a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


@every_scene
def test_every_run_makes_a_page_whose_elements_all_end(scene):
    reader = read(page_of(SCENES[scene]()))
    assert [tag for tag, _ in reader.found].count("script") == 2
    assert [tag for tag, _ in reader.found].count("h1") == 1


@every_scene
def test_a_page_needs_nothing_else(scene):
    text = page_of(SCENES[scene]())
    assert "http:" not in text
    assert "https:" not in text
    for tag, attributes in read(text).found:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "a")
        assert attributes.keys().isdisjoint({"src", "style", "srcset", "action"})
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href") in (None, "data:,")


def test_a_hostile_name_is_text_everywhere():
    text = page_of(hostile())
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "sk-1234567890abcdefghij" not in text
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in text


def test_only_its_own_script_and_style_may_run():
    text = page_of(hostile())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert (len(scripts), len(styles)) == (1, 1)
    for content in (*scripts, *styles):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"&#x27;sha256-{digest}&#x27;" in policy[1]
    assert policy[1].startswith("default-src &#x27;none&#x27;")


def data_of(text: str):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_long_trace_is_drawn_with_fewer_points_and_all_of_its_peaks():
    rows = [sample(float(t), 900 if t == 7777 else 10 + t % 7) for t in range(20_000)]
    text = page_of(seen(rows, happened(ended(19_999.0))))
    assert len(text) < 1_000_000
    memory = next(chart for chart in data_of(text)["charts"] if chart["key"] == "memory")
    points = [point for segment in memory["lines"][0]["segments"] for point in segment]
    assert len(points) < 4000
    assert max(value for _, value in points) == 900 * (1 << 20)


def test_a_gap_is_drawn_as_a_gap():
    text = page_of(SCENES["waves"]())
    assert text.count('class="gap hatched"') == 5 + 1  # four charts, the time line, the legend
    line = re.search(r'class="line line0" d="([^"]*)"', text)
    assert line is not None
    assert line[1].count("M") == 2


def test_a_trace_that_flickers_makes_no_endless_page():
    rows = [unresolved(float(t)) if t % 2 else sample(float(t), t % 97) for t in range(10_000)]
    text = page_of(seen(rows, happened(ended(9_999.0))))
    assert len(text) < 2_000_000
    assert text.count('class="gap hatched"') < 100


def test_one_sample_is_a_dot():
    assert 'class="dot line0"' in page_of(SCENES["one sample"]())


def test_without_samples_it_says_so_instead_of_drawing():
    text = page_of(seen([], happened(ended(3.0))))
    assert "nothing was measured (samples: none)" in text
    assert 'data-chart="cpu"' not in text
    assert "unknown" in text


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_badge(state):
    assert f">{state.value}</span>" in page_of(seen([], happened(), state=state))


def test_charts_have_titles_units_legends_and_words_for_those_who_can_t_see_them():
    text = page_of(SCENES["waves"]())
    for key, title, unit in (
        ("cpu", "CPU", "% of one core"),
        ("memory", "Memory", "MiB"),
        ("io", "I/O", "bytes/s"),
        ("processes", "Processes", "number"),
    ):
        assert f'<h3 id="{key}-title">{title} <small>{unit}</small></h3>' in text
        assert f'aria-labelledby="{key}-title" aria-describedby="{key}-words"' in text
        assert f'id="{key}-words"' in text


def test_text_is_escaped_once_and_markup_is_not():
    made = element("p", "<b>", element("b", "&"), None, title='"', data_x=1.50, hidden=None)
    assert made == '<p title="&quot;" data-x="1.5">&lt;b&gt;<b>&amp;</b></p>'
    assert escaped("a\x00b\nc") == "a\\x00b\nc"
    assert escaped("\udcff") == "\\udcff"


def test_what_would_end_a_script_early_is_refused():
    with pytest.raises(ValueError, match="end early"):
        raw("script", "</script>")
