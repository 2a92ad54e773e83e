"""Looks at the tree of a run from time to time: its members, its workload, what it uses.

It records what it sees and stops nothing. A process that vanishes or can't be read is normal.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.clock import boottime
from holdfast.process.sampling.figures import USAGE
from holdfast.process.workload.finder import WorkloadFinder
from holdfast.process.workload.programs import base, is_shell, wrapper_of
from holdfast.process.workload.resolution import Resolution, ResolutionKind, Sought
from holdfast.run.events import Kind
from holdfast.run.redaction import redact_argv
from holdfast.wrappers import SHELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.process.identity import HeldProcess
    from holdfast.process.sampling.sampler import Activity
    from holdfast.process.tree import Member
    from holdfast.shim.run_sampling import Measuring
    from holdfast.shim.supervisor import Supervisor

# A wrapper starts its workload soon after itself, and a short one is soon gone again.
EARLY_LOOKS_SECONDS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.3, 0.5, 0.5)
UNSETTLED_SECONDS = 0.5  # between looks while the workload may still appear, or turn out another
UNSETTLED_LOOKS = 60
SPARING_SECONDS = 5.0  # below this interval no sample is skipped
THOROUGH_SECONDS = 50.0  # between full looks at a calm tree, which reuse nothing


class Observer:
    """What one shim sees of its tree."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.sought: Sought | None = None  # by the agent's profile
        self._supervisor = supervisor
        self._seen = set(supervisor.journal.facts.members)
        self._meter: Measuring | None = None
        self._finder: WorkloadFinder | None = None
        self._recorded: Resolution | None = None
        self._was_found_before = False  # by a shim that is gone, in this attempt
        self._came_late = False  # it was dead when it was adopted
        self._looks = 0
        self._members: list[Member] = []
        self._picture: list[tuple[object, ...]] = []
        self._thorough_at = float("-inf")

    def _measuring(self) -> Measuring:
        """Loaded when the first figure is wanted: a run without samples does without."""
        if self._meter is None:
            from holdfast.shim.run_sampling import Measuring

            self._meter = Measuring(self._supervisor)
        return self._meter

    def begin(self) -> None:
        """A new attempt runs (or was adopted): look soon, and then at the sample interval."""
        root = self._supervisor.attempt.root or self._supervisor.attempt.workload
        if root is None:
            return
        wanted = self._supervisor.spec.wanted
        self._finder = WorkloadFinder(
            root.identity,
            command=self._supervisor.spec.command,
            expected=wanted.workload,
            sought=self.sought or _spoken_of(self._supervisor.spec.command),
        )
        self._recorded = None
        self._was_found_before = self._supervisor.journal.facts.attempt.workload is not None
        attempt = self._supervisor.attempt
        self._came_late = attempt.is_dead and not attempt.root_is_child
        self._looks = 0
        self._picture = []
        self._thorough_at = float("-inf")
        self._look_early()
        if wanted.restarts != 0:
            self._measuring()  # it watches for a crash loop
        if wanted.sample_interval_seconds:
            self._sample()

    def rest(self) -> None:
        """The attempt is over, and another one is to follow."""
        for timer in ("look", "sample"):
            self._supervisor.loop.cancel(timer)

    def follow_heir(self) -> None:
        """The root has left its place to what it started."""
        root = self._supervisor.attempt.root
        if self._finder is not None and root is not None:
            self._finder.take_root(root.identity)
            self._looks = 0
            self._look_early()

    def _look_early(self) -> None:
        known = self._recorded
        self.look()
        if self._looks and self._recorded is not known:
            self._take_sample()  # of a workload that may be gone before the next is due
        self._looks += 1
        loop = self._supervisor.loop
        if self._looks <= len(EARLY_LOOKS_SECONDS):
            loop.after("look", EARLY_LOOKS_SECONDS[self._looks - 1], self._look_early)
        elif not self._is_settled() and self._looks < UNSETTLED_LOOKS:
            loop.after("look", UNSETTLED_SECONDS, self._look_early)

    def _sample(self) -> None:
        interval = self._supervisor.spec.wanted.sample_interval_seconds
        due = next_beat(boottime(), interval)
        self._supervisor.loop.at("sample", due, self._sample)
        meter, finder = self._meter, self._finder
        if meter is not None and finder is not None and meter.goes_on(finder.resolution):
            # Nothing has changed: neither the members nor what they use.
            if meter.repeats and interval >= SPARING_SECONDS:
                self._supervisor.loop.at("sample", even_beat(due, interval), self._sample)
            return
        self.look()
        self._take_sample()

    def _take_sample(self) -> None:
        if self._has_nothing_to_measure():
            return
        if self._finder is not None and self._supervisor.spec.wanted.sample_interval_seconds:
            self._measuring().sample(self._members, self._finder.resolution)

    def look(self) -> None:
        """Walk the tree; record new members, and which one is the workload."""
        if not self._can_see():
            return
        self._members = self._supervisor.tree.walk()
        now = boottime()
        picture: list[tuple[object, ...]] = [
            (member.identity, member.ppid, member.comm, member.image) for member in self._members
        ]
        is_calm = picture == self._picture and self._is_settled()
        if is_calm and now - self._thorough_at < THOROUGH_SECONDS:
            return  # no member came, left or execed: nothing can be new
        self._picture, self._thorough_at = picture, now
        fresh = [m for m in self._members if m.identity.token not in self._seen]
        if fresh:
            self._seen.update(m.identity.token for m in fresh)
            rows = [{"token": m.identity.token, "comm": m.comm} for m in fresh]
            self._supervisor.journal.record(Kind.MEMBERS_SEEN, members=rows)
        for member in self._members:
            self._supervisor.oom.look(member)
        if self._finder is not None:
            self._resolve(self._finder)

    def _is_settled(self) -> bool:
        return self._finder is None or self._finder.is_settled

    def _resolve(self, finder: WorkloadFinder) -> None:
        found = finder.look(self._members)
        if self._came_late:
            return  # the recorded workload stands: of a zombie's tree, nobody can tell another
        for execed in finder.take_execs():
            self._supervisor.journal.record(
                Kind.EXECED,
                token=execed.identity.token,
                comm=execed.comm,
                exe=execed.exe,
                was=execed.was,
            )
        if found.pending and found.workload is None and self._looks < len(EARLY_LOOKS_SECONDS):
            return  # a wrapper that has just started: not worth a fact yet
        if self._recorded is None or not found.says_the_same(self._recorded):
            self._recorded = found
            held = self._hold(found)  # first: a reader of the fact may end the workload at once
            if found.workload is not None:
                self._supervisor.attempt.record_end_of_former()
            if found.has_subject or not self._was_found_before:
                self._supervisor.journal.record(Kind.WORKLOAD_RESOLVED, **_public(found))
            chain = found.wrappers if found.workload is None else (*found.wrappers, found.workload)
            self._supervisor.attempt.shells = tuple(
                program.identity for program in chain if is_shell(wrapper_of(program))
            )
            if held is not None:
                self._supervisor.attempt.take_workload(held, outlives_root=found.outlives_root)
            elif self._is_root(found):
                self._supervisor.attempt.let_go_of_workload()

    def _is_root(self, found: Resolution) -> bool:
        root, workload = self._supervisor.attempt.root, found.workload
        return root is not None and workload is not None and workload.identity == root.identity

    def _hold(self, found: Resolution) -> HeldProcess | None:
        """The workload, where it is another than the root."""
        if found.workload is None or self._is_root(found):
            return None
        try:
            return found.workload.identity.hold()
        except HoldfastError:  # it ended since: what was seen of it is recorded
            return None

    def missing_workload(self) -> str | None:
        """Which workload did not appear, and why; None: it was found, or no search was made."""
        if self._finder is None or self._finder.resolution.workload is not None:
            return None
        root, wanted = self._finder.root, self._supervisor.spec.wanted
        names = () if self.sought is None else self.sought.names
        name = wanted.workload or " or ".join(names) or "one"
        detail = f"no workload {name} appeared below root {root.pid}"
        return f"{detail} within {wanted.resolve_seconds:g} s: {self._finder.resolution.why}"

    def last_look(self) -> None:
        """The root or workload ended and is not reaped yet: /proc still shows its CPU time."""
        self._looks = len(EARLY_LOOKS_SECONDS)
        self.look()
        if self._finder is not None and not self._has_nothing_to_measure():
            self._measuring().sample(self._members, self._finder.resolution, full=True)

    def usage(self) -> dict[str, Any] | None:
        """The contract's `usage`; None: nothing was measured."""
        usage: dict[str, Any]
        if self._has_nothing_to_measure():
            usage = dict.fromkeys(USAGE)
        else:
            usage = self._measuring().usage()
        used = self._supervisor.root_usage
        # The kernel's own count for the root is the workload's only where they are one.
        if used is not None and self._is_direct():
            usage["cpu_seconds"] = max(usage["cpu_seconds"] or 0.0, used.cpu_seconds)
            if used.peak_rss_bytes is not None:
                usage["peak_rss_bytes"] = max(usage["peak_rss_bytes"] or 0, used.peak_rss_bytes)
        return usage if any(value is not None for value in usage.values()) else None

    def _is_direct(self) -> bool:
        finder = self._finder
        return finder is not None and finder.resolution.kind is ResolutionKind.DIRECT

    def _has_nothing_to_measure(self) -> bool:
        """Whether it ended before it was seen. What measures is not even loaded for that."""
        if self._meter is not None or self._members:
            return False
        return not os.path.exists(self._supervisor.directory.trace_path)  # of an earlier shim

    def _can_see(self) -> bool:
        """Whether /proc can be read at all: what it does not show then is not gone."""
        try:
            procfs.read(os.getpid(), "stat")
        except (HoldfastError, OSError) as error:
            self._supervisor.senses.lose("proc", error)
            return False
        self._supervisor.senses.regain("proc")
        return True

    def activity(self) -> Activity | None:
        """What the tree has done so far; None: unknown."""
        if not self._can_see():
            return None
        return self._measuring().sampler.activity(self._supervisor.tree.walk())

    def memory_bytes(self, limit_bytes: int) -> int | None:
        """Resident and swapped memory of the tree."""
        if not self._can_see():
            return None
        return self._measuring().sampler.memory_bytes(self._supervisor.tree.walk(), limit_bytes)


