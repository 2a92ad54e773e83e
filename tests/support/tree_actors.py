"""Members of trees that are hard to stop. Each actor runs in a forked child and never returns.

An actor calls `ready()` once for each of its members that has taken its place. Play them only in
a PID namespace of their own; the bombs only in a control group with a limit.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

Ready = Callable[[], object]
CLONE_NEWPID = 0x20000000


def obedient(ready: Ready) -> None:
    """Ends at the first SIGTERM."""
    ready()
    _pause()


def stubborn(ready: Ready) -> None:
    """Ignores every signal that can be ignored."""
    _ignore_all()
    ready()
    _pause()


def setsid(ready: Ready) -> None:
    """Has a child in a session of its own, out of reach of a group's signals."""
    if os.fork() == 0:
        os.setsid()
    ready()
    _pause()


def double_fork(ready: Ready) -> None:
    """Has a daemon: its parent has ended, so nothing leads from here to it."""
    _daemon(lambda: obedient(ready))
    obedient(ready)


def stubborn_daemon(ready: Ready) -> None:
    """A daemon in its own session that ignores SIGTERM."""
    _daemon(lambda: stubborn(ready))
    obedient(ready)


def orphaned_daemon(ready: Ready) -> None:
    """Leaves a stubborn daemon behind and ends by itself."""
    _daemon(lambda: stubborn(ready))


def respawner(ready: Ready) -> None:
    """Answers SIGTERM with a new copy of itself, then ends: there is always one alive."""
    signal.signal(signal.SIGTERM, lambda *_: _respawn())
    ready()
    _pause()


def _respawn() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()


def guarding_pair(ready: Ready) -> None:
    """Two processes, each of which starts the other again when it ends."""
    _ignore_all()
    ready()
    while True:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            parent = os.getppid()
            while os.getppid() == parent:
                signal.sigtimedwait([], 0.001)
            continue  # the parent is gone: be the parent
        os.waitpid(pid, 0)


def comet(ready: Ready) -> None:
    """Forks and ends at once, for ever: no walk sees the same process twice."""
    _ignore_all()
    ready()
    while True:
        if os.fork():
            os._exit(0)


def bomb(ready: Ready) -> None:
    """Every member forks as fast as it can."""
    _ignore_all()
    ready()
    while True:
        try:
            os.fork()
        except OSError:
            pass  # the group's limit


def child_of_a_thread(ready: Ready) -> None:
    """The child belongs to a thread that is not the first."""
    _ignore_all()
    threading.Thread(target=lambda: obedient(ready) if os.fork() == 0 else None).start()
    threading.Event().wait()


def first_thread_ended(ready: Ready) -> None:
    """Shows as a zombie, but another thread lives and has a child."""
    _ignore_all()
    threading.Thread(target=_fork_and_wait, args=(ready,)).start()
    ctypes.CDLL(None).syscall(60, 0)


def _fork_and_wait(ready: Ready) -> None:
    if os.fork() == 0:
        obedient(ready)
    ready()
    threading.Event().wait()


def stopped(ready: Ready) -> None:
    """Is stopped (as by ctrl-z) and has a stopped child."""
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)
    _pause()


def vfork_parent(ready: Ready) -> None:
    """Sits in D state: its vfork child waits for the other end of a fifo, before its exec."""
    fifo = f"/tmp/holdfast-fifo-{os.getpid()}-{os.urandom(4).hex()}"
    os.mkfifo(fifo)
    ready()
    reading = (os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)
    threading.Timer(1, os.unlink, [fifo]).start()
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[reading])
    _pause()


def container(ready: Ready) -> None:
    """Has a PID namespace below it, whose PID 1 ignores what it can."""
    if ctypes.CDLL(None).unshare(CLONE_NEWPID):
        raise OSError("unshare")
    if os.fork() == 0:
        double_fork_stubborn(ready)
    _pause()


def double_fork_stubborn(ready: Ready) -> None:
    """Stubborn, with a stubborn daemon."""
    _daemon(lambda: stubborn(ready))
    stubborn(ready)


def deep(ready: Ready) -> None:
    """A chain of forty, each the child of the one before."""
    for _ in range(40):
        if os.fork():
            break
    ready()
    _pause()


def wide(ready: Ready) -> None:
    """Four hundred children."""
    for _ in range(400):
        if os.fork() == 0:
            break
    ready()
    _pause()


def _daemon(body: Callable[[], None]) -> None:
    middle = os.fork()
    if middle == 0:
        os.setsid()
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:  # ready means: nothing leads to us any more
                os.sched_yield()
            body()
        os._exit(0)
    os.waitpid(middle, 0)


def _ignore_all() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def _pause() -> NoReturn:
    while True:
        signal.pause()
