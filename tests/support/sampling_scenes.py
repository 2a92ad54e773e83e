"""Scenes about samples that need a place of their own: played by `kernel_lab.run_in`."""

from __future__ import annotations

import os
import time
from typing import Any

from holdfast.process.finder import read_program
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import Member
from holdfast.process.procfs import ProcessState
from holdfast.process.resolution import Kind, Resolution
from holdfast.process.sampling import Sampler
from tests.support.recycling import recycle, spawn


def member(pid: int) -> Member:
    """A process as a walk would give it."""
    return Member(ProcessIdentity.of(pid), os.getppid(), "x", ProcessState.SLEEPING)


def direct(workload: Member) -> Resolution:
    """As found: it is the workload itself."""
    return Resolution(Kind.DIRECT, read_program(workload), (), "")


def sample_a_recycled_pid() -> list[bool]:
    """Sample a process, give its PID to a stranger, sample again: with kept descriptors and not."""
    victim = spawn()
    members = [member(victim.pid)]
    samplers = (Sampler(), Sampler(most_descriptors=0))
    resolution = direct(members[0])
    first = [s.sample(members, resolution).workload is not None for s in samplers]
    time.sleep(0.05)  # another start tick: without kept descriptors the ticks are the proof
    stranger = recycle(victim)
    after = [s.sample(members, resolution).workload is None for s in samplers]
    stranger.end()
    return [*first, *after, stranger.pid == victim.pid]


def sample_as_another_user(pid: int) -> dict[str, Any]:
    """The row of a process that is not ours."""
    members = [member(pid)]
    return Sampler().sample(members, direct(members[0])).to_json()
