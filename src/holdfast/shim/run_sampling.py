"""Samples of a run: written to its trace, watched for anomalies, added up to its usage.

The rules are pure and the same for a stored trace (`run/anomalies/watch.py`). A trace that can't be
written is said once, and the run goes on.
"""

from __future__ import annotations

import os

from holdfast.process.clock import boottime, wall_clock
from holdfast.process.oom import own_score
from holdfast.process.sampling.sampler import Sampler
from holdfast.run.anomalies.rule import UNCHANGED_SINCE, Context
from holdfast.run.anomalies.watch import SETTLED_ROWS, AnomalyWatch
from holdfast.run.atomic_files import append_line, read_lines
from holdfast.run.events import Kind
from holdfast.run.trace import PEAKS, TIMES, TraceWriter, UsagePeaks, late_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.sampling.samples import Sample
    from holdfast.process.tree import Member
    from holdfast.process.workload.resolution import Resolution
    from holdfast.run.anomalies.rule import Anomaly
    from holdfast.run.directory import RunDirectory
    from holdfast.shim.supervisor import Supervisor


class Measuring:
    """The figures of one run; what an earlier shim measured is taken in from its trace."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        path = supervisor.directory.trace_path
        before = _last_row(path)
        self.sampler = Sampler(last_at=str(before["at"]) if before else "")
        self._trace = TraceWriter(path)
        self._peaks = UsagePeaks()
        self._idle_oom_score = own_score()
        self._watch = AnomalyWatch()
        self._context = Context()
        self._context_of: Resolution | None = None
        self._figures: dict[str, Any] | None = None  # of a full sample of `_context_of`
        self._same_rows = 0  # in a row
        self._looks = 0  # that the last row stands for, which is written over
        self._looked_at = self._row_boottime = 0.0  # the last look, and that of the last new row
        self._late = late_after(supervisor.spec.wanted.sample_interval_seconds)
        self._log_size = -1
        self._heard_at = boottime()
        supervisor.on_restart.append(self._restarted)
        if before is not None:
            self._take_in(path)

    def _take_in(self, path: str) -> None:
        """What an earlier shim measured, as far as it is sound and the workload's."""
        from holdfast.run.trace_rows import StoredTrace

        facts = self._supervisor.journal.facts
        wrappers = tuple(wrapper.identity.token for wrapper in facts.attempt.wrappers)
        stored = StoredTrace(path, facts.workloads, wrappers)
        for row in stored:
            self._peaks.add(row)
        if stored.damaged:
            error = f"{stored.damaged} damaged rows of the trace were left out"
            self._supervisor.journal.record(Kind.FAULT, where="trace", error=error)
        said = {row.get("token") for row in _fired_before(self._supervisor.directory)}
        for anomaly in stored.anomalies:
            if anomaly.token not in said:
                self._fire(anomaly)

    def sample(self, members: list[Member], resolution: Resolution, *, full: bool = False) -> None:
        """Measure now."""
        now = boottime()
        sample = self.sampler.sample(
            members, resolution, quiet_seconds=self._quiet_seconds(now), now=now, full=full or None
        )
        context = self._context_for(resolution)
        row = sample.to_json()
        self._keep_figures(sample, row)
        self._add(row, context)

    def goes_on(self, resolution: Resolution) -> bool:
        """Whether the last sample holds for now too. Then that is noted, and nothing is read."""
        now, figures, size = boottime(), self._figures, self._log_size
        was_late = now - self._looked_at > self._late  # no look in between: that is a gap
        if figures is None or was_late or resolution is not self._context_of:
            return False
        if not self.sampler.is_idle(now) or not self._supervisor.tree.shows_the_same():
            return False
        quiet_seconds = self._quiet_seconds(now)
        now, at = self.sampler.go_on(now)
        if self._same_rows >= SETTLED_ROWS and size == self._log_size and "stuck" not in figures:
            self._repeat(at, now, quiet_seconds)
            return True
        times = {"at": at, "boottime": round(now, 3), "quiet_seconds": round(quiet_seconds, 1)}
        self._same_rows += 1
        self._add({**times, **figures}, self._context)
        return True

    @property
    def repeats(self) -> bool:
        """Whether nothing has happened for so long that the last row is written over."""
        return self._looks > 0

    def _keep_figures(self, sample: Sample, row: dict[str, Any]) -> None:
        """What the next sample shows, if nothing happens until then; None: not known."""
        figures = None
        if sample.tree.zombies is not None:  # a full one
            usual = sample.usual().to_json() if sample.is_slow else row
            figures = {name: value for name, value in usual.items() if name not in TIMES}
        self._same_rows = self._same_rows + 1 if figures == self._figures else 1
        self._figures = figures

    def _add(self, row: dict[str, Any], context: Context) -> None:
        """A row of the trace, which the rules see."""
        row["log_bytes"] = max(0, self._log_size)
        fired = self._watch.feed(row, context)
        if fired:
            row["anomalies"] = [anomaly.rule for anomaly in fired]
        self._peaks.add(row)
        row[PEAKS] = self._peaks.beyond(row)
        self._looked_at = self._row_boottime = row["boottime"]
        self._looks = 0
        self._say(self._trace.append(row))
        for anomaly in fired:
            self._fire(anomaly)

    def _repeat(self, at: str, now: float, quiet_seconds: float) -> None:
        """The last row once more. To the rules it is nothing new: live, and read back."""
        self._looked_at = now
        self._looks += 1
        self._say(self._trace.repeat((at, now, quiet_seconds, self._looks), self._repeated))

    def _repeated(self) -> dict[str, Any]:
        since = {UNCHANGED_SINCE: self._row_boottime, "log_bytes": max(0, self._log_size)}
        row = {**(self._figures or {}), **since}
        return {**row, PEAKS: self._peaks.beyond(row)}

    def _say(self, failed: str | None) -> None:
        if failed is not None:
            self._supervisor.journal.record(Kind.FAULT, where="trace", error=failed)

    def usage(self) -> dict[str, Any]:
        """The contract's `usage`, as far as it was sampled."""
        return self._peaks.usage()

    def _quiet_seconds(self, now: float) -> float:
        size = self._supervisor.log_size()
        if size != self._log_size:
            self._log_size, self._heard_at = size, now
        return now - self._heard_at

    def _context_for(self, resolution: Resolution) -> Context:
        if resolution is not self._context_of:
            workload = resolution.workload
            self._context_of = resolution
            self._context = Context(
                workload_token=None if workload is None else workload.identity.token,
                wrapper_tokens=tuple(wrapper.identity.token for wrapper in resolution.wrappers),
                memory_max_bytes=self._supervisor.spec.wanted.memory_max_bytes,
                cpus=os.cpu_count() or 1,
            )
            if self._idle_oom_score is not None:
                self._context = self._context.replace(idle_oom_score=self._idle_oom_score)
        return self._context

    def _restarted(self, lived_seconds: float) -> None:
        for anomaly in self._watch.restarted(wall_clock(), boottime(), lived_seconds):
            self._fire(anomaly)

    def _fire(self, anomaly: Anomaly) -> None:
        supervisor, document = self._supervisor, anomaly.to_json()
        supervisor.guarded(
            "anomalies", lambda: append_line(supervisor.directory.anomalies_path, document)
        )
        supervisor.journal.record(
            Kind.ANOMALY_FIRED,
            rule=anomaly.rule,
            severity=anomaly.severity.value,
            evidence=anomaly.evidence,
        )
        supervisor.guarded("notice", lambda: supervisor.tell("anomaly", anomaly=document))


def _last_row(path: str) -> dict[str, Any] | None:
    """What reads a trace is loaded where there is one: for an adopter."""
    if not os.path.exists(path):
        return None
    from holdfast.run.trace_rows import last_row

    return last_row(path)


def _fired_before(directory: RunDirectory) -> list[dict[str, Any]]:
    try:
        rows = read_lines(directory.anomalies_path)
    except OSError:
        return []
    return [row for row in rows if row.get("rule") in ("identity_drift", "wrapper_traced")]
