"""Stopping a whole tree: done only when it is empty.

Ask the targets. If they end within the grace, ask the rest, which has what is left of the grace,
2 s at most. Then SIGSTOP all until two walks are calm (nothing new: a stopped process can't fork),
then SIGKILL. Every signal goes through the gate. `TreeStop` is a machine for a poll loop;
`stop_tree` drives it and blocks.
"""

from __future__ import annotations

import select

from holdfast.lean import StrEnum, signal
from holdfast.process import procfs
from holdfast.process.clock import boottime
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.procfs import ProcessState
from holdfast.process.signals import Delivery, Fate, need_identity, signal_held
from holdfast.process.tree import Member, Tree
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

REST_GRACE_SECONDS = 2.0  # for members that the workload left behind: they had no signal before
FREEZE_SECONDS = 5.0  # a tree that is not calm by then is killed all the same, and looked at again
SETTLE_SECONDS = 5.0  # how long SIGKILL may take before a process counts as a survivor
_PAUSE_SECONDS = 0.005
_STOP_AGAIN_SECONDS = 0.1  # a member that is not still by then was sent SIGCONT by another
_STANDING_STILL = (
    ProcessState.STOPPED,
    ProcessState.TRACED,
    ProcessState.DISK_SLEEP,
    ProcessState.ZOMBIE,
    ProcessState.DEAD,
)


