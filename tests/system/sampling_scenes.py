"""Scenes about samples that need a place of their own: played by `kernel_lab.run_in`."""

from __future__ import annotations

from typing import Any

from holdfast.process.identity import hold_pid
from holdfast.process.proc_files import SAMPLED, Budget
from holdfast.process.sampling.sampler import Sampler
from holdfast.process.tree import Member
from holdfast.process.workload.finder import read_program
from holdfast.process.workload.resolution import Resolution, ResolutionKind
from tests.support.recycling import recycle, spawn
from tests.support.waiting import eventually


def member(pid: int, *, most_files: int = 100) -> Member:
    """A process as a walk would give it."""
    found = Member(hold_pid(pid), Budget(most_files))
    found.look()
    return found


def direct(workload: Member) -> Resolution:
    """As found: it is the workload itself."""
    return Resolution(ResolutionKind.DIRECT, read_program(workload), (), "")


def sample_a_recycled_pid() -> list[bool]:
    """Sample a process, give its PID to a stranger, sample again: with kept descriptors and not."""
    victim = spawn()
    members = [member(victim.pid), member(victim.pid, most_files=0)]
    resolution = direct(members[0])
    samplers = [(Sampler(), one) for one in members]
    first = [s.sample([one], resolution).workload is not None for s, one in samplers]
    stranger = recycle(victim)
    unlooked = [s.sample([one], resolution, full=True).workload is None for s, one in samplers]
    for one in members:
        one.look()
    after = [s.sample([one], resolution).workload is None for s, one in samplers]
    stranger.end()
    return [*first, *unlooked, *after, stranger.pid == victim.pid]


def sample_as_another_user(pid: int) -> dict[str, Any]:
    """The row of a process that is not ours."""
    members = [member(pid)]
    return Sampler().sample(members, direct(members[0])).to_json()


def compare_a_recycled_pid() -> list[bool]:
    """Whether a process shows the same: while it lives, and when its number is a stranger's."""
    victim = spawn()
    files = member(victim.pid).files
    files.keep(SAMPLED)
    alive = eventually(files.shows_the_same, why="the child has come to its pause")
    stranger = recycle(victim)
    after = [files.shows_the_same() for _ in range(2)]
    stranger.end()
    return [alive, *after]
