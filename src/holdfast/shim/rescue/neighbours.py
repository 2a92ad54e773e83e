"""Every shim keeps a pidfd of one other shim of its home: no orphan waits for a command.

The runs of `active/` form a ring by age. A shim watches the next older one that lives (the oldest
the newest). When that is gone, the ring is walked again: a run on the way whose shim is gone and
that has no recorded ending is rescued (`rescue.py`), which is loaded then. A shim that comes up
tells the next newer one, which from then on watches it.

While nothing happens this costs one descriptor and no wake-up. Nothing here blocks.
"""

from __future__ import annotations

import _socket as socket
import os

from holdfast.process import pidfd
from holdfast.run.control_socket import dial, tell
from holdfast.shim.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.shim.control import Client
    from holdfast.shim.rescue.rescue import Rescue
    from holdfast.shim.supervisor import Supervisor

VERB = "neighbour"  # of the request by which a shim tells that it has come up
_NEXT_SECONDS = 0.02  # between the looks at some dead ones and the next
_AT_ONCE = 4  # dead ones that are looked at in one turn of the loop
_MOST_LOOKS = 64  # markers that a reboot left are not walked without end
_MOST_TOLD = 8
_SHORTAGE_SECONDS = 60.0
_SO_PEERPIDFD = 77  # Linux 6.5


class Neighbours:
    """The neighbour of one shim."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._loop = supervisor.loop
        self._home = supervisor.directory.home
        self._id = supervisor.directory.id
        self._watched_id: str | None = None
        self._fd = -1
        self._rescue: Rescue | None = None
        self._has_joined = self._is_over = False

    def join(self) -> None:
        """The run has begun: find a neighbour, and become one; once."""
        if not self._has_joined:
            self._has_joined = True
            self._join()

    def told(self, client: Client, _request: dict[str, Any]) -> None:
        """Another shim has come up."""
        client.answer({"ok": True})
        self.pick()

    def close(self) -> None:
        """Our run is over."""
        self._is_over = True
        self._let_go()

    def pick(self) -> None:
        """Walk the ring from us towards the older ones until one is found that lives."""
        try:
            ring = self._ring()
        except OSError:  # no descriptor is left
            self._loop.after("neighbour", _SHORTAGE_SECONDS, self.pick)
            return
        self._walk(ring[::-1][:_MOST_LOOKS])

    def _join(self) -> None:
        self.pick()
        try:
            newer = self._ring()[:_MOST_TOLD]
        except OSError:  # as above: the next shim that starts tells us
            return
        for run_id in newer:
            if tell(self._sibling(run_id).path, VERB):
                return

    def _ring(self) -> list[str]:
        """The other active runs: first those newer than us, then the rest, by age."""
        ids = [run_id for run_id in self._home.run_ids(active=True) if run_id != self._id]
        newer = [run_id for run_id in ids if run_id > self._id]
        return newer + ids[: len(ids) - len(newer)]

    def _sibling(self, run_id: str) -> RunDirectory:
        return self._supervisor.directory.sibling(run_id)

    def _walk(self, todo: list[str]) -> None:
        """`todo`: the ring from the next older one on."""
        self._loop.cancel("neighbour")
        dead = 0
        while todo and not self._is_over and dead < _AT_ONCE:
            try:
                if self._watch(todo[0]):
                    return
                dead += self._look_after(todo.pop(0))
            except OSError:  # no descriptor is left
                self._loop.after("neighbour", _SHORTAGE_SECONDS, self.pick)
                return
        if todo and not self._is_over:
            self._loop.after("neighbour", _NEXT_SECONDS, lambda: self._walk(todo))

    def _watch(self, run_id: str) -> bool:
        """Whether that run has a shim, which we watch now."""
        if run_id == self._watched_id and not pidfd.has_exited(self._fd):
            return True
        connection = dial(self._sibling(run_id).path, 0)
        if connection is None:
            return False
        try:
            fd = _pidfd_of_peer(connection)
        finally:
            connection.close()
        if fd is None:
            return False
        self._let_go()
        self._fd, self._watched_id = fd, run_id
        self._loop.watch(fd, READ, "neighbour", self._ended)
        return True

    def _ended(self, _events: int) -> None:
        self._let_go()
        self.pick()

    def _let_go(self) -> None:
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
        self._fd, self._watched_id = -1, None

    def _look_after(self, run_id: str) -> bool:
        """Rescue a run that is not supervised. True: it took a look into its files."""
        directory = self._sibling(run_id)
        if directory.lock_is_held() or not directory.is_marked_active():
            return False  # it comes up, and tells us then; or it has ended
        if self._rescue is None:
            from holdfast.shim.rescue.rescue import Rescue

            self._rescue = Rescue(self._supervisor)
        self._rescue.consider(directory)
        return True


def _pidfd_of_peer(connection: socket.socket) -> int | None:
    """A pidfd of the process that listens; None: it has ended, or can't be seen from here."""
    try:
        answer = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4)
        fd = memoryview(answer).cast("i")[0]
        os.set_inheritable(fd, False)
        return fd
    except OSError:
        answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = memoryview(answer).cast("i")[0]
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    # It still listens after we hold it: the number was its own.
    if _has_hung_up(connection):
        os.close(fd)
        return None
    return fd


def _has_hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
