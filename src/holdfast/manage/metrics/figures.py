"""The figures of a home: of its active runs each, of its history the sums.

What they say is what `ls --json --all`, `queue --json` and `usage --json` say. Figures over history
are gauges: retention removes runs, and the sums shrink. What is not known has no sample. Takes no
lock and changes no run. An ended run is read once for as long as the collector lives.
"""

from __future__ import annotations

from collections import Counter

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.manage.info import read_run
from holdfast.manage.listing import select_runs
from holdfast.manage.metrics.exposition import MetricFamily, MetricKind, MetricSample
from holdfast.manage.queueing.view import list_queues
from holdfast.manage.usage.totals import usage_of
from holdfast.process.clock import seconds_of
from holdfast.process.signals import Fate
from holdfast.record import Record
from holdfast.run.atomic_files import read_lines
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import STATES_IN_ORDER, State
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.manage.info import RunInfo
    from holdfast.manage.queueing.view import QueueInfo
    from holdfast.run.home import Home

    Samples = Iterable[MetricSample]

MOST_RUNS = 2000  # of which each has figures of its own; `holdfast_runs` counts them all
MOST_RULES = 64  # a name of a rule is read from a file
OTHER = "other"
ATTENTION_KINDS = ("permission", "question", "turn_over")
GAUGE, COUNTER = MetricKind.GAUGE, MetricKind.COUNTER


class _Counted(Record):
    """What a run adds to the sums."""

    state: State
    outcome: Outcome | None
    anomalies: tuple[str, ...]
    fates: tuple[str, ...]