def next_beat(now: float, interval: float) -> float:
    """When to sample next: at a multiple of the interval, as every shim of this machine does.

    They are woken together, and the code that they share is in the caches for all but the first
    (decision 0069). Not sooner than half an interval after the last.
    """
    return (now / interval + 1.5) // 1 * interval


def even_beat(due: float, interval: float) -> float:
    """That beat, or the one after it: a tree in which nothing happens is looked at half as often
    (decision 0129), by all shims at the same moments."""
    return due + interval if round(due / interval) % 2 else due


def _spoken_of(command: tuple[str, ...]) -> Sought | None:
    """The agents that a shell text in the command starts, in a loop or after other programs."""
    if not any(base(word) in SHELLS for word in command):
        return None
    from holdfast.agents.recognition_table import COMMANDS
    from holdfast.process.workload.shell_text import read_script

    texts = [word for word in command if " " in word]
    scripts = [script for script in map(read_script, texts) if script is not None]
    names = sorted({name for script in scripts for name in script.names() & COMMANDS.keys()})
    return Sought(tuple(names)) if names else None


def _public(found: Resolution) -> dict[str, Any]:
    """The event's fields; arguments may hold secrets, and events are read by many."""
    document = found.to_json()
    for process in (document["workload"], *document["wrappers"]):
        if process is not None and process.get("cmdline"):
            process["cmdline"] = redact_argv(process["cmdline"])
    return document
