"""Rules about what a tree uses up: memory, descriptors, threads, process entries. Pure.

A rule that needs a figure which a row does not have is not asked: absent means unknown. The
"tree" of these rows is whole, also where it is one process.
"""

from __future__ import annotations

from holdfast.run.anomaly_rule import Finding, Rule, Severity, threshold, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_MIB = 1 << 20


def _memory(row: Row) -> int:
    return (row["tree"].get("rss_bytes") or 0) + (row["tree"].get("swap_bytes") or 0)


class MemoryGrowth(Rule):
    """Memory rises from sample to sample, by much, without finding a level."""

    name = "memory_growth"

    def __init__(self) -> None:
        super().__init__()
        self._start: tuple[float, int] | None = None
        self._highest = self._steps = self._pauses = self._fired_at = self._largest_step = 0

    def knows(self, row: Row) -> bool:
        return row["tree"].get("rss_bytes") is not None

    def look(self, row: Row) -> Finding | None:
        now, used = time_of(row), row["tree"].get("rss_bytes")
        rises = used >= self._highest + threshold("growth_step_bytes")
        self._pauses = 0 if rises else self._pauses + 1
        levelled = self._pauses >= threshold("growth_pause_samples")
        if self._start is None or levelled or used < self._highest * threshold("growth_drop"):
            self._begin(now, used)
            return None
        self._steps += rises
        self._largest_step = max(self._largest_step, used - self._highest)
        self._highest = max(self._highest, used)
        return self._judge(now, used)

    def _begin(self, now: float, used: int) -> None:
        self._start, self._highest = (now, used), used
        self._steps = self._pauses = self._largest_step = 0

    def _judge(self, now: float, used: int) -> Finding | None:
        assert self._start is not None
        since, before = self._start
        grown, seconds = used - before, now - since
        holds = (
            self._steps >= threshold("growth_steps")
            and seconds >= threshold("growth_seconds")
            and grown >= threshold("growth_bytes")
            and self._largest_step <= threshold("growth_largest_step") * grown
            and used >= threshold("growth_factor") * max(before, self._fired_at)
        )
        if not holds and not self.active:
            return None
        if not self.active:
            self._fired_at = used
        rate = grown / _MIB / max(seconds, 0.001)
        return Finding(
            f"memory grew from {before // _MIB} to {used // _MIB} MiB in {seconds:.0f} s, "
            f"{rate:.1f} MiB/s, without a pause"
        )

    def another_subject(self) -> None:
        self._start, self.active = None, False


class MemoryLimit(Rule):
    """Memory is near the limit of the run or of its control group."""

    name = "memory_near_limit"

    def __init__(self) -> None:
        super().__init__()
        self._group_limit: int | None = None

    def knows(self, row: Row) -> bool:
        return row["tree"].get("rss_bytes") is not None

    def look(self, row: Row) -> Finding | None:
        group = row.get("group")
        if group is not None:
            self._group_limit = group.get("memory_max_bytes")
        limits = [limit for limit in (self.context.memory_max_bytes, self._group_limit) if limit]
        if not limits:
            return None
        share = _memory(row) / min(limits)
        if share < threshold("limit_calm_share" if self.active else "limit_share"):
            return None
        return Finding(f"{_memory(row) // _MIB} MiB are {share:.0%} of the limit")


class OomJump(Rule):
    """The kernel's wish to end the workload rose by much."""

    name = "oom_score_jump"

    def __init__(self) -> None:
        super().__init__()
        self._lowest: int | None = None

    def knows(self, row: Row) -> bool:
        # The workload's own: browsers raise the score of their children by design.
        return row.get("oom_score") is not None

    def look(self, row: Row) -> Finding | None:
        score = row["oom_score"]
        self._lowest = score if self._lowest is None else min(self._lowest, score)
        if score - self._lowest < threshold("oom_jump"):
            return None
        return Finding(f"the OOM score rose from {self._lowest} to {score}")


class OomCritical(Rule):
    """It is among the first that the kernel would end, maybe from its first sample on."""

    name = "oom_score_critical"
    severity = Severity.CRITICAL

    def __init__(self) -> None:
        super().__init__()
        self._lowest: int | None = None

    def knows(self, row: Row) -> bool:
        return row.get("oom_score") is not None

    def look(self, row: Row) -> Finding | None:
        score = row["oom_score"]
        self._lowest = min(score, self._lowest if self._lowest is not None else score)
        idle = min(self._lowest, self.context.idle_oom_score)
        if score - idle < threshold("oom_critical"):
            return None
        return Finding(f"the OOM score is {score}; of a process that uses nothing it is {idle}")


class DescriptorExhaustion(Rule):
    """A process has almost no descriptors left."""

    name = "fd_exhaustion"

    def knows(self, row: Row) -> bool:
        return row["tree"].get("fd_ratio") is not None

    def look(self, row: Row) -> Finding | None:
        ratio = row["tree"].get("fd_ratio")
        if ratio < threshold("fd_calm_share" if self.active else "fd_share"):
            return None
        culprit = row.get("fewest_fds") or {}
        count = f" ({row['fds']} open)" if not culprit and row.get("fds") is not None else ""
        evidence = f"{ratio:.0%} of its descriptors are in use{count}"
        return Finding(evidence, culprit.get("token"), culprit.get("comm"))


class ThreadExplosion(Rule):
    """One process has far too many threads."""

    name = "thread_explosion"

    def __init__(self) -> None:
        super().__init__()
        self._fewest: int | None = None

    def knows(self, row: Row) -> bool:
        return row.get("threads") is not None or "most_threads" in row

    def look(self, row: Row) -> Finding | None:
        own, culprit = row.get("threads") or 0, row.get("most_threads") or {}
        self._fewest = min(own or 1, self._fewest or own or 1)
        count = max(own, culprit.get("threads") or 0)
        per_cpu = threshold("threads_per_cpu") * self.context.cpus
        grown = max(
            self._fewest + threshold("threads_more"),
            self._fewest * threshold("threads_factor"),
            per_cpu,
        )
        bar = min(grown, max(threshold("threads_absolute"), 2 * per_cpu))
        if count < (bar / 2 if self.active else bar):
            return None
        evidence = f"{count} threads in one process; it began with {self._fewest}"
        return Finding(evidence, culprit.get("token"), culprit.get("comm"))


class ZombiePileUp(Rule):
    """Ended children that their parent does not wait for."""

    name = "zombie_pile_up"

    def __init__(self) -> None:
        super().__init__()
        self._times = 0

    def knows(self, row: Row) -> bool:
        return row["tree"].get("zombies") is not None

    def look(self, row: Row) -> Finding | None:
        count = row["tree"].get("zombies")
        self._times = self._times + 1 if count >= threshold("zombies") else 0
        if self._times < threshold("zombie_samples"):
            return None
        return Finding(f"{count} ended children are not waited for")
