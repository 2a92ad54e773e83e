"""What a queued run waits for before it stands in line: an instant, and the ends of other runs."""

from __future__ import annotations

import os
import time

from holdfast.errors import HoldfastError, RunNotFound
from holdfast.process import libc, this_host
from holdfast.process.clock import boottime, seconds_of
from holdfast.run.control_socket import dial
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import ExitFacts
from holdfast.run.lifecycle import fold
from holdfast.shim.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from collections.abc import Callable
    from typing import Any, Protocol

    from holdfast.run.facts import RunFacts
    from holdfast.shim.loop import Loop
    from holdfast.shim.supervisor import Supervisor

    class Condition(Protocol):
        """`holds` looks, and sees to it that it is asked again."""

        def holds(self) -> bool: ...
        def close(self) -> None: ...


_AGAIN_SECONDS = (0.2, 1.0, 2.0, 5.0, 15.0)  # between looks at a run that is not supervised
_MOST_MISSES = 10  # looks at a run that is not there: a removal may be putting it back


class Moment:
    """An instant of the wall clock (`--at`), or of the time since boot (`--in`)."""

    def __init__(
        self, loop: Loop, look: Callable[[], None], *, wall: float | None, boot: float | None
    ) -> None:
        self._loop = loop
        self._look = look
        self._wall = wall
        self._boot = boot
        self._fd = -1

    @classmethod
    def of(cls, loop: Loop, waits: dict[str, Any], look: Callable[[], None]) -> Moment | None:
        """What the spec asks for; after a reboot `--in` counts by the wall clock."""
        if waits.get("at") is not None:
            return cls(loop, look, wall=seconds_of(waits["at"]), boot=None)
        delay = waits.get("in")
        if delay is None:
            return None
        if delay["boot_id"] == this_host.place().boot_id:
            return cls(loop, look, wall=None, boot=delay["boottime"] + delay["seconds"])
        return cls(loop, look, wall=seconds_of(delay["at"]) + delay["seconds"], boot=None)

    def holds(self) -> bool:
        if self._boot is not None:
            if boottime() >= self._boot:
                return True
            self._loop.at("moment", self._boot, self._look)
        elif self._wall is not None:
            if time.time() >= self._wall:
                return True
            self._watch(self._wall)
        return False

    def _watch(self, wall: float) -> None:
        """On an absolute timer of the wall clock: a step of the clock moves it."""
        if self._fd < 0:
            self._fd = libc.wall_timer()
            self._loop.watch(self._fd, READ, "moment", self._due)
        libc.arm_timer(self._fd, wall)

    def _due(self, _events: int) -> None:
        try:
            os.read(self._fd, 8)
        except OSError:  # another step of the clock
            pass
        self._look()

    def close(self) -> None:
        self._loop.cancel("moment")
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = -1


class After:
    """The end of another run, and with `any` false its success.

    A link to its shim hangs up when that ends: nothing wakes us before. A run whose record can't
    be read is waited for: what is not known decides nothing.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        target: dict[str, Any],
        look: Callable[[], None],
        fail: Callable[[str], None],
    ) -> None:
        self._loop = supervisor.loop
        self._directory: RunDirectory = supervisor.directory.sibling(target["run"])
        self._name = str(target["name"])
        self._takes_any = target["any"] is True
        self._look = look
        self._fail = fail
        self._link: socket.socket | None = None
        self._looks = 0
        self._misses = 0

    def holds(self) -> bool:
        if self._link is not None:
            return False  # its shim is there
        try:
            facts = self._facts()
        except RunNotFound:
            self._misses += 1
            if self._misses >= _MOST_MISSES:
                self._fail(f"after {self._name}: it was removed")
                return False
            facts = None
        except (HoldfastError, OSError):
            facts = None
        if facts is None or not facts.has_ended:
            self._wait()
            return False
        if self._takes_any or (facts.outcome is not None and facts.outcome.is_success):
            return True
        self._fail(f"after {self._name}: {_ending(facts)}")
        return False

    def _facts(self) -> RunFacts:
        if not self._directory.exists():
            raise self._directory.not_found()
        return fold(self._directory.read_events(members=False).events)

    def _wait(self) -> None:
        self._link = dial(self._directory.path, 0)
        if self._link is None:
            pause = _AGAIN_SECONDS[min(self._looks, len(_AGAIN_SECONDS) - 1)]
            self._looks += 1
            self._loop.after(f"after {self._directory.id}", pause, self._look)
            return
        self._looks = 0
        self._link.setblocking(False)
        self._loop.watch(self._link.fileno(), READ, "after", self._heard)

    def _heard(self, _events: int) -> None:
        assert self._link is not None
        try:
            if self._link.recv(65536):
                return
        except BlockingIOError:
            return
        except OSError:  # as if it had hung up
            pass
        self._hang_up()
        self._look()

    def _hang_up(self) -> None:
        if self._link is not None:
            self._loop.unwatch(self._link.fileno())
            self._link.close()
            self._link = None

    def close(self) -> None:
        self._loop.cancel(f"after {self._directory.id}")
        self._hang_up()


def _ending(facts: RunFacts) -> str:
    ending = facts.ending or {}
    own = ExitFacts(ending.get("exit_code"), ending.get("signal"), None, "")
    code = f", exit {own.exit_code}" if own.exit_code is not None else ""
    return f"{facts.outcome}{code}" if own.signal is None else f"{facts.outcome}, {own}"
