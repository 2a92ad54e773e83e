"""What a report says about a run: which facts, in which words and order. Pure.

A fact is added here and nowhere else: renderers show whatever is in the document. Unknown is said,
never 0.
"""

from __future__ import annotations

from holdfast import __version__
from holdfast.manage.report.document import (
    Bullet,
    BulletList,
    Column,
    ColumnKind,
    DataTable,
    Document,
    Fact,
    KeyFigures,
    Omission,
    Quotation,
    Section,
    TimeCharts,
    Tone,
)
from holdfast.manage.report.gaps import MEANING, Lack
from holdfast.manage.report.marks import MarkKind
from holdfast.manage.report.scale import amount, axis_seconds, time_text, volume
from holdfast.manage.words.reasons import proof, why
from holdfast.process.clock import seconds_of
from holdfast.process.signals import signal_name
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from holdfast.run.units import count, duration, money
from holdfast.shell_words import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.manage.info import RunInfo
    from holdfast.manage.report.document import Extent
    from holdfast.manage.report.snapshot import AttemptRow, Snapshot

    Cells = tuple[str, ...]

_NUMBER, _PROSE, _WORDS = ColumnKind.NUMBER, ColumnKind.PROSE, ColumnKind.WORDS
_IMPORTANCE = list(MarkKind)
_ANSWER_LINES = 40
_CAUTIONS = (
    "CPU is in percent of one core: two busy cores are 200 %.",
    "Resident memory counts a page that processes share once for each of them; PSS counts it once.",
    "A sample is a moment: what came and went between two of them is not in the lines.",
    "I/O is what reached storage, as a mean between two readings; cached reads and pipes are not.",
    "A gap is a time that nothing is known about, never a 0.",
)


def document(snapshot: Snapshot, extent: Extent) -> Document:
    """The report."""
    return _headed(snapshot, tuple(_facts(snapshot, extent)), sections(snapshot, extent))


def charts_alone(snapshot: Snapshot, extent: Extent) -> Document:
    """The part of the report that is about time."""
    parts = (_over_time(snapshot), _unmeasured(snapshot), _history(snapshot, extent))
    return _headed(snapshot, (), tuple(filter(None, parts)))


def sections(snapshot: Snapshot, extent: Extent) -> tuple[Section, ...]:
    """The parts below the head, in the order in which one asks."""
    parts = [
        *_said(snapshot.info),
        Section("Figures", KeyFigures(tuple(_figures(snapshot)))),
        _over_time(snapshot),
        _unmeasured(snapshot),
        _attempts(snapshot, extent),
        _workloads(snapshot, extent),
        _anomalies(snapshot, extent),
        _signals(snapshot, extent),
    ]
    if extent.has_details:
        parts.append(_history(snapshot, extent))
        cautions = BulletList(tuple(map(Bullet, _CAUTIONS)))
        parts.append(Section("What these figures mean", cautions, is_folded=True))
    return tuple(filter(None, parts))


# What it said


def _said(info: RunInfo) -> Iterator[Section]:
    """An agent's answer or error, and what a run that did not succeed wrote last."""
    result = info.result or {}
    if result.get("text"):
        lines = str(result["text"]).strip().split("\n")
        kept = tuple(lines[:_ANSWER_LINES]) + (("...",) if len(lines) > _ANSWER_LINES else ())
        yield Section("Error" if result.get("is_error") else "Result", Quotation(kept))
    last = info.last_output or {}
    for stream, title in (("stderr", "Last errors"), ("output", "Last output")):
        if last.get(stream):
            yield Section(title, Quotation(tuple(map(str, last[stream]))))


# The head


def _headed(snapshot: Snapshot, facts: tuple[Fact, ...], parts: tuple[Section, ...]) -> Document:
    info = snapshot.info
    return Document(
        title=info.name or info.id,
        id=info.id,
        status=_status(info),
        tone=_tone(info),
        ending=_ending(info) if info.state is State.ENDED else "",
        facts=facts,
        sections=parts,
        footer=f"Made by Holdfast {__version__}, {utc(snapshot.looked_at)}; secrets are replaced",
    )


def _status(info: RunInfo) -> str:
    return info.state.value if info.outcome is None else f"{info.state}: {info.outcome}"


def _tone(info: RunInfo) -> Tone:
    if info.state is not State.ENDED:
        return Tone.WARNING if info.state.needs_recovery else Tone.GOOD
    if info.outcome is Outcome.STOPPED:
        return Tone.WARNING
    return Tone.GOOD if info.outcome is not None and info.outcome.is_success else Tone.BAD


def _ending(info: RunInfo) -> str:
    by = f"ended by {info.ended_by}, " if info.ended_by is not None else ""
    if info.signal is not None:
        core = ", core dumped" if info.core_dumped else ""
        return f"{by}signal {signal_name(info.signal)}{core}"
    return by + ("exit code not seen" if info.exit_code is None else f"exit code {info.exit_code}")


