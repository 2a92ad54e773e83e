"""Runs on other machines, kept fresh for a screen or a server.

One thread reads the ledger, one for each target asks its nodes: a machine that does not answer
delays its own runs alone. Nodes are asked at a modest pace, silent ones less and less often; what
a silent node said last is shown as `unknown`, with since when.
"""

from __future__ import annotations

import os
import threading
import time

from holdfast.errors import Bug, HoldfastError, is_shortage, out_of_room
from holdfast.fleet.library import Fleet
from holdfast.fleet.listing import (
    FleetLook,
    look_at_group,
    look_at_silent,
    look_from_here,
    node_key,
)
from holdfast.fleet.placement import Placement
from holdfast.fleet.remote_info import UNFIT, unreadable_info
from holdfast.fleet.verdict import NodeLook
from holdfast.manage.live import LiveChanges
from holdfast.manage.operations import Wait, run_steps
from holdfast.manage.selection import Selection
from holdfast.manage.together import together
from holdfast.manage.words.views import failed_at_once, row_of
from holdfast.process.clock import seconds_of
from holdfast.record import Record
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.runs import Runs
    from holdfast.manage.words.views import Row

    Told = Callable[[LiveChanges], None]
    Group = tuple[str, str]

LEDGER_SECONDS = 2.0  # between looks into the ledger for what was placed
WHOLE_SECONDS = 60.0  # between looks for what was removed, or has grown old
NODE_SECONDS = 5.0  # between two questions to a node that answers
MOST_SILENT_SECONDS = 30.0  # and to one that does not
_BUSY_SHARE = 0.2  # of its time, at most, a target is being asked
_AT_ONCE = 16


class SeenElsewhere(Record):
    """How a run was seen last, and where it is."""

    info: RunInfo
    row: Row
    where: str
    is_reached: bool  # its node answered, or nothing is to be asked of it


class FleetWatch:
    """Tells of every placed run that fits, from `begin` to `end`."""

    def __init__(
        self,
        runs: Runs,
        tell: Told,
        selection: Selection | None = None,
        *,
        window: float | None = None,
        is_plain: bool = True,
    ) -> None:
        self._runs = runs
        self._tell = tell
        self._selection = selection or Selection()
        self._window = window
        self._is_plain = is_plain
        self._seen: dict[str, SeenElsewhere] = {}
        self._targets: dict[str, TargetWatch] = {}
        self._final: set[str] = set()  # nothing new is expected of these
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._trouble = ""

    def begin(self) -> None:
        """In a thread of its own."""
        threading.Thread(target=self._drive, name="holdfast-ledger", daemon=True).start()

    def end(self) -> None:
        """No longer; what is under way is given up."""
        self._over.set()
        for one in list(self._targets.values()):
            one.end()

    def look_again(self, run_id: str) -> None:
        """Something was done to it: ask its node soon."""
        for one in list(self._targets.values()):
            one.hurry(run_id)

    def sight(self, run_id: str) -> SeenElsewhere | None:
        """How it was seen last."""
        return self._seen.get(run_id)

    # The ledger

    def _drive(self) -> None:
        next_whole = 0.0
        with Fleet(self._runs) as fleet:
            while not self._over.is_set():
                began = time.monotonic()
                is_whole = began >= next_whole
                try:
                    self._read(fleet, is_whole=is_whole)
                    self._set_trouble(None)
                    if is_whole:
                        now = time.monotonic()
                        next_whole = now + max(WHOLE_SECONDS, (now - began) / _BUSY_SHARE)
                except (HoldfastError, OSError) as error:
                    self._set_trouble(_told(error))
                self._over.wait(LEDGER_SECONDS)

    def _set_trouble(self, error: HoldfastError | None) -> None:
        said = "" if error is None else error.message
        if said != self._trouble:
            self._trouble = said
            self._tell(LiveChanges(trouble=error))

    def _read(self, fleet: Fleet, *, is_whole: bool) -> None:
        found, there = [], set()
        for one in fleet.ledger.every() if is_whole else self._going_on(fleet):
            there.add(one.id)
            if not isinstance(one, Placement):
                info = unreadable_info(one.id, one.fault)
                self._show(FleetLook(_unread(one.id), info, NodeLook.ABSENT))
            elif not self._is_old(one) and not RunDirectory(self._runs.home, one.id).exists():
                found.append(one)
        if is_whole:
            self._final &= there
            self._hide({one for one in self._seen if one not in there or self._has_aged(one)})
        self._share_out(fleet, found)

    def _share_out(self, fleet: Fleet, placements: list[Placement]) -> None:
        """Show the placements that have no node to ask; give the others to their target's watch."""
        by_target: dict[str, list[Placement]] = {}
        for one in placements:
            if node_key(one) is not None:
                by_target.setdefault(one.target, []).append(one)
            elif one.id not in self._final:
                self._show(look_from_here(fleet, one))
                if one.is_over:
                    self._final.add(one.id)
        for target in {*by_target, *self._targets}:
            if target not in self._targets:
                self._targets[target] = TargetWatch(self._runs, self._show_all)
            self._targets[target].set_placements(by_target.get(target, []))

    def _since(self) -> float | None:
        return None if self._window is None else time.time() - self._window

    def _is_old(self, placement: Placement) -> bool:
        since, ended_at = self._since(), placement.ended_at
        return since is not None and ended_at is not None and seconds_of(ended_at) < since

    def _has_aged(self, run_id: str) -> bool:
        row, since = self._seen[run_id].row, self._since()
        return since is not None and row.ended is not None and row.ended < since

    def _going_on(self, fleet: Fleet) -> Iterable[Any]:
        """Those of which an end is not known here yet; what was removed meanwhile is hidden."""
        found = {one.id: one for one in fleet.ledger.active()}
        for run_id, seen in list(self._seen.items()):
            if run_id not in found and run_id not in self._final and seen.where:
                known = fleet.ledger.get(run_id)
                if known is None:
                    self._hide({run_id})
                else:
                    found[run_id] = known
        return found.values()

    # What is told

    def _show_all(self, looks: Iterable[FleetLook]) -> None:
        for one in looks:
            self._show(one)

    def _show(self, look: FleetLook) -> None:
        seen = _seen(look)
        fits = self._selection.replace(since=self._since()).fits(seen.info)
        with self._lock:
            if self._over.is_set():
                return
            before = self._seen.get(seen.info.id)
            if not fits or (self._is_plain and failed_at_once(seen.info)):
                if before is not None:
                    del self._seen[seen.info.id]
                    self._tell(LiveChanges(gone=(seen.info.id,)))
                return
            self._seen[seen.info.id] = seen
            if before is None or before.row != seen.row:
                self._tell(LiveChanges(rows=(seen.row,)))

    def _hide(self, ids: set[str]) -> None:
        with self._lock:
            for run_id in ids:
                self._seen.pop(run_id, None)
            if ids and not self._over.is_set():
                self._tell(LiveChanges(gone=tuple(ids)))


