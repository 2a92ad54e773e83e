"""Trees of hard members, and what stopping them came to. Each scene returns plain facts.

A scene forks a supervisor, which is the subreaper above the tree; whatever is alive in the scene's
PID namespace afterwards, and was not there before, is left over.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.libc import set_child_subreaper
from holdfast.process.stamped import find_suspects
from holdfast.process.tree import Tree
from holdfast.process.tree_stop import TreeStop
from tests.support import recycling
from tests.support.cgroups import CGroup
from tests.support.supervision import (
    Checkpoint,
    Facts,
    all_go,
    in_child,
    left_over,
    living,
    started,
    stopped,
)
from tests.support.tracer import held_at_exit


def stop(
    actor: str,
    members: int,
    *,
    grace_seconds: float = 0.3,
    rounds: int = 1,
    cgroup: str | None = None,
    fill: int = 0,
    is_reaper: bool = True,
    reaps: bool = False,
) -> list[Facts]:
    """Start the actor, wait until it has that many members (or fills its group), stop its tree."""
    return [
        _stop_once(
            actor,
            members,
            grace_seconds=grace_seconds,
            cgroup=cgroup,
            fill=fill,
            is_reaper=is_reaper,
            reaps=reaps,
        )
        for _ in range(rounds)
    ]


def _stop_once(
    actor: str,
    members: int,
    *,
    grace_seconds: float,
    cgroup: str | None,
    fill: int,
    is_reaper: bool,
    reaps: bool,
) -> Facts:
    before = living()

    def supervise(_: Checkpoint) -> Facts:
        if is_reaper:
            set_child_subreaper()
        with started(actor, members, cgroup) as root:
            if cgroup is not None:
                _await_fill(CGroup(Path(cgroup)), fill)
            return stopped(root, grace_seconds=grace_seconds, is_reaper=is_reaper, reaps=reaps)

    facts = in_child(supervise)
    facts["left"] = left_over(before)
    return facts


def _await_fill(group: CGroup, fill: int) -> None:
    deadline = time.monotonic() + 20
    while len(group.pids()) < fill:
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(group.pids())} of {fill} processes in the group")


def stop_held_at_exit() -> Facts:
    """The root is held at its exit by a tracer that is none of ours."""
    return _stop_with(held_at_exit, "stubborn", 1)


def stop_frozen(cgroup: str) -> Facts:
    """The root sits in a frozen control group."""

    @contextlib.contextmanager
    def frozen(root: int) -> Iterator[None]:
        group = CGroup(Path(cgroup))
        group.add(root)
        group.freeze()
        try:
            yield
        finally:
            group.thaw()

    return _stop_with(frozen, "obedient", 1)


def stop_beside_a_survivor() -> Facts:
    """One member is held at its exit; the others still have to go."""
    return _stop_with(held_at_exit, "double_fork", 2)


def _stop_with(
    holding: Callable[[int], contextlib.AbstractContextManager[object]], actor: str, members: int
) -> Facts:
    before = living()

    def supervise(checkpoint: Checkpoint) -> Facts:
        set_child_subreaper()
        with started(actor, members) as root:
            checkpoint(root)
            facts = stopped(root, grace_seconds=0.2)
            facts["living"] = living()
            return facts

    facts = in_child(supervise, holding)
    facts["went_when_let_go"] = all_go(before)
    return facts


def stop_as_another_user(uid: int) -> Facts:
    """The tree has a member that the supervisor may not signal (as after sudo)."""
    before = living()

    def supervise(_: Checkpoint) -> Facts:
        set_child_subreaper()
        with started("obedient", 1) as root:
            ProcessIdentity.current()
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable again: /proc/self is ours to read
            return stopped(root, grace_seconds=0.2)

    facts = in_child(supervise)
    facts["left"] = left_over(before)
    return facts


def stop_without_descriptors(spare: int) -> Facts:
    """The supervisor has almost no free descriptor, and the tree is larger than that."""
    before = living()

    def supervise(_: Checkpoint) -> Facts:
        set_child_subreaper()
        with started("deep", 41) as root:
            identity = ProcessIdentity.of(root)
            taken = max(map(int, os.listdir("/proc/self/fd")))
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (taken + spare, hard))
            return stopped(root, grace_seconds=0.2, identity=identity)

    facts = in_child(supervise)
    facts["left"] = left_over(before)
    return facts


def stop_beside_bystanders(run_id: str) -> Facts:
    """Processes of the same session and group, of the same name, and with the run's stamp."""
    bystanders = {
        "same session, group and name": recycling.spawn(),
        "same name, own session": recycling.spawn(action=os.setsid),
        "stamp": recycling.spawn(action=lambda: _exec_stamped(run_id)),
    }
    stamped = bystanders["stamp"].pid
    recycling.await_comm(stamped, b"sleep")
    before = living()

    def supervise(_: Checkpoint) -> Facts:
        set_child_subreaper()
        with started("setsid", 2, own_session=False) as root:
            session, group = os.getsid(root), os.getpgid(root)
            return {**stopped(root, grace_seconds=0.5), "session": session, "group": group}

    facts = in_child(supervise)
    facts["left"] = left_over(before)
    nearest = bystanders["same session, group and name"].pid
    facts["bystander"] = {"session": os.getsid(nearest), "group": os.getpgid(nearest)}
    facts["stamped"] = stamped
    facts["suspects"] = [m.identity.pid for m in find_suspects(run_id, lambda _: False)]
    facts["known"] = [m.identity.pid for m in find_suspects(run_id, lambda i: i.pid == stamped)]
    facts["untouched"] = {name: child.untouched() for name, child in bystanders.items()}
    for child in bystanders.values():
        child.end()
    return facts


