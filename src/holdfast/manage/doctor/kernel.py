"""What the kernel can prove and enforce here, each tried on children of our own.

The children come from `doctor`, which alone may start processes. Nothing is concluded from the
kernel's version: a container or a backport can have more or less than it says.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import threading

from holdfast.manage.doctor.findings import DoctorFinding, failed, missing, works
from holdfast.process import libc, pidfd, procfs, this_host
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import Fate, send_signal
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import IO, Protocol

    class Child(Protocol):
        """A child that waits for the end of its stdin, then exits with CHILD_EXIT_CODE."""

        pid: int
        stdin: IO[bytes] | None

        def wait(self, timeout: float | None = None) -> int: ...

    Start = Callable[[], AbstractContextManager[Child]]
    StartOrphan = Callable[[], int]  # of a parent that has exited; its PID

CHILD_EXIT_CODE = 42
_ENOUGH_SECONDS = 10


def identity(start: Start) -> DoctorFinding:
    """Two live children have two names, and each is found again."""
    with start() as one, start() as other:
        names = ProcessIdentity.of(one.pid), ProcessIdentity.of(other.pid)
        found = [name.look() for name in names]
    if any(look.verdict is not Verdict.SAME for look in found):
        return failed("identity", f"a live child is not recognised: {found[0].evidence}")
    inodes = {name.pidfd_inode for name in names}
    if None not in inodes and len(inodes) == 2:
        return works("identity", "pidfd inode: survives PID reuse in the same tick")
    if this_host.is_portable():
        return missing("identity", "creation time only: a PID reused within 10 ms looks the same")
    weaker = "start ticks only: a PID reused within 10 ms looks the same"
    return missing("identity", weaker, "Linux 6.9 or later has pidfd inodes")


def gate(start: Start) -> DoctorFinding:
    """A child is signalled; a forged identity of it is not."""
    with start() as child:
        ours = ProcessIdentity.of(child.pid)
        forged = ours.replace(
            pidfd_inode=ours.pidfd_inode and ours.pidfd_inode - 1,
            start_ticks=ours.start_ticks and ours.start_ticks - 1,
            create_time=ours.create_time and ours.create_time - 10**9,
        )
        refused = send_signal(forged, signal.SIGKILL)
        if refused.delivered:
            return failed("signal", "a signal reached a process that was not the recorded one")
        sent = send_signal(ours, signal.SIGTERM)
        if sent.fate is not Fate.DELIVERED:
            return failed("signal", f"our own child can't be signalled: {sent.evidence}")
        code = child.wait(_ENOUGH_SECONDS)
    if code != -signal.SIGTERM:
        return failed("signal", f"a signal was delivered, but the child ended with {code}")
    if this_host.is_portable():
        return missing("signal", "verified first, but a race with PID reuse remains")
    return works("signal", "verified, then sent through a pidfd: no other process can be hit")


def exit_status(start: Start) -> DoctorFinding:
    """The status is read from a descriptor alone, after the parent has reaped the child."""
    with start() as child, ProcessIdentity.of(child.pid).hold() as held:
        _let_exit(child)
        status = pidfd.exit_status(held.fd)
    if status is not None and os.waitstatus_to_exitcode(status) == CHILD_EXIT_CODE:
        return works("exit", "a non-parent can read the true exit status")
    without = "a run whose shim was killed ends as lost: its exit status can't be read"
    return missing("exit", without, "Linux 6.15 or later keeps it for non-parents")


def _let_exit(child: Child) -> None:
    if child.stdin is not None:
        child.stdin.close()
    child.wait(_ENOUGH_SECONDS)


def handle(start: Start) -> DoctorFinding:
    """A child is opened by its inode, without its PID."""
    with start() as child:
        inode = ProcessIdentity.of(child.pid).pidfd_inode
        if inode is None:
            return missing("handle", "no pidfd inodes, so none can be opened")
        mount = os.pidfd_open(os.getpid())
        try:
            fd = libc.pidfd_by_inode(mount, inode)
        except OSError as error:
            without = f"processes in other containers can't be found ({error.strerror})"
            return missing("handle", without, "Linux 6.14 or later opens a pidfd by its inode")
        finally:
            os.close(mount)
        found = os.fstat(fd).st_ino
        os.close(fd)
    if found != inode:
        return failed("handle", f"pidfd inode {inode} was asked for, {found} was opened")
    return works("handle", "a process in another container is found by its inode")


def ticks(start: Start) -> DoctorFinding:
    """A child's start ticks, and what our time namespace does to them."""
    offset = this_host.place().ticks_offset
    with start() as child:
        shown = ProcessIdentity.of(child.pid).start_ticks
    if shown is None:
        why = "our time namespace can't be told" if offset is None else "they can't be read"
        return missing("ticks", f"no start ticks as a second proof: {why}")
    seconds = (offset or 0) // procfs.TICKS_PER_SECOND
    namespace = f"a time namespace adds {seconds} s, taken off" if seconds else "no time namespace"
    return works("ticks", f"start ticks are readable; {namespace}")


