"""Rules about whether a run gets anywhere, and whether its rows tell of the right process. Pure.

A rule that needs a figure which a row does not have is not asked: absent means unknown. The
"tree" of these rows is whole, also where it is one process.
"""

from __future__ import annotations

from holdfast.run.anomalies.rule import Anomaly, Rule, RuleHit, Severity, Threshold, time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]


class Stuck(Rule):
    """A process hangs in the kernel: in disk sleep, and not once awake in between."""

    __slots__ = ("_since",)
    name = "disk_sleep"
    samples = Threshold(3, "twice without a single context switch in between")
    seconds = Threshold(1, "a slow disk answers within that")

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[str, tuple[float, Any, int]] = {}  # token: when, switches, samples

    def knows(self, row: Row) -> bool:
        return "stuck" in row or row.get("state") is not None

    def look(self, row: Row) -> RuleHit | None:
        now, stuck = time_of(row), {entry["token"]: entry for entry in row.get("stuck", ())}
        self._since = {token: seen for token, seen in self._since.items() if token in stuck}
        found = None
        for token, entry in stuck.items():
            since, switches, samples = self._since.get(token, (now, entry["switches"], 0))
            if entry["switches"] is None or entry["switches"] != switches:
                since, switches, samples = now, entry["switches"], 0
            self._since[token] = (since, switches, samples + 1)
            long_enough = now - since >= self.seconds
            if long_enough and samples + 1 >= self.samples:
                where = entry.get("wait_channel") or "an unknown place"
                evidence = f"in disk sleep for {now - since:.1f} s, in {where}"
                found = found or RuleHit(evidence, token, entry.get("comm"))
        return found


class Spin(Rule):
    """A core is busy, and nothing comes of it: no output, no I/O, no change of memory."""

    __slots__ = ("_samples", "_since", "_switches")
    name = "cpu_spin"
    percent = Threshold(90, "one core, all of the time")
    loaded_percent = Threshold(2, "on a loaded machine others have the rest")
    seconds = Threshold(10, "a computation that long reads or writes something")
    samples = Threshold(3, "with a long interval, one burst may fill a sample")
    memory_share = Threshold(0.05, "memory that changes is work")

    def __init__(self) -> None:
        super().__init__()
        self._since: tuple[float, int, int] | None = None  # when, characters, memory
        self._samples = 0
        self._switches: int | None = None

    def knows(self, row: Row) -> bool:
        return row["tree"].get("cpu_percent") is not None and _chars(row)

    def look(self, row: Row) -> RuleHit | None:
        now, percent = time_of(row), row["tree"].get("cpu_percent")
        chars, used = row["tree"].get("chars"), row["tree"].get("rss_bytes") or 0
        if not self._is_busy(row, percent):
            self._since = None
            return None
        if self._since is None or self._has_worked(row, chars, used, now - self._since[0]):
            self._since, self._samples = (now, chars, used), 0
            return None
        self._samples += 1
        seconds = now - self._since[0]
        if seconds < self.seconds or self._samples < self.samples - 1:
            return None
        return RuleHit(f"{percent:.0f} % CPU for {seconds:.0f} s with no output and no I/O")

    def _is_busy(self, row: Row, percent: float) -> bool:
        """All of a core, or as much as others leave it: then it never waits of its own will."""
        before, self._switches = self._switches, row.get("switches")
        never_waits = before is not None and before == self._switches
        if never_waits and row.get("state") == "running":
            return percent >= self.loaded_percent
        return percent >= self.percent

    def _has_worked(self, row: Row, chars: int, used: int, seconds: float) -> bool:
        assert self._since is not None
        _, chars_before, used_before = self._since
        quiet = row.get("quiet_seconds")
        return (
            chars != chars_before
            or abs(used - used_before) > self.memory_share * used_before
            or (quiet is not None and quiet < seconds)
        )


def _chars(row: Row) -> bool:
    return row["tree"].get("chars") is not None


