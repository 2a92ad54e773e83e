"""Rules about what a tree uses up: memory, descriptors, threads, process entries. Pure.

A rule that needs a figure which a row does not have is not asked: absent means unknown. The
"tree" of these rows is whole, also where it is one process.
"""

from __future__ import annotations

from holdfast.run.anomalies.rule import Rule, RuleHit, Severity, Threshold, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_MIB = 1 << 20


def _memory(row: Row) -> int:
    return (row["tree"].get("rss_bytes") or 0) + (row["tree"].get("swap_bytes") or 0)


class MemoryGrowth(Rule):
    """Memory rises from sample to sample, by much, without finding a level."""

    __slots__ = ("_fired_at", "_highest", "_largest_step", "_pauses", "_start", "_steps")
    name = "memory_growth"
    least_steps = Threshold(3, "a program that loads its data grows in one or two samples")
    least_seconds = Threshold(3, "with a short interval, a start-up is many samples long")
    least_bytes = Threshold(64 << 20, "below that, growth is of no consequence")
    least_factor = Threshold(1.5, "a large program's caches breathe by a few percent")
    step_bytes = Threshold(64 << 10, "less in one sample is noise of the allocator")
    largest_step_share = Threshold(0.75, "an agent loads once, then creeps while it waits")
    pause_samples = Threshold(3, "so many without growth: it has found its level")
    drop_share = Threshold(0.98, "a leak does not give memory back")

    def __init__(self) -> None:
        super().__init__()
        self._start: tuple[float, int] | None = None
        self._highest = self._steps = self._pauses = self._fired_at = self._largest_step = 0

    def knows(self, row: Row) -> bool:
        return row["tree"].get("rss_bytes") is not None

    def look(self, row: Row) -> RuleHit | None:
        now, used = time_of(row), row["tree"].get("rss_bytes")
        rises = used >= self._highest + self.step_bytes
        self._pauses = 0 if rises else self._pauses + 1
        levelled = self._pauses >= self.pause_samples
        if self._start is None or levelled or used < self._highest * self.drop_share:
            self._begin(now, used)
            return None
        self._steps += rises
        self._largest_step = max(self._largest_step, used - self._highest)
        self._highest = max(self._highest, used)
        return self._judge(now, used)

    def _begin(self, now: float, used: int) -> None:
        self._start, self._highest = (now, used), used
        self._steps = self._pauses = self._largest_step = 0

    def _judge(self, now: float, used: int) -> RuleHit | None:
        assert self._start is not None
        since, before = self._start
        grown, seconds = used - before, now - since
        holds = (
            self._steps >= self.least_steps
            and seconds >= self.least_seconds
            and grown >= self.least_bytes
            and self._largest_step <= self.largest_step_share * grown
            and used >= self.least_factor * max(before, self._fired_at)
        )
        if not holds and not self.active:
            return None
        if not self.active:
            self._fired_at = used
        rate = grown / _MIB / max(seconds, 0.001)
        return RuleHit(
            f"memory grew from {before // _MIB} to {used // _MIB} MiB in {seconds:.0f} s, "
            f"{rate:.1f} MiB/s, without a pause"
        )

    def another_subject(self) -> None:
        self._start, self.active = None, False


class MemoryNearLimit(Rule):
    """Memory is near the limit of the run or of its control group."""

    __slots__ = ("_group_limit",)
    name = "memory_near_limit"
    share = Threshold(0.9, "the last tenth goes quickly")
    calm_share = Threshold(0.8, "one episode, not one for each wobble")

    def __init__(self) -> None:
        super().__init__()
        self._group_limit: int | None = None

    def knows(self, row: Row) -> bool:
        return row["tree"].get("rss_bytes") is not None

    def look(self, row: Row) -> RuleHit | None:
        group = row.get("group")
        if group is not None:
            self._group_limit = group.get("memory_max_bytes")
        limits = [limit for limit in (self.context.memory_max_bytes, self._group_limit) if limit]
        if not limits:
            return None
        share = _memory(row) / min(limits)
        if share < (self.calm_share if self.active else self.share):
            return None
        return RuleHit(f"{_memory(row) // _MIB} MiB are {share:.0%} of the limit")


