"""Anomalies: rules that fire on samples, once for each episode, live and on a stored trace alike.

Pure: rows in, anomalies out; no clock, no OS. A quiet run fires none.
"""

from __future__ import annotations

from holdfast.process.sampling.samples import tree_figures
from holdfast.run.anomalies import progress_rules, resource_rules
from holdfast.run.anomalies.rule import UNCHANGED_SINCE, Anomaly, Context, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.process.sampling.samples import Sample

RULES: tuple[type[Rule], ...] = (*resource_rules.RULES, *progress_rules.RULES)
SETTLED_ROWS = 4  # alike, one after the other: no rule that counts rows waits for more


class AnomalyWatch:
    """All rules over one run's rows. Feed it every sample as it is taken or read back."""

    def __init__(self) -> None:
        self._rules: list[Rule] = [rule() for rule in RULES]
        self._subject: str | None = None
        self._last_boottime = float("-inf")
        self._crash_loop = progress_rules.CrashLoop()

    def feed(self, row: dict[str, Any] | Sample, context: Context | None = None) -> list[Anomaly]:
        """What fires at this row. A row without a workload says nothing.

        Rows that only repeat the last one are skipped: `SETTLED_ROWS` like it were seen before, and
        rules that measure time get a row a minute.
        """
        row = row if isinstance(row, dict) else row.to_json()
        if UNCHANGED_SINCE in row:
            return []
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
        return self._crash_loop.restarted(at, boottime, lived_seconds)


def replay(rows: Iterable[dict[str, Any]], context: Context | None = None) -> list[Anomaly]:
    """What would have fired on a stored trace."""
    watch = AnomalyWatch()
    return [anomaly for row in rows for anomaly in watch.feed(row, context)]
