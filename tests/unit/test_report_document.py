"""The document: said once and shown by every medium; cut, where it is cut, in the same way."""

from __future__ import annotations

import html
import re

import pytest

from holdfast.manage.report.document import (
    BRIEF,
    FULL,
    SHARED,
    Bullet,
    BulletList,
    Column,
    ColumnKind,
    DataTable,
    Document,
    Fact,
    KeyFigures,
    Omission,
    Section,
    TimeCharts,
    Tone,
)
from holdfast.manage.report.markdown import markdown
from holdfast.manage.report.page import page
from holdfast.manage.report.sections import charts_alone, document
from holdfast.manage.report.text import text
from holdfast.manage.report.text_charts import UNICODE
from holdfast.run.events import Kind
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from tests.support.report_scenes import (
    SCENES,
    ended,
    happened,
    identity,
    many_attempts,
    sample,
    seen,
    waves,
)

HARMLESS_SCENES = [name for name in SCENES if name != "hostile"]
MEDIA = {
    "text": lambda document: "\n".join(text(document)),
    "plot": lambda document: "\n".join(text(document, is_plotted=True)),
    "Markdown": lambda document: re.sub(r"\\(\W)", r"\1", markdown(document, UNICODE)),
    "page": lambda document: html.unescape(re.sub("<[^>]*>", " ", page(document))),
}
every_medium = pytest.mark.parametrize("medium", MEDIA)


def words(said: str) -> str:
    """Without what wrapping and headings add."""
    return " ".join(said.split()).lower()


def said_in(document: Document) -> list[str]:
    """Every text of a document."""
    found = [document.title, document.id, document.status, document.ending, document.footer]
    found += [part for fact in document.facts for part in (fact.label, fact.text)]
    for section in document.sections:
        match section.block:
            case KeyFigures(facts=facts):
                found += [part for fact in facts for part in (fact.label, fact.text, fact.note)]
            case DataTable(rows=()) as table:
                found.append(table.nothing)
            case DataTable() as table:
                found += [cell for row in table.rows for cell in row]
                found.append("" if table.omission is None else table.omission.text)
            case BulletList(items=items):
                found += [item.text for item in items]
            case TimeCharts() as charts:
                found += [chart.title for chart in charts.charts] or [charts.nothing]
    return found


@every_medium
@pytest.mark.parametrize("scene", HARMLESS_SCENES)
def test_every_medium_says_all_that_is_in_the_document(scene, medium):
    report = document(SCENES[scene](), SHARED)
    shown = words(MEDIA[medium](report))
    assert [said for said in said_in(report) if words(said) not in shown] == []


@every_medium
def test_a_medium_shows_facts_and_sections_that_it_never_met(medium):
    report = document(waves(), FULL)
    columns = (Column("moon", ColumnKind.WORDS), Column("story", ColumnKind.PROSE))
    rows = (("Io", "it has volcanoes, " * 8), ("Europa", "it has ice"))
    planted = (
        Section("Moons", DataTable(columns, rows, "no moon", Omission(1, "90 other moons"))),
        Section("Comets", DataTable(columns, (), "no comet")),
        Section("Sights", KeyFigures((Fact("stars", "6,000", "on a good night"),))),
        Section("Advice", BulletList((Bullet("Bring a coat."),)), "for the night"),
    )
    wider = report.replace(
        facts=(*report.facts, Fact("weather", "clear")), sections=(*report.sections, *planted)
    )
    shown = words(MEDIA[medium](wider))
    for said in ("weather", "clear", "europa", "it has ice", "90 other moons", "no comet"):
        assert said in shown, said
    for said in ("stars", "6,000", "on a good night", "bring a coat."):
        assert said in shown, said
    assert shown.index("volcanoes") < shown.index("90 other moons") < shown.index("europa")


@pytest.mark.parametrize("show", [markdown, page])
def test_no_text_of_a_document_is_taken_for_markup(show):
    evil = "<i>`x`</i>"
    column, bullet = Column(evil, ColumnKind.WORDS), Bullet(evil)
    parts = (
        Section(evil, DataTable((column,), ((evil,),), evil, Omission(1, evil)), evil),
        Section(evil, DataTable((column,), (), evil), evil, is_folded=True),
        Section(evil, KeyFigures((Fact(evil, evil, evil),))),
        Section(evil, BulletList((bullet,)), evil, is_folded=True),
    )
    whole = Document(evil, evil, evil, Tone.GOOD, evil, (Fact(evil, evil),), parts, evil)
    assert not re.search(r"(?<!\\)<i>", show(whole))


def fact(report: Document, label: str) -> str | None:
    return next((one.text for one in report.facts if one.label == label), None)


def table(report: Document, title: str) -> DataTable:
    found = next(one.block for one in report.sections if one.title == title)
    assert isinstance(found, DataTable)
    return found