class _OomRule(Rule):
    """Compares the workload's score with the lowest that it had."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        super().__init__()
        self._lowest: int | None = None

    def knows(self, row: Row) -> bool:
        # The workload's own: browsers raise the score of their children by design.
        return row.get("oom_score") is not None

    def scores(self, row: Row) -> tuple[int, int]:
        """The score now, and the lowest so far."""
        score: int = row["oom_score"]
        self._lowest = score if self._lowest is None else min(self._lowest, score)
        return score, self._lowest


class OomJump(_OomRule):
    """The workload's OOM score rose by much: the kernel would end it sooner."""

    __slots__ = ()
    name = "oom_score_jump"
    jump = Threshold(100, "10-15 % of the machine's memory, by the kernel's formula")

    def look(self, row: Row) -> RuleHit | None:
        score, lowest = self.scores(row)
        if score - lowest < self.jump:
            return None
        return RuleHit(f"the OOM score rose from {lowest} to {score}")


class OomCritical(_OomRule):
    """The OOM killer would end the workload early, maybe from its first sample on."""

    __slots__ = ()
    name = "oom_score_critical"
    severity = Severity.CRITICAL
    distance = Threshold(400, "40-60 % of the machine's memory")

    def look(self, row: Row) -> RuleHit | None:
        score, lowest = self.scores(row)
        idle = min(lowest, self.context.idle_oom_score)
        if score - idle < self.distance:
            return None
        return RuleHit(f"the OOM score is {score}; of a process that uses nothing it is {idle}")


class DescriptorExhaustion(Rule):
    """A process has almost no descriptors left."""

    __slots__ = ()
    name = "fd_exhaustion"
    share = Threshold(0.85, "programs fail at 1.0, and libraries open several at once")
    calm_share = Threshold(0.7, "one episode")

    def knows(self, row: Row) -> bool:
        return row["tree"].get("fd_ratio") is not None

    def look(self, row: Row) -> RuleHit | None:
        ratio = row["tree"].get("fd_ratio")
        if ratio < (self.calm_share if self.active else self.share):
            return None
        culprit = row.get("fewest_fds") or {}
        count = f" ({row['fds']} open)" if not culprit and row.get("fds") is not None else ""
        evidence = f"{ratio:.0%} of its descriptors are in use{count}"
        return RuleHit(evidence, culprit.get("token"), culprit.get("comm"))


class ThreadExplosion(Rule):
    """One process has far too many threads."""

    __slots__ = ("_fewest",)
    name = "thread_explosion"
    more = Threshold(100, "thread pools have a few dozen; agents 35")
    factor = Threshold(4, "growth, not a pool that was large from the start")
    per_cpu = Threshold(8, "numeric libraries start one for each core, a JVM a few")
    absolute = Threshold(200, "also without having seen it grow")

    def __init__(self) -> None:
        super().__init__()
        self._fewest: int | None = None

    def knows(self, row: Row) -> bool:
        return row.get("threads") is not None or "most_threads" in row

    def look(self, row: Row) -> RuleHit | None:
        own, culprit = row.get("threads") or 0, row.get("most_threads") or {}
        self._fewest = min(own or 1, self._fewest or own or 1)
        count = max(own, culprit.get("threads") or 0)
        per_cpu = self.per_cpu * self.context.cpus
        grown = max(
            self._fewest + self.more,
            self._fewest * self.factor,
            per_cpu,
        )
        bar = min(grown, max(self.absolute, 2 * per_cpu))
        if count < (bar / 2 if self.active else bar):
            return None
        evidence = f"{count} threads in one process; it began with {self._fewest}"
        return RuleHit(evidence, culprit.get("token"), culprit.get("comm"))


class ZombiePileUp(Rule):
    """Ended children that their parent does not wait for."""

    __slots__ = ("_times",)
    name = "zombie_pile_up"
    count = Threshold(5, "a busy parent is a few behind, for moments")
    samples = Threshold(2, "twice in a row is no moment")

    def __init__(self) -> None:
        super().__init__()
        self._times = 0

    def knows(self, row: Row) -> bool:
        return row["tree"].get("zombies") is not None

    def look(self, row: Row) -> RuleHit | None:
        count = row["tree"].get("zombies")
        self._times = self._times + 1 if count >= self.count else 0
        if self._times < self.samples:
            return None
        return RuleHit(f"{count} ended children are not waited for")


RULES: tuple[type[Rule], ...] = (
    MemoryGrowth,
    MemoryNearLimit,
    OomJump,
    OomCritical,
    DescriptorExhaustion,
    ThreadExplosion,
    ZombiePileUp,
)
