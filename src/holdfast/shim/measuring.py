"""Samples of a run: written to its trace, watched for anomalies, added up to its usage.

The rules are pure and the same for a stored trace (`run/anomalies.py`). A trace that can't be
written is said once, and the run goes on.
"""

from __future__ import annotations

import os

from holdfast.process.clock import boottime, wall_clock
from holdfast.process.proc_oom import own_score
from holdfast.process.resolution import Kind as Resolved
from holdfast.process.sampling import Sampler
from holdfast.run.anomalies import Watch
from holdfast.run.anomaly_rule import Context
from holdfast.run.durable import append_line, read_lines
from holdfast.run.events import Kind
from holdfast.run.trace import PEAKS, TraceWriter, UsagePeaks
from holdfast.run.trace_rows import StoredTrace, last_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.members import Member
    from holdfast.process.resolution import Resolution
    from holdfast.run.anomaly_rule import Anomaly
    from holdfast.run.directory import RunDirectory
    from holdfast.shim.supervisor import Supervisor


class Measuring:
    """The figures of one run; what an earlier shim measured is taken in from its trace."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        path = supervisor.directory.trace_path
        before = last_row(path)
        self.sampler = Sampler(last_at=str(before["at"]) if before else "")
        self._trace = TraceWriter(path)
        self._peaks = UsagePeaks()
        self._idle_oom_score = own_score()
        self._watch = Watch()
        self._context = Context()
        self._context_of: Resolution | None = None
        self._last_row: dict[str, Any] | None = None  # of a full sample of `_context_of`
        self._log_size = -1
        self._heard_at = boottime()
        supervisor.on_restart.append(self._restarted)
        if before is not None:
            self._take_in(path)

    def _take_in(self, path: str) -> None:
        """What an earlier shim measured, as far as it is sound and the workload's."""
        facts = self._supervisor.journal.facts
        wrappers = tuple(str(wrapper.get("token")) for wrapper in facts.wrappers)
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
        row = self._row(members, resolution, boottime(), full)
        fired = self._watch.feed(row, self._context_for(resolution))
        if fired:
            row["anomalies"] = [anomaly.rule for anomaly in fired]
        self._peaks.add(row)
        row[PEAKS] = self._peaks.beyond(row)
        failed = self._trace.append(row)
        if failed is not None:
            self._supervisor.journal.record(Kind.FAULT, where="trace", error=failed)
        for anomaly in fired:
            self._fire(anomaly)

    def _row(
        self, members: list[Member], resolution: Resolution, now: float, full: bool
    ) -> dict[str, Any]:
        quiet_seconds = self._quiet_seconds(now)
        last = self._last_row if resolution is self._context_of and not full else None
        times = self.sampler.times_if_unchanged(members, now) if last is not None else None
        if last is not None and times is not None:
            row = {**last, "at": times[1], "boottime": round(times[0], 3)}
            row["quiet_seconds"] = round(quiet_seconds, 1)
        else:
            sample = self.sampler.sample(
                members, resolution, quiet_seconds=quiet_seconds, now=now, full=full or None
            )
            row = sample.to_json()
            is_full = sample.tree.zombies is not None
            self._last_row = dict(row) if is_full and not sample.is_slow else None
        row["log_bytes"] = max(0, self._log_size)
        return row

    def usage(self, resolution: Resolution | None) -> dict[str, Any] | None:
        """The contract's `usage`; None: nothing was measured."""
        usage = self._peaks.usage()
        used = self._supervisor.root_usage
        # The kernel's own count for the root is the workload's only where they are one.
        if used is not None and resolution is not None and resolution.kind is Resolved.DIRECT:
            usage["cpu_seconds"] = max(usage["cpu_seconds"] or 0.0, used.cpu_seconds)
            if used.peak_rss_bytes is not None:
                usage["peak_rss_bytes"] = max(usage["peak_rss_bytes"] or 0, used.peak_rss_bytes)
        return usage if any(value is not None for value in usage.values()) else None

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


def _fired_before(directory: RunDirectory) -> list[dict[str, Any]]:
    try:
        rows = read_lines(directory.anomalies_path)
    except OSError:
        return []
    return [row for row in rows if row.get("rule") in ("identity_drift", "wrapper_traced")]