class Survivor(Record):
    """A process that SIGKILL did not end in time, and where it hangs."""

    identity: ProcessIdentity
    comm: str
    state: ProcessState
    wait_channel: str | None

    def to_json(self) -> dict[str, Any]:
        """As in a run's `cleanup`."""
        return {
            **self.identity.to_json(),
            "comm": self.comm,
            "state": self.state.value,
            "wait_channel": self.wait_channel,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Survivor:
        """Read it back."""
        return cls(
            ProcessIdentity.from_json(document),
            str(document.get("comm")),
            ProcessState(document.get("state") or "unknown"),
            document.get("wait_channel"),
        )


class Cleanup(Record):
    """What stopping a tree came to."""

    signalled: int = 0  # processes that got at least one signal
    refused: int = 0  # processes that could not be signalled
    survivors: tuple[Survivor, ...] = ()
    complete: bool | None = True  # None: empty as far as we see, but a fork may have been missed

    def to_json(self) -> dict[str, Any]:
        """The contract's `cleanup`."""
        survivors = [survivor.to_json() for survivor in self.survivors]
        return {**self.as_dict(), "survivors": survivors}

    def added_to(self, before: Cleanup | None) -> Cleanup:
        """Both in one: the counts add up, and the survivors are those of this one."""
        if before is None:
            return self
        # An adopter finds empty what was emptied while the old shim watched.
        was_empty = bool(before.complete) and not self.signalled
        return self.replace(
            signalled=before.signalled + self.signalled,
            refused=before.refused + self.refused,
            complete=True if self.complete is None and was_empty else self.complete,
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Cleanup:
        """Read it back."""
        return cls(
            int(document.get("signalled") or 0),
            int(document.get("refused") or 0),
            tuple(Survivor.from_json(one) for one in document.get("survivors") or ()),
            document.get("complete"),
        )


class _Phase(StrEnum):
    ASK = "ask the targets"
    ASK_REST = "ask what they left behind"
    FREEZE = "SIGSTOP until calm"
    SETTLE = "SIGKILL until empty"
    DONE = "done"


class TreeStop:
    """One stop of one tree. Call `step` until `result` is there; it never blocks."""

    def __init__(
        self,
        tree: Tree,
        targets: Iterable[ProcessIdentity],
        *,
        polite: int = signal.SIGTERM,
        grace_seconds: float = 10.0,
        record: Callable[[Delivery, str], None] = lambda _delivery, _why: None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.result: Cleanup | None = None
        self._tree = tree
        self._targets = set(targets)
        self._polite = polite
        self._record = record
        self._clock = clock
        self._grace_ends = self._clock() + grace_seconds
        self._asked: set[ProcessIdentity] = set()
        self._frozen: dict[ProcessIdentity, float] = {}  # with the time of the last SIGSTOP
        self._signalled: set[ProcessIdentity] = set()
        self._refused: set[ProcessIdentity] = set()
        self._just_frozen = 0
        self._calm_walks = 0
        self._rounds = 0
        self._phase = _Phase.ASK
        self._phase_ends = self._grace_ends
        tree.let_go_of_spared()
        if grace_seconds <= 0:  # no time to answer: a polite signal would only be a race
            self._enter(_Phase.FREEZE, self._clock() + FREEZE_SECONDS)

    def shorten(self, grace_seconds: float) -> None:
        """A stop was requested again: wait no longer than that from now."""
        self._grace_ends = min(self._grace_ends, self._clock() + grace_seconds)
        if self._phase in (_Phase.ASK, _Phase.ASK_REST):
            self._phase_ends = min(self._phase_ends, self._grace_ends)

    def step(self) -> float:
        """Do what is due. Seconds until the next step is worth while; 0 when done."""
        self._just_frozen = 0
        members = self._tree.walk(self._meet)
        if self._tree.is_proven_empty:
            return self._finish(members)
        if self._phase is _Phase.ASK:
            return self._ask(members)
        if self._phase is _Phase.ASK_REST:
            return self._ask_rest(members)
        if self._phase is _Phase.FREEZE:
            return self._freeze(members)
        return self._settle(members)

    def _ask(self, members: list[Member]) -> float:
        targets = [member for member in members if member.identity in self._targets]
        if not targets:
            self._enter(_Phase.ASK_REST, min(self._grace_ends, self._clock() + REST_GRACE_SECONDS))
            return self._ask_rest(members)
        self._ask_each(targets, "stop: asked")
        return self._remaining_or_freeze()

    def _ask_rest(self, members: list[Member]) -> float:
        self._ask_each(members, "stop: left behind by the workload")
        return self._remaining_or_freeze()

    def _ask_each(self, members: list[Member], why: str) -> None:
        for member in members:
            # A member met after the grace is stopped already: SIGCONT would let it fork again.
            if member.identity not in self._asked and member.identity not in self._frozen:
                self._asked.add(member.identity)
                self._signal(member.identity, self._polite, why)
                if member.state is ProcessState.STOPPED:
                    # A stopped process takes the signal only once it goes on.
                    self._signal(member.identity, signal.SIGCONT, why)

    def _remaining_or_freeze(self) -> float:
        remaining = self._phase_ends - self._clock()
        if remaining > 0:
            # A fork may come at any time; leave the loop alone, but look once a second.
            return min(remaining, 1.0 if self._tree.saw_all else _PAUSE_SECONDS)
        self._enter(_Phase.FREEZE, self._clock() + FREEZE_SECONDS)
        for held in self._tree.held():
            self._freeze_new(held)
        return 0.0

    def _meet(self, held: HeldProcess) -> None:
        """A fork bomb takes most of the CPU: after the grace, freeze members during the walk."""
        if self._phase in (_Phase.FREEZE, _Phase.SETTLE) or self._clock() >= self._phase_ends:
            self._freeze_new(held)

    def _freeze_new(self, held: HeldProcess) -> None:
        """A new member is stopped the moment it is proven to be one: it may fork any moment."""
        if held.identity not in self._frozen:
            self._just_frozen += 1
            self._hold_still(held.identity)

    def _hold_still(self, identity: ProcessIdentity) -> None:
        self._frozen[identity] = self._clock()
        self._signal(identity, signal.SIGSTOP, "stop: hold still")

    def _freeze(self, members: list[Member]) -> float:
        for member in members:
            held = self._tree.held_as(member.identity)
            if held is not None:
                self._freeze_new(held)
        moving = [m.identity for m in members if m.state not in _STANDING_STILL]
        for identity in moving:
            if self._clock() - self._frozen.get(identity, 0.0) > _STOP_AGAIN_SECONDS:
                self._hold_still(identity)
        # Looking again would not help: kill what is held, which frees descriptors.
        is_seen = self._tree.saw_all or self._tree.was_blind
        saw_all = is_seen and not self._just_frozen
        self._calm_walks = self._calm_walks + 1 if saw_all and not moving else 0
        if self._calm_walks < 2 and self._clock() < self._phase_ends:
            return _PAUSE_SECONDS if saw_all else 0.0
        for member in members:
            self._signal(member.identity, signal.SIGKILL, "stop: grace is over")
        self._enter(_Phase.SETTLE, self._clock() + SETTLE_SECONDS)
        return _PAUSE_SECONDS

    def _settle(self, members: list[Member]) -> float:
        if self._just_frozen and self._rounds < 50:
            self._rounds += 1
            self._enter(_Phase.FREEZE, self._clock() + FREEZE_SECONDS)
            return self._freeze(members)
        if self._clock() < self._phase_ends:
            return _PAUSE_SECONDS * 4 if self._tree.saw_all else 0.0
        return self._finish(members)

    def _finish(self, members: list[Member]) -> float:
        survivors = tuple(
            Survivor(m.identity, m.comm, m.state, procfs.wait_channel(m.identity.pid))
            for m in members
        )
        saw_every_fork = self._tree.sees_every_fork and self._tree.is_proven_empty
        complete = False if survivors else (True if saw_every_fork else None)
        refused = len(self._refused - self._signalled)
        self.result = Cleanup(len(self._signalled), refused, survivors, complete)
        self._phase = _Phase.DONE
        return 0.0

    def _enter(self, phase: _Phase, ends: float) -> None:
        self._phase = phase
        self._phase_ends = ends
        self._calm_walks = 0

    def _signal(self, identity: ProcessIdentity, sig: int, why: str) -> None:
        held = self._tree.held_as(identity)
        if held is None:
            return
        delivery = signal_held(held, sig)
        self._record(delivery, why)
        if delivery.delivered:
            self._signalled.add(identity)
        elif delivery.fate in (Fate.DENIED, Fate.REFUSED):
            self._refused.add(identity)


def stop_tree(
    root: ProcessIdentity,
    *,
    polite: int = signal.SIGTERM,
    grace_seconds: float = 10.0,
    reaper: ProcessIdentity | None = None,
    spare: Callable[[ProcessIdentity], bool] = lambda _identity: False,
    record: Callable[[Delivery, str], None] = lambda _delivery, _why: None,
) -> Cleanup:
    """Stop a process and all its descendants; blocks until the tree is empty or can't be.

    Pass `reaper=ProcessIdentity.current()` from a subreaper: then no fork can be missed.
    """
    need_identity(root, "stop_tree")
    if reaper is not None:
        need_identity(reaper, "reaper of stop_tree")
    with Tree([root], reaper=reaper, spare=spare) as tree:
        targets = [held.identity for held in tree.held()]  # as they are named here
        stop = TreeStop(tree, targets, polite=polite, grace_seconds=grace_seconds, record=record)
        return drive(stop, tree)


def drive(stop: TreeStop, tree: Tree) -> Cleanup:
    """Step until there is a result; sleeps until a member ends or the next step is due."""
    while stop.result is None:
        pause = stop.step()
        if pause > 0:
            poll = select.poll()
            for fd in tree.descriptors():  # also of one that ended since: then don't sleep
                poll.register(fd, select.POLLIN)
            poll.poll(pause * 1000)
    return stop.result