def _facts(snapshot: Snapshot, extent: Extent) -> Iterator[Fact]:
    info = snapshot.info
    reason = why(info)
    if reason:
        yield Fact("why", reason)
    yield Fact("command", _command(info, extent.command_characters), is_code=True)
    yield Fact("time", _time(info))
    if info.cwd and not extent.is_public:
        yield Fact("directory", info.cwd)
    if info.agent:
        yield Fact("agent", info.agent)
    if info.tags and not extent.is_public:
        yield Fact("tags", " ".join(f"{key}={value}" for key, value in info.tags.items()))
    if info.log_bytes is not None:
        yield Fact("output", volume(info.log_bytes))
    yield Fact("samples", _samples(snapshot))
    stale = _staleness(snapshot)
    if stale is not None:
        yield Fact("now", stale)
    if not reason or proof(info):
        yield Fact("evidence", info.evidence or "none")


def _command(info: RunInfo, most: int | None) -> str:
    """As a shell would take it, without secrets."""
    if info.command is None:
        return "unknown"
    text = " ".join(command_line(info.command).split("\n"))
    return text if most is None or len(text) <= most else f"{text[: most - 4]} ..."


def _time(info: RunInfo) -> str:
    if info.started_at is None:
        asked = f"asked for {utc(info.created_at)}, " if info.created_at else ""
        words = {State.ENDED: "never started", State.UNKNOWN: "unknown whether it started"}
        return asked + words.get(info.state, "not started yet")
    if info.duration_seconds is None:
        return f"started {utc(info.started_at)}; the end was not seen"
    lasted = "ran" if info.state is State.ENDED else "runs for"
    return f"started {utc(info.started_at)}, {lasted} {duration(info.duration_seconds)}"


def utc(at: str | None) -> str:
    """`2026-11-15 22:20:10 UTC`."""
    return "unknown" if at is None else f"{at[:19].replace('T', ' ')} UTC"


def _samples(snapshot: Snapshot) -> str:
    number, every = snapshot.sample_count, snapshot.interval_seconds
    often = f", every {time_text(every)}" if every else ""
    if every == 0:
        often = ": the run was started with --sample-interval 0"
    damaged = snapshot.damaged_count
    lost = f"; {damaged:,} damaged, and left out" if damaged else ""
    if not number:
        return f"none{often if every == 0 else ''}{lost}"
    return f"{number:,} sample{'' if number == 1 else 's'} kept{often}{lost}"


def _staleness(snapshot: Snapshot) -> str | None:
    """For a run that goes on but was not measured for a while."""
    info = snapshot.info
    if info.state is State.ENDED or snapshot.origin_at is None or not snapshot.sample_count:
        return None
    ago = seconds_of(snapshot.looked_at) - seconds_of(snapshot.origin_at) - snapshot.seconds
    late = 3 * max(snapshot.interval_seconds or 0.0, 1.0)
    return f"the last sign of it is {duration(ago)} old" if ago > late else None


# Figures, charts, gaps


def _figures(snapshot: Snapshot) -> Iterator[Fact]:
    usage = snapshot.usage
    yield _peak(snapshot, "CPU, highest", "cpu", "peak_cpu_percent")
    mean = amount(snapshot.chart("cpu").measure, snapshot.mean_cpu_percent)
    yield Fact("CPU, mean", mean, "of one core, while measured")
    yield Fact("CPU time", duration(usage.get("cpu_seconds")) or "unknown", "whole tree")
    yield _peak(snapshot, "memory, highest", "memory", "peak_rss_bytes")
    yield Fact("swap, highest", volume(usage.get("peak_swap_bytes")), "whole tree")
    yield Fact("read", volume(usage.get("read_bytes")), "from storage, in all")
    yield Fact("written", volume(usage.get("write_bytes")), "to storage, in all")
    yield _peak(snapshot, "processes, most", "processes", "peak_processes")
    if any(usage.get(name) is not None for name in ("tokens_in", "tokens_out", "cost_usd")):
        sums = (count(usage.get("tokens_in")) or "?", count(usage.get("tokens_out")) or "?")
        yield Fact("tokens", f"{sums[0]} in, {sums[1]} out")
        yield Fact("cost", money(usage.get("cost_usd")) or "unknown")


def _peak(snapshot: Snapshot, label: str, key: str, figure: str) -> Fact:
    """The recorded peak, and when it was; the kernel knows of peaks that no sample shows."""
    chart, recorded = snapshot.chart(key), snapshot.usage.get(figure)
    seen = chart.lines[0].peak()
    value = recorded if recorded is not None else seen[1] if seen else None
    if value is None:
        return Fact(label, "unknown")
    note = "between the samples that are kept"
    if seen is not None and seen[1] >= value * 0.999:
        note = f"at {time_text(seen[0])}"
    return Fact(label, amount(chart.measure, value), note)


