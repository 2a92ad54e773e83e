"""Anomalies: rules that fire on samples, once for each episode, live and on a stored trace alike.

Pure: rows in, anomalies out; no clock, no OS. The thresholds are one table with reasons, in
`run/anomaly_rule.py`. A quiet run fires none.
"""

from __future__ import annotations

from holdfast.process.samples import tree_figures
from holdfast.run import progress_rules, resource_rules
from holdfast.run.anomaly_rule import Anomaly, Context, Rule, Severity, threshold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.process.samples import Sample

RULES: tuple[type[Rule], ...] = (
    resource_rules.MemoryGrowth,
    resource_rules.MemoryLimit,
    resource_rules.OomJump,
    resource_rules.OomCritical,
    resource_rules.DescriptorExhaustion,
    resource_rules.ThreadExplosion,
    resource_rules.ZombiePileUp,
    progress_rules.Stuck,
    progress_rules.Spin,
    progress_rules.Stall,
    progress_rules.DeletedDirectory,
    progress_rules.IdentityDrift,
    progress_rules.WrapperTraced,
)


class Watch:
    """All rules over one run's rows. Feed it every sample as it is taken or read back."""

    def __init__(self) -> None:
        self._rules: list[Rule] = [rule() for rule in RULES]
        self._subject: str | None = None
        self._last_boottime = float("-inf")
        self._restarts: list[tuple[float, float]] = []  # when, and how long the attempt lived
        self._looping = False

    def feed(self, row: dict[str, Any] | Sample, context: Context | None = None) -> list[Anomaly]:
        """What fires at this row. A row without a workload says nothing."""
        row = row if isinstance(row, dict) else row.to_json()
        boottime = float(row.get("boottime") or 0.0)
        subject = row.get("token")
        another_boot = boottime < self._last_boottime
        self._last_boottime = boottime
        figures = tree_figures(row)
        if subject is None and not figures.get("rss_bytes"):
            return []
        if another_boot or (subject is not None and subject != self._subject):
            for rule in self._rules:
                rule.another_subject()
            self._subject = subject
        context, whole = context or Context(), {**row, "tree": figures}
        fired = []
        for rule in self._rules:  # for every sample of every run: no call more than it takes
            if not rule.knows(whole):
                continue
            rule.context = context
            found = rule.look(whole)
            if found is not None and not rule.active:
                fired.append(rule.anomaly(whole, found))
            rule.active = found is not None
        return fired

    def restarted(self, at: str, boottime: float, lived_seconds: float) -> list[Anomaly]:
        """An attempt failed and is to be started again."""
        if lived_seconds >= threshold("loop_lived_seconds"):
            self._restarts, self._looping = [], False
            return []
        oldest = boottime - threshold("loop_window_seconds")
        self._restarts = [r for r in self._restarts if r[0] > oldest] + [(boottime, lived_seconds)]
        if self._looping or len(self._restarts) < threshold("loop_restarts"):
            return []
        self._looping = True
        lived = ", ".join(f"{seconds:.1f} s" for _, seconds in self._restarts[-3:])
        evidence = f"{len(self._restarts)} attempts failed in a row; the last lived {lived}"
        return [Anomaly("crash_loop", Severity.CRITICAL, evidence, at, boottime)]


def replay(rows: Iterable[dict[str, Any]], context: Context | None = None) -> list[Anomaly]:
    """What would have fired on a stored trace."""
    watch = Watch()
    return [anomaly for row in rows for anomaly in watch.feed(row, context)]