def test_of_too_many_rows_the_first_and_the_last_are_kept():
    attempts = table(document(many_attempts(), BRIEF), "Attempts")
    assert [row[0] for row in attempts.rows] == [*"123456", "95", "96", "97", "98", "99", "100"]
    assert attempts.omission == Omission(6, "88 more: holdfast report --json lists them all")
    assert table(document(many_attempts(), FULL), "Attempts").omission is None


def test_of_too_long_a_history_the_important_is_kept_in_its_order():
    noise = [(t / 10, Kind.FAULT, {"where": "x", "error": "y"}) for t in range(1, 90)]
    alarm = {"rule": "spin", "severity": "warning", "evidence": "busy"}
    snapshot = seen([], happened(*noise, (9.0, Kind.ANOMALY_FIRED, alarm), ended(9.5)))
    history = table(charts_alone(snapshot, BRIEF), "History")
    assert len(history.rows) == BRIEF.history_rows
    assert [row[1] for row in history.rows][-2:] == ["anomaly", "exit"]
    assert history.omission == Omission(30, "62 more: holdfast report --json lists them all")


def test_what_is_brief_has_no_details():
    report = document(waves(), BRIEF)
    titles = [section.title for section in report.sections]
    assert titles == [
        "Figures",
        "Over time",
        "Unmeasured",
        "Attempts",
        "Workload",
        "Anomalies",
        "Signals",
    ]
    whole = [section.title for section in document(waves(), FULL).sections]
    assert whole == [*titles, "History", "What these figures mean"]
    assert "evidence" not in [column.name for column in table(report, "Signals").columns]


def test_what_is_for_strangers_says_nothing_about_the_machine():
    snapshot = seen([], happened(), cwd="/home/alice/secret", tags={"team": "x"}, agent="claude")
    assert fact(document(snapshot, FULL), "directory") == "/home/alice/secret"
    assert fact(document(snapshot, BRIEF), "tags") == "team=x"
    public = document(snapshot, SHARED)
    assert fact(public, "directory") is fact(public, "tags") is None
    assert fact(public, "agent") == "claude"


@pytest.mark.parametrize(
    ("state", "outcome", "status", "tone"),
    [
        (State.RUNNING, None, "running", Tone.GOOD),
        (State.ORPHANED, None, "orphaned", Tone.WARNING),
        (State.UNKNOWN, None, "unknown", Tone.WARNING),
        (State.ENDED, Outcome.COMPLETED, "ended: completed", Tone.GOOD),
        (State.ENDED, Outcome.STOPPED, "ended: stopped", Tone.WARNING),
        (State.ENDED, Outcome.LOST, "ended: lost", Tone.BAD),
    ],
)
def test_the_status_and_how_it_reads_at_a_glance(state, outcome, status, tone):
    report = document(seen([], happened(), state=state, outcome=outcome), FULL)
    assert (report.status, report.tone) == (status, tone)
    assert report.ending == ("exit code not seen" if state is State.ENDED else "")


def test_a_signal_and_a_core_dump_are_said():
    report = document(
        seen(
            [], happened(), state=State.ENDED, outcome=Outcome.KILLED, signal=11, core_dumped=True
        ),
        FULL,
    )
    assert report.headline == "ended: killed, signal SIGSEGV, core dumped"


def test_a_peak_that_no_sample_shows_is_the_kernels():
    rows = [sample(0.0, 10), sample(1.0, 20)]
    figures = document(seen(rows, happened(ended(1.0))), FULL).sections[0].block
    assert isinstance(figures, KeyFigures)
    assert Fact("memory, highest", "20 MiB", "at 1s") in figures.facts
    usage = {"peak_rss_bytes": 90 << 20, "tokens_in": 6000, "tokens_out": None, "cost_usd": 0.31}
    figures = document(seen(rows, happened(ended(1.0)), usage=usage), FULL).sections[0].block
    assert isinstance(figures, KeyFigures)
    peak = Fact("memory, highest", "90 MiB", "between the samples that are kept")
    assert peak in figures.facts
    assert figures.facts[-2:] == (Fact("tokens", "6k in, ? out"), Fact("cost", "$0.31"))


def test_an_attempt_that_goes_on_is_told_from_one_whose_end_was_not_seen():
    restarted = (4.0, Kind.ATTEMPT_STARTED, {"attempt": 2, "root": identity(51)})
    going = table(document(seen([], happened(restarted)), FULL), "Attempts")
    assert going.rows[1] == ("2", "4s", "goes on", "51", "", "")
    lost = table(document(seen([], happened(restarted), state=State.ENDED), FULL), "Attempts")
    assert lost.rows[1] == ("2", "4s", "unknown", "51", "not seen", "unknown")