def _over_time(snapshot: Snapshot) -> Section:
    charts = TimeCharts(
        seconds=axis_seconds(snapshot.seconds),
        charts=snapshot.charts if snapshot.has_figures else (),
        stretches=snapshot.stretches,
        marks=tuple(mark for mark in snapshot.marks if mark.seconds <= snapshot.seconds),
        nothing=f"nothing was measured (samples: {_samples(snapshot)})",
    )
    return Section("Over time", charts, "counted from the first attempt's start")


def _unmeasured(snapshot: Snapshot) -> Section | None:
    """`unresolved for 1.2s (2 times): it was not known which process is the workload`."""
    items = []
    for lack in Lack:
        lengths = [one.seconds for one in snapshot.stretches if one.lack is lack]
        if lengths:
            times = f" ({len(lengths)} times)" if len(lengths) > 1 else ""
            text = f"{lack} for {duration(sum(lengths))}{times}: {MEANING[lack]}"
            items.append(Bullet(text, lack))
    return Section("Unmeasured", BulletList(tuple(items))) if items else None


# Tables

_KINDS = {
    **dict.fromkeys(("when", "time of day", "attempt", "began", "lasted", "root"), _NUMBER),
    **dict.fromkeys(("evidence", "why", "what"), _PROSE),
}


def _attempts(snapshot: Snapshot, extent: Extent) -> Section:
    head = ("attempt", "began", "lasted", "root", "ending", "outcome")
    rows = [_attempt(one, snapshot.info) for one in snapshot.attempts]
    return Section("Attempts", _table(head, rows, extent, "none was started"))


def _attempt(attempt: AttemptRow, info: RunInfo) -> Cells:
    is_over = attempt.outcome is not None or not info.is_active
    if attempt.signal is not None:
        ending = signal_name(attempt.signal)
    elif attempt.exit_code is not None:
        ending = f"exit {attempt.exit_code}"
    else:
        ending = "not seen" if is_over else ""
    return (
        str(attempt.attempt),
        time_text(attempt.seconds),
        duration(attempt.lasted_seconds) or ("unknown" if is_over else "goes on"),
        "unknown" if attempt.root_pid is None else str(attempt.root_pid),
        ending,
        attempt.outcome or ("unknown" if is_over else ""),
    )


def _workloads(snapshot: Snapshot, extent: Extent) -> Section:
    head = ("when", "workload", "behind", "found", "why")
    rows = [
        (
            time_text(one.seconds),
            one.workload or "none",
            ", ".join(one.wrappers) or "nothing",
            one.resolution,
            one.why,
        )
        for one in snapshot.findings
    ]
    nothing = "no process was taken for the workload"
    return Section("Workload", _table(head, rows, extent, nothing))


def _anomalies(snapshot: Snapshot, extent: Extent) -> Section:
    head = ("when", "rule", "severity", "process", "evidence")
    rows = [
        (time_text(one.seconds), one.rule, one.severity, one.process or "", one.evidence)
        for one in snapshot.anomalies
    ]
    nothing = "none" if snapshot.has_figures else "unknown: nothing was measured"
    return Section("Anomalies", _table(head, rows, extent, nothing))


def _signals(snapshot: Snapshot, extent: Extent) -> Section:
    head = ("when", "signal", "to", "fate", "proof", "why", "evidence")
    rows = [
        (
            time_text(one.seconds),
            one.signal,
            one.to,
            one.fate,
            one.proof or "none",
            one.why,
            one.evidence,
        )
        for one in snapshot.signals
    ]
    return Section("Signals", _table(head, rows, extent, "none sent or refused", "evidence"))


def _history(snapshot: Snapshot, extent: Extent) -> Section:
    """All marks; of too many the most important."""
    marks, most = snapshot.marks, extent.history_rows
    ranked = sorted(range(len(marks)), key=lambda place: _IMPORTANCE.index(marks[place].kind))
    kept = [marks[place] for place in sorted(ranked[:most])]
    head = ("when", "time of day", "kind", "what")
    rows = [(time_text(one.seconds), utc(one.at), one.kind.value, one.words) for one in kept]
    table = _table(head, rows, extent.replace(rows=most), "nothing recorded", "time of day")
    table = table.replace(omission=_omission(most, len(marks) - most))
    return Section("History", table, f"{len(marks):,} marks", is_folded=True)


def _table(
    head: Cells, rows: Sequence[Cells], extent: Extent, nothing: str, detail: str = ""
) -> DataTable:
    """Of too many rows the first and the last; a column of details only where it is wanted."""
    half, left = extent.rows // 2, len(rows) - extent.rows
    kept = rows if left <= 0 else (*rows[:half], *rows[-half:])
    shown = [place for place, name in enumerate(head) if extent.has_details or name != detail]
    return DataTable(
        tuple(Column(head[place], _KINDS.get(head[place], _WORDS)) for place in shown),
        tuple(tuple(row[place] for place in shown) for row in kept),
        nothing,
        _omission(half, left),
    )


def _omission(place: int, number: int) -> Omission | None:
    if number <= 0:
        return None
    return Omission(place, f"{number:,} more: holdfast report --json lists them all")