def _exec_stamped(run_id: str) -> None:
    os.execve("/bin/sleep", ["sleep", "600"], {"HOLDFAST_RUN_ID": run_id})


def stop_sparing() -> Facts:
    """A member is spared (the shim of a run inside this one), and so is all below it."""
    before = living()

    def supervise(_: Checkpoint) -> Facts:
        set_child_subreaper()
        with started("setsid", 2) as inner, started("stubborn_daemon", 2) as root:
            spared = ProcessIdentity.of(inner)
            below = [ProcessIdentity.of(pid) for pid in procfs.children(inner) or ()]
            facts = stopped(root, grace_seconds=0.2, spare=lambda one: one == spared)
            facts["spared"] = [str(one.verdict()) for one in (spared, *below)]
            facts["then"] = stopped(root, grace_seconds=0.2)
            return facts

    facts = in_child(supervise)
    facts["left"] = left_over(before)
    return facts


def walk_after_recycling() -> Facts:
    """A recorded member's PID belongs to a stranger now: it is not a member."""
    member = recycling.spawn()
    recorded = ProcessIdentity.of(member.pid)
    stranger = recycling.recycle(member)
    with Tree() as tree:
        added = tree.add(recorded)
        members = [one.identity.pid for one in tree.walk()]
        result = TreeStop(tree, [recorded], grace_seconds=0)
        result.step()
    facts = {"added": added, "members": members, "untouched": stranger.untouched()}
    stranger.end()
    return facts


def walk_a_tree() -> Facts:
    """Everybody below, however far away they went, and nobody else."""
    bystander = recycling.spawn()

    def supervise(_: Checkpoint) -> Facts:
        set_child_subreaper()
        with (
            started("deep", 41) as root,
            started("stubborn_daemon", 2),
            Tree([ProcessIdentity.of(root)], reaper=ProcessIdentity.current()) as tree,
        ):
            members = tree.walk()
            expected = set(living()) - {1, os.getpid(), os.getppid(), bystander.pid}
            facts = {
                "pids_right": {member.identity.pid for member in members} == expected,
                "parents_right": all(
                    member.ppid == procfs.read_stat(member.identity.pid).ppid for member in members
                ),
                "all_same": all(str(m.identity.verdict()) == "SAME" for m in members),
                "count": len(members),
            }
            stopped(root, grace_seconds=0)
            return facts

    facts = in_child(supervise)
    facts["bystander_untouched"] = bystander.untouched()
    bystander.end()
    return facts


def run_that_leaves_a_comet(home: str, rounds: int) -> list[Facts]:
    """A whole run, through the command line, whose root ends while a comet is on its way."""
    comet = "import os\nwhile True:\n    if os.fork():\n        os._exit(0)\n"
    script = f'"{sys.executable}" -c "{comet}" & sleep 0.3'
    answers = []
    for number in range(rounds):
        before = living()
        env = {**os.environ, "HOLDFAST_HOME": f"{home}/{number}"}
        holdfast = [sys.executable, "-m", "holdfast"]
        run = [*holdfast, "run", "-F", "-n", "comet", "--grace", "1", "sh", "-c", script]
        code = subprocess.run(run, env=env, check=False).returncode
        all_go(before)  # the shim leaves a moment after the ending is recorded; a comet never does
        left = left_over(before)
        status = subprocess.run(
            [*holdfast, "status", "--json", "comet"], env=env, check=True, capture_output=True
        )
        answers.append({"code": code, "left": left, **json.loads(status.stdout)})
    return answers
