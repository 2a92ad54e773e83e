"""Which process is which: ProcessIdentity names one process for good, Look says what became of it.

A PID is a number that the kernel gives away again. An identity is the PID with the pidfd inode
(unique for the boot), the start ticks, the PID namespace, the boot and the host. A missing part
never counts as a match. Nothing here sends a signal.
"""

from __future__ import annotations

import errno
import os

from holdfast.errors import (
    IdentityUnproven,
    InvalidPid,
    InvalidToken,
    ProcessGone,
    ProcessUnreadable,
    Unavailable,
    WrongType,
)
from holdfast.process import pidfd, procfs, this_host
from holdfast.process.verdict import Look, Proof, Verdict, unknown
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_LONGEST_TOKEN = 109
_read_before: dict[str, ProcessIdentity] = {}  # by token: events name the same few, often
_MOST_READ_BEFORE = 64
_HEX = "0123456789abcdef"
_PORTABLE_PREFIX = "hp1."
_LARGEST_PID = 2**31 - 1
_NO_BOOT = "0" * 32
_NO_HOST = "0" * 8


class ProcessIdentity(Record):
    """What names a process for good. Unknown parts are None."""

    pid: int
    start_ticks: int | None = None  # normalised: independent of the reader's time namespace
    pidfd_inode: int | None = None
    pid_ns: int | None = None
    boot_id: str | None = None
    host: str | None = None
    create_time: int | None = None  # portable backend only: microseconds since the epoch

    @classmethod
    def current(cls) -> ProcessIdentity:
        """This very process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Capture a live process. ProcessGone when there is none, or it ended meanwhile."""
        valid_pid(pid)
        if this_host.is_portable():
            from holdfast.process import portable

            return portable.capture(pid)
        with hold_pid(pid) as held:
            return held.identity

    @classmethod
    def parse(cls, token: str) -> ProcessIdentity:
        """Read a token back. InvalidToken for anything that `token` did not write."""
        if not isinstance(token, str):
            raise _not_a_token(repr(token))
        if token.startswith(_PORTABLE_PREFIX):
            from holdfast.process import portable

            return portable.parse(token)
        try:
            _, *numbers, boot, host = token[: _LONGEST_TOKEN + 1].split(".")
            pid, ticks, inode, namespace = map(int, numbers)
        except ValueError:
            raise _not_a_token(token) from None
        identity = object.__new__(cls)
        parts = identity.__dict__  # a call takes a fifth of the whole proof (bench/identity.py)
        parts["pid"] = pid
        parts["start_ticks"] = ticks or None
        parts["pidfd_inode"] = inode or None
        parts["pid_ns"] = namespace or None
        parts["boot_id"] = None if boot == _NO_BOOT else boot
        parts["host"] = None if host == _NO_HOST else host
        parts["create_time"] = None
        # int() also reads "+1", "01" and digits of other scripts: `token` writes none of them.
        is_whole = len(boot) == 32 and len(host) == 8 and not (boot + host).strip(_HEX)
        is_sound = 0 < pid <= _LARGEST_PID and "-" not in token
        if not is_whole or not is_sound or identity.token != token:
            raise _not_a_token(token)
        return identity

    @property
    def token(self) -> str:
        """The one-line form."""
        if self.create_time is not None:
            from holdfast.process import portable

            return portable.token(self)
        return (
            f"hf1.{self.pid}.{self.start_ticks or 0}.{self.pidfd_inode or 0}.{self.pid_ns or 0}"
            f".{self.boot_id or _NO_BOOT}.{self.host or _NO_HOST}"
        )

    def to_json(self) -> dict[str, Any]:
        """The contract's IDENTITY, without a verdict."""
        return {
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "pidfd_inode": self.pidfd_inode,
            "pid_ns": self.pid_ns,
            "boot_id": self.boot_id,
            "token": self.token,
        }

    @classmethod
    def from_json(cls, document: Any) -> ProcessIdentity:
        """Read IDENTITY, or a record that reads like it; the token has every part."""
        token = document.get("token")
        if not isinstance(token, str):
            raise InvalidToken("a recorded identity has no token")
        if token not in _read_before:
            if len(_read_before) >= _MOST_READ_BEFORE:
                _read_before.clear()
            _read_before[token] = cls.parse(token)
        return _read_before[token]

    def look(self) -> Look:
        """Look at the process now."""
        look, fd = self.examine()
        if fd is not None:
            os.close(fd)
        return look

    def verdict(self) -> Verdict:
        """SAME, GONE, RECYCLED or UNKNOWN."""
        return Verdict.SAME if self._is_plainly_same() else self.look().verdict

    def _is_plainly_same(self) -> bool:
        """The common case without a sentence for people: every part is recorded and right."""
        place, inode = this_host.place(), self.pidfd_inode
        if inode is None or not pidfd.has_inodes() or self.boot_id is None:
            return False
        recorded = (self.boot_id, self.host, self.pid_ns)
        if recorded != (place.boot_id, place.host, place.pid_ns):
            return False
        try:
            fd = os.pidfd_open(self.pid)
        except (OSError, OverflowError):  # the look says which
            return False
        try:
            return os.fstat(fd).st_ino == inode and not pidfd.has_exited(fd)
        finally:
            os.close(fd)

    def hold(self) -> HeldProcess:
        """A descriptor proven to be this process. ProcessGone or IdentityUnproven otherwise."""
        look, fd = self.examine()
        if fd is not None:
            return HeldProcess(self, fd, look)
        if look.is_gone:
            raise ProcessGone(look.evidence, pid=self.pid, verdict=look.verdict)
        raise IdentityUnproven(
            look.evidence,
            hint="nothing was signalled; look at it with `holdfast check`",
            verdict=look.verdict,
            evidence=look.evidence,
        )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process has ended: True, or False when the time is up.

        IdentityUnproven where nothing proves which process that is.
        """
        if this_host.is_portable():
            from holdfast.process import portable

            return portable.wait(self, timeout)
        try:
            held = self.hold()
        except ProcessGone:
            return True
        with held:
            return pidfd.wait_exited(held.fd, timeout)

    def examine(self) -> tuple[Look, int | None]:
        """The look, and where it is SAME an open pidfd that is proven to be ours."""
        valid_pid(self.pid)
        place = this_host.place()
        if place.is_portable or self.create_time is not None:
            from holdfast.process import portable

            return portable.examine(self)
        if self.host is not None and self.host != place.host:
            return unknown(f"process {self.pid} was recorded on another host"), None
        if self.boot_id is not None and self.boot_id != place.boot_id:
            evidence = f"process {self.pid} was recorded before this boot"
            return Look(Verdict.GONE, Proof.BOOT, evidence), None
        if self.pid_ns is not None and self.pid_ns != place.pid_ns:
            return self._examine_by_inode()
        try:
            fd = os.pidfd_open(self.pid)
        except OSError as error:
            return self._not_opened(error), None
        return self._keep_if_same(fd, self._compare(fd))

    def _keep_if_same(self, fd: int, look: Look) -> tuple[Look, int | None]:
        if look.verdict is Verdict.SAME:
            return look, fd
        os.close(fd)
        return look, None

    def _examine_by_inode(self) -> tuple[Look, int | None]:
        """In another PID namespace the number means nothing; the inode still does."""
        if self.pidfd_inode is None or not pidfd.has_inodes():
            return unknown(
                f"process {self.pid} is in another PID namespace, without an inode"
            ), None
        if self.boot_id is None:  # the counter starts again with each boot
            return unknown(f"process {self.pid} was recorded without a boot id"), None
        from holdfast.process import libc

        mount = os.pidfd_open(os.getpid())
        try:
            fd = libc.pidfd_by_inode(mount, self.pidfd_inode)
        except OSError as error:
            return self._not_found_by_inode(error), None
        finally:
            os.close(mount)
        if pidfd.has_exited(fd):
            os.close(fd)
            evidence = f"process {self.pid} of another PID namespace has exited"
            return Look(Verdict.GONE, Proof.INODE, evidence), None
        evidence = f"process {self.pid} of another PID namespace has pidfd inode {self.pidfd_inode}"
        return Look(Verdict.SAME, Proof.INODE, evidence), fd

    def _not_found_by_inode(self, error: OSError) -> Look:
        # A child namespace gets ESTALE for a live process of its parent too.
        sees_everything = this_host.place().pid_ns == procfs.INITIAL_PID_NAMESPACE
        if error.errno == errno.ESTALE and sees_everything:
            evidence = f"no process of this boot has pidfd inode {self.pidfd_inode} any more"
            return Look(Verdict.GONE, Proof.INODE, evidence)
        return unknown(
            f"process {self.pid} is in another PID namespace that can't be seen from here"
        )

    def _not_opened(self, error: OSError) -> Look:
        if error.errno == errno.ESRCH:
            return Look(Verdict.GONE, Proof.NO_SUCH_PID, f"there is no process {self.pid}")
        if error.errno in (errno.EINVAL, errno.ENOENT):
            # The number now names a thread that is not the leader of its process.
            evidence = f"{self.pid} is a thread of another process now"
            return Look(Verdict.RECYCLED, Proof.NO_SUCH_PID, evidence)
        return unknown(f"process {self.pid} can't be opened: {error.strerror}")

    def _compare(self, fd: int) -> Look:
        """Compare the recorded parts with the process behind an open pidfd."""
        if self.pidfd_inode is not None and pidfd.has_inodes():
            found = os.fstat(fd).st_ino
            if found != self.pidfd_inode:
                return self._recycled(fd, f"pidfd inode {self.pidfd_inode} recorded, {found} found")
            if pidfd.has_exited(fd):
                return Look(Verdict.GONE, Proof.INODE, f"process {self.pid} has exited")
            if self.boot_id is None:
                return unknown(f"process {self.pid} was recorded without a boot id")
            return Look(Verdict.SAME, Proof.INODE, f"process {self.pid} has pidfd inode {found}")
        return self._compare_ticks(fd)

    def _compare_ticks(self, fd: int) -> Look:
        ticks = _start_ticks_behind(fd, self.pid)
        if ticks is not None and self.start_ticks is not None and ticks != self.start_ticks:
            detail = f"start ticks {self.start_ticks} recorded, {ticks} found"
            return self._recycled(fd, detail, Proof.TICKS)
        if pidfd.has_exited(fd):
            return Look(Verdict.GONE, Proof.NO_SUCH_PID, f"process {self.pid} has exited")
        if self.start_ticks is None:
            return unknown(
                f"{self.pid} is alive, but was recorded without a start time: unverified"
            )
        if ticks is None:
            return unknown(f"the start time of process {self.pid} can't be read")
        if self.boot_id is None:
            return unknown(f"process {self.pid} has the start ticks, but no boot was recorded")
        evidence = f"process {self.pid} started at tick {ticks} (weaker than an inode)"
        return Look(Verdict.SAME, Proof.TICKS, evidence)

    def _recycled(self, fd: int, detail: str, proof: Proof = Proof.INODE) -> Look:
        occupant = _occupant(fd, self.pid)
        evidence = f"that PID is {occupant} now ({detail})"
        return Look(Verdict.RECYCLED, proof, f"process {self.pid} is gone: {evidence}")


class HeldProcess:
    """An open pidfd that is proven to be one identity. It stays that process whatever happens."""

    def __init__(self, identity: ProcessIdentity, fd: int, look: Look) -> None:
        self.identity = identity
        self.fd = fd
        self.look = look

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back; the process is not affected."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def has_exited(self) -> bool:
        """Whether the process has ended, reaped or not."""
        return pidfd.has_exited(self.fd)

    def exit_status(self) -> int | None:
        """The wait status, also for a process that is not our child; None: not known (yet)."""
        status = pidfd.exit_status(self.fd)
        if status is None and self.has_exited():
            # PID 1 of a container may never reap: /proc shows the status of a zombie.
            stat = self.read_stat()
            status = None if stat is None else stat.exit_status
        return status

    def read_stat(self) -> procfs.ProcStat | None:
        """What /proc shows of it, of a zombie too; None where that is not proven to be this one.

        Not reaped after the read: the number was its own for the whole read. Before Linux 6.9
        nothing reports a reap, but a process that has the number now began at another tick.
        """
        stat = procfs.stat_or_none(self.identity.pid)
        if stat is None or pidfd.is_reaped(self.fd):
            return None
        ticks = stat.start_ticks - (this_host.place().ticks_offset or 0)
        return stat if self.identity.start_ticks in (None, ticks) else None


def valid_pid(pid: int) -> int:
    """Refuse what kill(2) would take for a group or for all processes."""
    if type(pid) is not int:  # a bool is an int, and a float or str is a mistake
        raise WrongType(f"a PID is an int, not {type(pid).__name__}")
    if not 0 < pid <= _LARGEST_PID:
        raise InvalidPid(f"{pid} is not a PID", hint="a PID is a number from 1 up", pid=pid)
    return pid


def hold_pid(pid: int) -> HeldProcess:
    """Capture a live process and keep it: all parts are about the one behind the descriptor.

    The pidfd is opened first and seen not to have ended last; a process that lives keeps its
    PID, so whatever /proc/<pid> said in between was said about it.
    """
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            raise ProcessGone(f"there is no process {pid}", pid=pid) from error
        raise Unavailable(f"process {pid} can't be opened: {error.strerror}", pid=pid) from error
    place = this_host.place()
    try:
        ticks = _start_ticks_behind(fd, pid)
        identity = ProcessIdentity(
            pid, ticks, pidfd.inode(fd), place.pid_ns, place.boot_id, place.host, None
        )
        if pidfd.has_exited(fd):
            raise ProcessGone(f"process {pid} has exited", pid=pid)
        if ticks is None and identity.pidfd_inode is None:
            raise ProcessUnreadable(f"nothing that names process {pid} can be read", pid=pid)
    except BaseException:
        os.close(fd)
        raise
    look = Look(Verdict.SAME, Proof.INODE if identity.pidfd_inode else Proof.TICKS, "captured")
    return HeldProcess(identity, fd, look)


def _not_a_token(text: str) -> InvalidToken:
    return InvalidToken(
        f"not an identity token: {text[:120]!r}",
        hint="a token is one line that starts with hf1. ; `holdfast who PID` prints one",
    )


def _start_ticks_behind(fd: int, pid: int) -> int | None:
    """Normalised start ticks of the process behind the pidfd; None where they can't be known."""
    place = this_host.place()
    if place.ticks_offset is None or not place.proc_is_ours:
        return None
    stat = procfs.stat_or_none(pid)
    return None if stat is None or pidfd.is_reaped(fd) else stat.start_ticks - place.ticks_offset


def _occupant(fd: int, pid: int) -> str:
    """The name of the process that has the PID now, for people."""
    stat = procfs.stat_or_none(pid) if this_host.place().proc_is_ours else None
    return stat.comm if stat and stat.comm and not pidfd.is_reaped(fd) else "another process"
