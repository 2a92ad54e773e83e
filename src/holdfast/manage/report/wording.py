"""What every reporter says about a run, in the same words. Pure. Unknown is said, never 0."""

from __future__ import annotations

from holdfast.manage.report.scale import amount, time_text, volume
from holdfast.manage.report.stretches import MEANING, Lack
from holdfast.manage.units import count, duration, money
from holdfast.process.clock import seconds_of
from holdfast.process.signals import signal_name
from holdfast.record import Record
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo
    from holdfast.manage.report.figures import Chart
    from holdfast.manage.report.timeline import AttemptRow, Finding, Snapshot


ATTEMPT_COLUMNS = ("attempt", "began", "lasted", "root", "ending", "outcome")


class Peak(Record):
    """A figure of the whole run as a row: `memory  287 MiB  at 12s`."""

    name: str
    value: str
    note: str


def headline(info: RunInfo) -> str:
    """`ended: stopped, by holdfast, SIGTERM`."""
    if info.state is not State.ENDED:
        return info.state.value
    by = f", ended by {info.ended_by}" if info.ended_by is not None else ""
    return f"ended: {info.outcome}{by}, {exit_words(info)}"


def exit_words(info: RunInfo) -> str:
    """The code or signal; that it was not seen, where it was not."""
    core = ", core dumped" if info.core_dumped else ""
    if info.signal is not None:
        return f"signal {signal_name(info.signal)}{core}"
    return "exit code not seen" if info.exit_code is None else f"exit code {info.exit_code}"


def command_line(info: RunInfo, most: int | None = None) -> str:
    """As a shell would take it, without secrets."""
    if info.command is None:
        return "unknown"
    import shlex

    text = " ".join(shlex.join(info.command).split("\n"))
    return text if most is None or len(text) <= most else f"{text[: most - 4]} ..."


def time_words(info: RunInfo) -> str:
    """When it started, and how long it took, in UTC."""
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


def sample_words(snapshot: Snapshot) -> str:
    """How it was measured."""
    number, every = snapshot.sample_count, snapshot.interval_seconds
    often = f", every {time_text(every)}" if every else ""
    if every == 0:
        often = ": the run was started with --sample-interval 0"
    damaged = snapshot.damaged_count
    lost = f"; {damaged:,} damaged, and left out" if damaged else ""
    if not number:
        return f"none{often if every == 0 else ''}{lost}"
    return f"{number:,} sample{'' if number == 1 else 's'} kept{often}{lost}"


def lacks(snapshot: Snapshot) -> list[tuple[Lack, float, int]]:
    """For each reason, how long nothing was measured, and in how many stretches."""
    totals: dict[Lack, tuple[float, int]] = {}
    for stretch in snapshot.stretches:
        seconds, number = totals.get(stretch.lack, (0.0, 0))
        totals[stretch.lack] = (seconds + stretch.seconds, number + 1)
    return [(lack, *totals[lack]) for lack in Lack if lack in totals]


def lack_words(snapshot: Snapshot) -> list[str]:
    """`unresolved for 1.2s (2 times): it was not known which process is the workload`."""
    return [
        f"{lack.value} for {duration(seconds)}"
        + (f" ({number} times)" if number > 1 else "")
        + f": {MEANING[lack]}"
        for lack, seconds, number in lacks(snapshot)
    ]


def staleness(snapshot: Snapshot) -> str | None:
    """Where a run goes on but nobody has measured it for a while."""
    info = snapshot.info
    if info.state is State.ENDED or snapshot.origin_at is None or not snapshot.sample_count:
        return None
    ago = seconds_of(snapshot.looked_at) - seconds_of(snapshot.origin_at) - snapshot.seconds
    late = 3 * max(snapshot.interval_seconds or 0.0, 1.0)
    return f"the last sign of it is {duration(ago)} old" if ago > late else None


def peaks(snapshot: Snapshot) -> list[Peak]:
    """The figures of the whole run."""
    usage = snapshot.usage
    return [
        Peak("CPU, highest", *_peak(snapshot, "cpu", usage.get("peak_cpu_percent"))),
        Peak("CPU, mean", *_mean(snapshot)),
        Peak("CPU time", duration(usage.get("cpu_seconds")) or "unknown", "whole tree"),
        Peak("memory, highest", *_peak(snapshot, "memory", usage.get("peak_rss_bytes"))),
        Peak("swap, highest", volume(usage.get("peak_swap_bytes")), "whole tree"),
        Peak("read", volume(usage.get("read_bytes")), "from storage, in all"),
        Peak("written", volume(usage.get("write_bytes")), "to storage, in all"),
        Peak("processes, most", *_peak(snapshot, "processes", usage.get("peak_processes"))),
        *_tokens(snapshot),
    ]


def _peak(snapshot: Snapshot, key: str, recorded: float | None) -> tuple[str, str]:
    chart = snapshot.chart(key)
    seen = chart.lines[0].peak()
    value = recorded if recorded is not None else seen[1] if seen else None
    if value is None:
        return "unknown", ""
    if seen is None or seen[1] < value * 0.999:
        return amount(chart.measure, value), "between the samples that are kept"
    return amount(chart.measure, value), f"at {time_text(seen[0])}"


def _mean(snapshot: Snapshot) -> tuple[str, str]:
    chart = snapshot.chart("cpu")
    return amount(chart.measure, snapshot.mean_cpu_percent), "of one core, while measured"


def _tokens(snapshot: Snapshot) -> list[Peak]:
    usage = snapshot.usage
    if all(usage.get(name) is None for name in ("tokens_in", "tokens_out", "cost_usd")):
        return []
    number = (
        f"{count(usage.get('tokens_in')) or '?'} in, {count(usage.get('tokens_out')) or '?'} out"
    )
    return [Peak("tokens", number, ""), Peak("cost", money(usage.get("cost_usd")) or "unknown", "")]


def chart_words(chart: Chart) -> str:
    """A chart for those who can't see it."""
    said = []
    for line in chart.lines:
        peak = line.peak()
        if peak is None:
            said.append(f"{line.name}: never known")
        else:
            said.append(
                f"{line.name}: at most {amount(chart.measure, peak[1])}, at {time_text(peak[0])}"
            )
    return "; ".join(said)


def finding_words(finding: Finding) -> str:
    """`4243 python3 (resolved) behind 4242 sh: why`."""
    who = finding.workload or "nobody"
    behind = f" behind {', '.join(finding.wrappers)}" if finding.wrappers else ""
    why = f": {finding.why}" if finding.why else ""
    return f"{who} ({finding.resolution}){behind}{why}"


def attempt_cells(attempt: AttemptRow, info: RunInfo) -> tuple[str, ...]:
    """The texts of ATTEMPT_COLUMNS."""
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