class Stall(Rule):
    """Nothing happens: no output, no CPU, no I/O, and no established connection."""

    __slots__ = ("_since", "_sockets")
    name = "stall"
    seconds = Threshold(900, "agents wait minutes for a model or a long tool call")
    percent = Threshold(1, "timers and garbage collection use less")

    def __init__(self) -> None:
        super().__init__()
        self._since: tuple[float, int] | None = None  # when, characters
        self._sockets = 0

    def knows(self, row: Row) -> bool:
        return row["tree"].get("cpu_percent") is not None and _chars(row)

    def look(self, row: Row) -> RuleHit | None:
        now, chars = time_of(row), row["tree"].get("chars")
        sockets = row["tree"].get("sockets")
        self._sockets = self._sockets if sockets is None else sockets
        busy = row["tree"].get("cpu_percent") >= self.percent or self._sockets > 0
        if self._since is None or busy or chars != self._since[1]:
            self._since = (now, chars)
            return None
        quiet = row.get("quiet_seconds")
        seconds = now - self._since[0] if quiet is None else min(now - self._since[0], quiet)
        if seconds < self.seconds:
            return None
        return RuleHit(f"no output, CPU, I/O or connection for {seconds / 60:.0f} min")


class DeletedDirectory(Rule):
    """The workload's working directory was removed."""

    __slots__ = ()
    name = "deleted_cwd"

    def knows(self, row: Row) -> bool:
        return "cwd_deleted" in row or row.get("threads") is not None

    def look(self, row: Row) -> RuleHit | None:
        return RuleHit("its working directory was removed") if row.get("cwd_deleted") else None


class IdentityDrift(Rule):
    """A row describes another process than the one that the run resolved to."""

    __slots__ = ()
    name = "identity_drift"
    severity = Severity.CRITICAL

    def knows(self, row: Row) -> bool:
        return row.get("token") is not None

    def look(self, row: Row) -> RuleHit | None:
        if self.context.workload_token in (None, row["token"]):
            return None
        return RuleHit(
            f"the sample is of {row['token']}, the workload is {self.context.workload_token}"
        )

    def another_subject(self) -> None:
        """Keep state: a change of subject is the drift itself."""


class WrapperTraced(Rule):
    """A row describes a wrapper."""

    __slots__ = ()
    name = "wrapper_traced"
    severity = Severity.CRITICAL

    def knows(self, row: Row) -> bool:
        return row.get("token") is not None

    def look(self, row: Row) -> RuleHit | None:
        if row["token"] not in self.context.wrapper_tokens:
            return None
        return RuleHit(f"the sample is of {row.get('comm')}, a wrapper of the workload")


class CrashLoop:
    """Attempts that fail soon, one after the other: a rule over restarts, not over rows."""

    name = "crash_loop"
    severity = Severity.CRITICAL
    restarts = Threshold(3, "two failures happen; three in a row are a loop")
    lived_seconds = Threshold(60, "an attempt that lives longer gets something done")
    window_seconds = Threshold(600, "restarts are delayed more and more")

    def __init__(self) -> None:
        self._failed: list[tuple[float, float]] = []  # when, and how long the attempt lived
        self._has_fired = False

    def restarted(self, at: str, boottime: float, lived_seconds: float) -> list[Anomaly]:
        """An attempt failed and is to be started again."""
        if lived_seconds >= self.lived_seconds:
            self._failed, self._has_fired = [], False
            return []
        oldest = boottime - self.window_seconds
        self._failed = [one for one in self._failed if one[0] > oldest]
        self._failed.append((boottime, lived_seconds))
        if self._has_fired or len(self._failed) < self.restarts:
            return []
        self._has_fired = True
        lived = ", ".join(f"{seconds:.1f} s" for _, seconds in self._failed[-3:])
        evidence = f"{len(self._failed)} attempts failed in a row; the last lived {lived}"
        return [Anomaly(self.name, self.severity, evidence, at, boottime)]


RULES: tuple[type[Rule], ...] = (
    Stuck,
    Spin,
    Stall,
    DeletedDirectory,
    IdentityDrift,
    WrapperTraced,
)