def children(start: Start) -> DoctorFinding:
    """A child that another thread started is found below us."""
    found: list[bool] = []

    def from_a_thread() -> None:
        with start() as child:
            found.append(child.pid in (procfs.children(os.getpid()) or ()))

    thread = threading.Thread(target=from_a_thread)
    thread.start()
    thread.join()
    if found != [True]:
        return failed("children", "a child of another thread is not found: trees are incomplete")
    if not procfs.has_children_files():
        return missing("children", "found by looking at every process: slow with many")
    return works("children", "children of every thread are found")


def subreaper(start_orphan: StartOrphan) -> DoctorFinding:
    """An orphan is reparented to us instead of PID 1."""
    libc.set_child_subreaper()
    ProcessIdentity.current()  # without identities, an orphan could not be ended either
    orphan = ProcessIdentity.of(start_orphan())
    try:
        parent = procfs.read_stat(orphan.pid).ppid
    finally:
        send_signal(orphan, signal.SIGKILL)
    if parent != os.getpid():
        return failed("subreaper", f"an orphan went to process {parent}: daemons would escape")
    os.waitpid(orphan.pid, 0)
    return works("subreaper", "descendants that daemonise come back to their shim")


def timer() -> DoctorFinding:
    """A timer on the clock that goes on while the machine sleeps."""
    fd = libc.boottime_timer()
    try:
        libc.arm_timer(fd, boottime() + 0.001)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        fired = bool(poll.poll(_ENOUGH_SECONDS * 1000))
    finally:
        os.close(fd)
    if not fired:
        return failed("timer", "a CLOCK_BOOTTIME timer did not fire: deadlines would not hold")
    return works("timer", "deadlines hold through suspend and clock jumps")


_FEW_INSTANCES = 16
_POLLED = "a run without one looks at its output from time to time instead of being woken"


def inotify() -> DoctorFinding:
    """A write wakes a watcher of the file; and how many watchers are left.

    One is tried: taking all until the kernel refuses would take them from runs.
    """
    limit, watches = procfs.inotify_limits()
    used = procfs.inotify_instances(os.geteuid())
    of = "?" if limit is None else str(limit)
    says = f"{used} of {of} instances of this user in use, {watches or '?'} watches allowed"
    fix = "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches (sysctl)"
    try:
        file = tempfile.NamedTemporaryFile(buffering=0)
    except OSError as error:
        return missing("inotify", f"not tried, which takes a file: {error.strerror}")
    try:
        with file:
            is_woken = _wakes(file)
    except OSError as error:
        return missing("inotify", f"none to be had ({error.strerror}): {says}; {_POLLED}", fix)
    if not is_woken:
        return missing("inotify", f"a write was not noticed; {_POLLED}")
    if limit is not None and limit - used < _FEW_INSTANCES:
        return missing("inotify", f"few are left: {says}; {_POLLED}", fix)
    return works("inotify", f"a write wakes a shim; {says}")


def _wakes(file: tempfile._TemporaryFileWrapper[bytes]) -> bool:
    fd = libc.watch_modifications(file.name)
    try:
        file.write(b".")
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(_ENOUGH_SECONDS * 1000))
    finally:
        os.close(fd)


def namespace() -> DoctorFinding:
    """Whether /proc shows our own PID namespace."""
    place = this_host.place()
    if not place.proc_is_ours:
        return failed(
            "namespace",
            "what /proc shows is another PID namespace than ours: it can't be believed",
            "mount -t proc proc /proc (unshare --mount-proc does it)",
        )
    if place.pid_ns == procfs.INITIAL_PID_NAMESPACE:
        return works("namespace", "the initial PID namespace: every process can be seen")
    inside = "a PID namespace of its own: what ran before it started can't be looked at"
    return works("namespace", inside)


def hidden_processes() -> DoctorFinding:
    """Whether a process that exists, PID 1, can be looked at."""
    try:
        os.close(os.pidfd_open(1))
    except OSError as error:
        return missing("hidepid", f"PID 1 can't be opened: {error.strerror}")
    if procfs.stat_or_none(1) is None:
        without = "other users' processes are hidden in /proc; an inode still tells them apart"
        return missing("hidepid", without)
    return works("hidepid", "nothing in /proc is hidden from us")