class TargetWatch:
    """Asks the nodes of one target about their runs, for as long as there are any."""

    def __init__(self, runs: Runs, tell: Callable[[Iterable[FleetLook]], None]) -> None:
        self._runs = runs
        self._tell = tell
        self._placements: dict[str, Placement] = {}
        self._due: dict[Group, float] = {}
        self._pause: dict[Group, float] = {}  # of those that were silent
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._news = threading.Condition()
        self._is_over = False
        threading.Thread(target=self._drive, name="holdfast-nodes", daemon=True).start()

    def set_placements(self, placements: list[Placement]) -> None:
        """Those that are to be asked about."""
        with self._news:
            self._placements = {one.id: one for one in placements}
            groups = {key for one in placements if (key := node_key(one)) is not None}
            for kept in (self._due, self._pause):
                for key in [key for key in kept if key not in groups]:
                    del kept[key]
            for key in groups:
                self._due.setdefault(key, 0.0)
            self._news.notify()

    def hurry(self, run_id: str) -> None:
        """Ask its node now."""
        with self._news:
            one = self._placements.get(run_id)
            key = None if one is None else node_key(one)
            if key is not None:
                self._due[key] = 0.0
                self._news.notify()

    def end(self) -> None:
        """Give up what is under way."""
        with self._news:
            self._is_over = True
            os.write(self._wake_write, b"x")
            self._news.notify()

    def _drive(self) -> None:
        with Fleet(self._runs) as fleet:
            while (groups := self._next_groups()) is not None:
                began = time.monotonic()
                steps = together([self._ask(fleet, key, group) for key, group in groups], _AT_ONCE)
                try:
                    run_steps(together([steps, self._ended()], until=lambda _: True))
                except HoldfastError:  # no descriptor is left to wait with: shown as they were
                    for key, _ in groups:
                        self._put_off(key, NODE_SECONDS)
                took = time.monotonic() - began
                self._rest(took * (1 / _BUSY_SHARE - 1))
        for fd in (self._wake_read, self._wake_write):
            os.close(fd)

    def _ended(self) -> Steps[bool]:
        yield Wait((self._wake_read,))
        return True

    def _next_groups(self) -> list[tuple[Group, list[Placement]]] | None:
        """Those that are due, once any is; None: it is over."""
        with self._news:
            while not self._is_over:
                now = time.monotonic()
                due = {key for key, at in self._due.items() if at <= now}
                if due:
                    return [(key, self._of(key)) for key in due]
                soonest = min(self._due.values(), default=None)
                self._news.wait(None if soonest is None else max(0.0, soonest - now))
            return None

    def _rest(self, seconds: float) -> None:
        """A target that takes long to ask is asked less often."""
        with self._news:
            at = time.monotonic() + seconds
            for key, due in self._due.items():
                if due > 0.0:
                    self._due[key] = max(due, at)

    def _of(self, key: Group) -> list[Placement]:
        return [one for one in self._placements.values() if node_key(one) == key]

    def _ask(self, fleet: Fleet, key: Group, group: list[Placement]) -> Steps[None]:
        self._put_off(key, NODE_SECONDS)
        try:
            looks = yield from look_at_group(fleet, group)
        except (HoldfastError, OSError, *UNFIT) as error:
            why = _told(error).message
            looks = look_at_silent(fleet, group, why)
        is_silent = not all(one.look.is_reached for one in looks)
        pause = NODE_SECONDS
        if is_silent:
            pause = min(self._pause.get(key, NODE_SECONDS / 2) * 2, MOST_SILENT_SECONDS)
        self._put_off(key, pause)
        self._pause[key] = pause
        self._tell(looks)

    def _put_off(self, key: Group, seconds: float) -> None:
        with self._news:
            if key in self._due:
                self._due[key] = time.monotonic() + seconds


def _seen(look: FleetLook) -> SeenElsewhere:
    where = look.placement.where
    row = row_of(look.info).replace(node=where)
    return SeenElsewhere(look.info, row, where, look.look.is_reached)


def _unread(run_id: str) -> Placement:
    """In place of a placement whose record is damaged: where it is can't be told."""
    return Placement(run_id, run_id, None, "ssh", "?", {}, False, "?", "")


def _told(error: Exception) -> HoldfastError:
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, OSError):
        return out_of_room(error) if is_shortage(error) else HoldfastError(str(error))
    return Bug(f"unexpected {type(error).__name__}: {error}")