class MetricsCollector:
    """Looks at a home as often as it is asked."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._past: dict[str, _Counted] = {}

    def families(self) -> list[MetricFamily]:
        """All figures, at one look."""
        version = [MetricSample({"version": __version__}, 1)]
        about = "Constant 1; the version is a label."
        families = [MetricFamily("holdfast_build_info", GAUGE, about, tuple(version))]
        is_there = self._home.check()
        active = list(self._active()) if is_there else []
        past = self._ended({info.id for info in active}) if is_there else []
        live = [self._count_of(info) for info in active]
        families += [*_counts(live + past), _attention(active)]
        families += _of_runs(sorted(active, key=lambda info: info.id, reverse=True))
        families += self._usage() if is_there else []
        families += self._queues() if is_there else []
        return families

    def _active(self) -> Iterator[RunInfo]:
        for run_id in self._home.run_ids(active=True):
            try:
                yield read_run(RunDirectory(self._home, run_id))
            except HoldfastError:  # it was removed since it was listed
                continue

    def _ended(self, active: set[str]) -> list[_Counted]:
        """Of the runs that were there when it was listed, each as it was read first."""
        there = self._home.entries() - active
        self._past = {run_id: past for run_id, past in self._past.items() if run_id in there}
        fresh = there.difference(self._past)
        found = select_runs(self._home, ids=fresh, closely=False) if fresh else iter(())
        unsettled = []
        for info in found:
            counted = self._count_of(info)
            if info.state is State.ENDED and info.is_recorded:
                self._past[info.id] = counted
            else:
                unsettled.append(counted)
        return [*self._past.values(), *unsettled]

    def _count_of(self, info: RunInfo) -> _Counted:
        directory = RunDirectory(self._home, info.id)
        rules = _rules(directory) if info.anomaly_count else ()
        return _Counted(info.state, info.outcome, rules, _fates(directory))

    def _usage(self) -> list[MetricFamily]:
        by = (usage_of(self._home, {}, by="agent").by or {}).get("agent", {})
        tokens = [
            MetricSample({"agent": agent, "direction": direction}, value)
            for agent, total in by.items()
            for direction, value in (("in", total.tokens_in), ("out", total.tokens_out))
            if value is not None
        ]
        cost = [
            MetricSample({"agent": agent}, total.cost_usd)
            for agent, total in by.items()
            if total.cost_usd is not None
        ]
        return [
            _gauge("tokens", "Tokens used by all runs, removed ones too.", tokens),
            _gauge("cost_usd", "What all runs cost, removed ones too, in US dollars.", cost),
        ]

    def _queues(self) -> list[MetricFamily]:
        queues = list_queues(self._home)

        def each(read: Callable[[QueueInfo], float | None]) -> Samples:
            pairs = [({"queue": queue.name}, read(queue)) for queue in queues]
            return [MetricSample(labels, value) for labels, value in pairs if value is not None]

        return [
            _gauge("queue_waiting", "Runs that wait.", each(lambda queue: len(queue.waiting))),
            _gauge("queue_active", "Runs with a slot.", each(lambda queue: len(queue.active))),
            _gauge("queue_limit", "Slots of the queue.", each(lambda queue: queue.limit)),
        ]


def _gauge(name: str, about: str, samples: Samples) -> MetricFamily:
    return MetricFamily(f"holdfast_{name}", GAUGE, about, tuple(samples))


def _rules(directory: RunDirectory) -> tuple[str, ...]:
    return tuple(str(row.get("rule")) for row in _read(directory.anomalies_path))


def _fates(directory: RunDirectory) -> tuple[str, ...]:
    """Announcements are left out: a signal has a fate once it was sent or refused."""
    rows = [row.get("fate") for row in _read(directory.signals_path)]
    return tuple(str(fate) for fate in rows if fate != "announced")


def _read(path: str) -> list[dict[str, object]]:
    try:
        return read_lines(path)
    except OSError:  # what can't be read is not counted
        return []


# Sums over runs


def _counts(runs: list[_Counted]) -> list[MetricFamily]:
    states = Counter(one.state for one in runs)
    outcomes = Counter(one.outcome for one in runs)
    rules = Counter(rule for one in runs for rule in one.anomalies)
    fates = Counter(fate if fate in [*Fate] else OTHER for one in runs for fate in one.fates)
    return [
        _gauge(
            "runs",
            "Runs of this home by state.",
            [MetricSample({"state": state.value}, states[state]) for state in STATES_IN_ORDER],
        ),
        _gauge(
            "runs_ended",
            "Ended runs by outcome, those alone that are not removed.",
            [MetricSample({"outcome": one.value}, outcomes[one]) for one in Outcome],
        ),
        _gauge(
            "orphans",
            "Runs whose supervisor is gone.",
            [MetricSample({}, states[State.ORPHANED])],
        ),
        _gauge(
            "anomalies",
            "Anomalies found in the runs that are not removed.",
            [MetricSample({"rule": rule}, many) for rule, many in rules.most_common(MOST_RULES)],
        ),
        _gauge(
            "signals",
            "Signals to the processes of runs that are not removed.",
            [MetricSample({"fate": fate}, fates[fate]) for fate in (*Fate, OTHER)],
        ),
    ]


def _attention(active: list[RunInfo]) -> MetricFamily:
    kinds = Counter(str(info.attention["kind"]) for info in active if info.attention)
    samples = [MetricSample({"kind": kind}, kinds[kind]) for kind in ATTENTION_KINDS]
    return _gauge("attention", "Runs whose agent waits for a person.", samples)


# One run


def _of_runs(active: list[RunInfo]) -> list[MetricFamily]:
    listed = active[:MOST_RUNS]
    families = [
        MetricFamily(
            f"holdfast_run_{name}",
            kind,
            about,
            tuple(
                MetricSample(_labels(info), value)
                for info in listed
                if (value := read(info)) is not None
            ),
        )
        for name, kind, about, read in _RUN_FIGURES
    ]
    left_out = len(active) - len(listed)
    about = f"Active runs over the newest {MOST_RUNS}, which have no figures of their own."
    return [*families, _gauge("runs_left_out", about, [MetricSample({}, left_out)])]


def _labels(info: RunInfo) -> dict[str, str]:
    return {"name": info.name or info.id, "id": info.id, "agent": info.agent or ""}


def _used(name: str) -> Callable[[RunInfo], float | None]:
    return lambda info: (info.usage or {}).get(name)


def _memory(info: RunInfo) -> float | None:
    rss = (info.now or {}).get("rss_bytes")
    return None if rss is None else int(rss) + int((info.now or {}).get("swap_bytes") or 0)


def _up(info: RunInfo) -> float:
    return int(info.state.is_under_way and info.state.is_supervised)


def _start(info: RunInfo) -> float | None:
    return None if info.started_at is None else seconds_of(info.started_at)


_RUN_FIGURES: tuple[tuple[str, MetricKind, str, Callable[[RunInfo], float | None]], ...] = (
    ("up", GAUGE, "1: its shim supervises it. 0: queued, orphaned or unknown.", _up),
    ("start_time_seconds", GAUGE, "When it was started, since the epoch.", _start),
    ("cpu_seconds_total", COUNTER, "CPU time of its whole tree.", _used("cpu_seconds")),
    ("memory_bytes", GAUGE, "Resident and swapped memory of its tree.", _memory),
    ("processes", GAUGE, "Processes of its tree.", lambda info: (info.now or {}).get("processes")),
    ("read_bytes_total", COUNTER, "Read from storage by its tree.", _used("read_bytes")),
    ("written_bytes_total", COUNTER, "Written to storage by its tree.", _used("write_bytes")),
    ("output_bytes_total", COUNTER, "Length of its output.", lambda info: info.log_bytes),
)
