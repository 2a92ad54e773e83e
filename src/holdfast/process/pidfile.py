"""A start guard for other programs: a pid file that is locked and names its holder for good.

A start is refused when either the lock or the recorded identity says that another lives. A file
is never written in place: it is made, locked and filled under a name of its own and then appears
whole, so no reader gets half of it and no other file can be overwritten through it.
Sends no signal, starts nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time

from holdfast.errors import (
    AlreadyRunning,
    InvalidPidFile,
    LockBusy,
    NotFound,
    ProcessGone,
    ProcessUnreadable,
    WrongUse,
)
from holdfast.process import pidfile_format, pidfile_holder, safe_open, this_host
from holdfast.process.identity import ProcessIdentity
from holdfast.process.this_host import absolute
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE_SECONDS = 5.0  # for a file that others keep replacing
_TAKEOVER_SECONDS = 1.0  # for another starter that is between its lock and its own file
_Inode = tuple[int, int]


class _Held:
    """A pid file that this process has locked."""

    def __init__(self, owner: int, directory: int, fd: int) -> None:
        self.owner = owner
        self.directory = directory
        self.fds = [fd]
        self.inode = _inode(os.fstat(fd))
        self.content = _content(fd)

    def close(self) -> None:
        for fd in (*self.fds, self.directory):
            os.close(fd)


# Closing *any* descriptor of a file drops this process's POSIX locks on it (fcntl(2)). A
# file that we hold must therefore be read through the descriptor that we have.
_held: dict[_Inode, _Held] = {}
_mutex = threading.Lock()


def _forget_in_child() -> None:
    # POSIX locks are not inherited by fork: a child holds nothing.
    global _mutex
    _held.clear()
    _mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def _log_notice(text: str) -> None:
    import logging

    logging.getLogger("holdfast").warning("%s", text)


class PidFile:
    """`with PidFile(path).hold(): ...` is the only instance; AlreadyRunning otherwise.

    `notice` is called with the record that is replaced, and why that is right; the log gets it
    unless another is given.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, notice: Callable[[str], None] = _log_notice
    ) -> None:
        given = os.fspath(path)
        if not given or "\0" in given or os.path.basename(given) in ("", ".", ".."):
            raise WrongUse(f"{given!r} can't be the path of a pid file")
        self.path = absolute(given)
        self._name = os.path.basename(self.path)
        self._mine: _Held | None = None
        self._notice = notice

    def read(self) -> ProcessIdentity:
        """The process that the file names. Never blocks; parts that an old file lacks are None."""
        with _mutex, contextlib.ExitStack() as closing:
            directory = safe_open.open_directory(os.path.dirname(self.path))
            closing.callback(os.close, directory)
            held = self._held_here(directory)
            if held is not None:
                return self._parse(held.fds[0])
            fd = self._open(directory, os.O_RDONLY)
            if fd is None:
                raise NotFound(f"there is no pid file {self.path}")
            closing.callback(_close, fd)
            return self._parse(fd)

    @contextlib.contextmanager
    def hold(self) -> Iterator[ProcessIdentity]:
        """Be the only instance inside the `with` block."""
        identity = self.acquire()
        try:
            yield identity
        finally:
            self.release()

    def acquire(self, *, inheritable: bool = False) -> ProcessIdentity:
        """Become the holder, until `release` or the end of this process.

        `inheritable` keeps the lock over an exec.
        """
        me = ProcessIdentity.current()
        with _mutex, contextlib.ExitStack() as on_failure:
            directory = safe_open.open_directory(os.path.dirname(self.path))
            on_failure.callback(os.close, directory)
            taking = _Taking(self, directory, me)
            fd = taking.until_decided()
            os.set_inheritable(fd, inheritable)
            self._mine = _Held(os.getpid(), directory, fd)
            _held[self._mine.inode] = self._mine
            on_failure.pop_all()
        if taking.replaced is not None:
            try:
                self._notice(taking.replaced)
            except BaseException:
                self.release()
                raise
        return me

    def release(self) -> None:
        """Remove the file, if it is still ours, and give the lock back. Harmless when not held."""
        mine, self._mine = self._mine, None
        if mine is None:
            return
        if mine.owner != os.getpid():  # a fork of the holder: neither file nor lock are its own
            mine.close()
            return
        with _mutex:
            try:
                # Under the lock no other process replaces the file, so what is checked is removed.
                # A successor's file has another inode: it stays (test_D5_a_dying_holder...).
                found = os.stat(self._name, dir_fd=mine.directory, follow_symlinks=False)
                if _inode(found) == mine.inode and _content(mine.fds[0]) == mine.content:
                    os.unlink(self._name, dir_fd=mine.directory)
            except OSError:
                pass  # it stays and names a process that has ended: that blocks no start
            _held.pop(mine.inode, None)
            mine.close()

    def _held_here(self, directory: int) -> _Held | None:
        try:
            found = os.stat(self._name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return None
        return _held.get(_inode(found))

    def _open(self, directory: int, mode: int) -> int | None:
        fd = safe_open.open_plain_file(self.path, directory, mode)
        if fd is not None:
            try:
                found = os.fstat(fd)
                safe_open.check_plain_file(self.path, found)
                if found.st_nlink > 1 and not self._is_being_published(directory, fd):
                    raise safe_open.unsafe(self.path, "has another name (a hard link)")
            except BaseException:
                _close(fd)
                raise
        return fd

    def _is_being_published(self, directory: int, fd: int) -> bool:
        """Whether the second name is its maker's, which is (or died) between link and unlink."""
        try:
            draft = _draft_name(self._name, pidfile_format.parse_record(_content(fd)))
            twin = os.stat(draft, dir_fd=directory, follow_symlinks=False)
        except (InvalidPidFile, FileNotFoundError):
            return os.fstat(fd).st_nlink == 1  # its maker has come to the unlink meanwhile
        return twin.st_nlink <= 2 and _inode(twin) == _inode(os.fstat(fd))

    def _parse(self, fd: int) -> ProcessIdentity:
        try:
            recorded = pidfile_format.parse_record(_content(fd))
            return pidfile_format.with_boot(recorded, os.fstat(fd))
        except InvalidPidFile as error:
            message = f"{self.path}: {error.message}"
            raise InvalidPidFile(message, hint=error.hint, path=self.path) from None


class _Taking:
    """One attempt to become the holder of a pid file."""

    def __init__(self, file: PidFile, directory: int, me: ProcessIdentity) -> None:
        self.file = file
        self.directory = directory
        self.me = me
        self.began = time.monotonic()
        self.replaced: str | None = None  # whose record, and why that is over

    def until_decided(self) -> int:
        """The locked descriptor of our file; AlreadyRunning, or what is wrong with the file."""
        while (fd := self._try_once()) is None:
            if time.monotonic() - self.began > _PATIENCE_SECONDS:
                raise LockBusy(
                    f"{self.file.path} changed again and again for {_PATIENCE_SECONDS:.0f} s",
                    hint="something else removes or replaces it; try again",
                )
            time.sleep(0.002)
        return fd

    def _try_once(self) -> int | None:
        """The locked descriptor of our published file; None to try again."""
        mine = self.file._mine
        if self.file._held_here(self.directory) or (mine and mine.owner == os.getpid()):
            raise self._already("this very process", self.me, "it has the file's lock")
        fd = self.file._open(self.directory, os.O_RDWR)
        if fd is None:
            return self._publish()
        with contextlib.ExitStack() as closing:
            closing.callback(_close, fd)
            if not self._lock(fd):
                self._refuse_for_lock(fd)
                return None
            if not self._is_named(fd):
                return None  # its holder ended and removed it between our open and lock
            recorded = self.file._parse(fd)
            if recorded == self.me:  # taken before an exec: file and lock are ours already
                closing.pop_all()
                return fd
            over = self._refuse_for_identity(recorded)
            ours = self._publish(instead_of=fd, recorded=recorded)
            if ours is not None and over:
                self.replaced = f"{self.file.path}: replaces the record of {recorded.pid}, {over}"
            return ours

    def _publish(
        self, instead_of: int | None = None, recorded: ProcessIdentity | None = None
    ) -> int | None:
        """Make the file appear whole and locked by us. None when another was faster."""
        inside = {"src_dir_fd": self.directory, "dst_dir_fd": self.directory}
        name, draft = self.file._name, _draft_name(self.file._name, self.me)
        with contextlib.ExitStack() as on_failure:
            fd = safe_open.create_file(self.file.path, self.directory, draft)
            on_failure.callback(os.close, fd)
            try:
                if not self._lock(fd):
                    return None
                _write_durably(fd, pidfile_format.write_record(self.me))
                if instead_of is None or recorded is None:
                    os.link(draft, name, **inside, follow_symlinks=False)
                else:
                    if os.fstat(instead_of).st_nlink > 1:  # its maker died before the unlink
                        self._unlink(_draft_name(name, recorded))
                    os.rename(draft, name, **inside)
            except FileExistsError:
                return None
            except OSError as error:
                safe_open.unavailable(self.file.path, "can't be made", error)
            finally:
                self._unlink(draft)
            on_failure.pop_all()
            return fd

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.directory)

    def _lock(self, fd: int) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            safe_open.unavailable(self.file.path, "can't be locked", error)
        return True

    def _is_named(self, fd: int) -> bool:
        """Whether the path still means the file that we opened."""
        try:
            found = os.stat(self.file._name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return _inode(found) == _inode(os.fstat(fd))

    def _refuse_for_lock(self, fd: int) -> None:
        """Name the lock's holder. Returns when another try may show more."""
        locker = pidfile_holder.lock_holder(fd)
        if locker == 0 or not self._is_named(fd):
            return
        try:
            recorded = self.file._parse(fd)
        except InvalidPidFile:
            recorded = None
        if recorded is not None and (locker is None or locker == recorded.pid):
            raise self._already(
                pidfile_holder.name_of(recorded), recorded, "it has the file's lock"
            )
        if time.monotonic() - self.began < _TAKEOVER_SECONDS:
            return  # most likely another starter, about to publish a file of its own
        try:
            holder = ProcessIdentity.of(locker) if locker is not None else None
        except (ProcessGone, ProcessUnreadable):
            return
        who = pidfile_holder.name_of(holder) if holder else "a process that can't be seen from here"
        raise self._already(who, holder or recorded, "it has the file's lock")

    def _refuse_for_identity(self, recorded: ProcessIdentity) -> str:
        """Why no process of that record lives."""
        if pidfile_holder.is_our_number(recorded, self.me):
            return "which is this process's own number"
        look = recorded.look()
        if look.verdict is Verdict.RECYCLED:
            return f"whose PID was reused: {look.evidence}"
        if look.is_gone:
            return f"which is dead: {look.evidence}"
        if look.verdict is Verdict.UNKNOWN and this_host.is_elsewhere(recorded):
            # An earlier container left the file, most likely. The lock is true across PID
            # namespaces, and we have it: its holder is gone, or released it.
            return f"which is of another PID namespace and does not hold the lock: {look.evidence}"
        if look.verdict is Verdict.SAME:
            raise self._already(pidfile_holder.name_of(recorded), recorded, look.evidence)
        raise AlreadyRunning(
            f"{self.file.path} names a process that may be alive: {look.evidence}",
            hint=pidfile_holder.what_to_do(recorded),
            identity=recorded,
            path=self.file.path,
            verdict=look.verdict,
        )

    def _already(self, who: str, identity: ProcessIdentity | None, why: str) -> AlreadyRunning:
        hint = "use another pid file, or end the process that has this one's lock"
        if identity is not None:
            whom = self.file.path if identity.boot_id is None else identity.token
            hint = f"use another pid file; or `holdfast signal TERM {whom}` first"
        if identity == self.me:
            hint = "release it first"
        return AlreadyRunning(
            f"{self.file.path} is held by {who}, which is alive: {why}",
            hint=hint,
            identity=identity,
            path=self.file.path,
        )


def _content(fd: int) -> bytes:
    return os.pread(fd, pidfile_format.LARGEST + 1, 0)


def _write_durably(fd: int, content: bytes) -> None:
    if os.write(fd, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    # Without this a power cut can leave an empty file, which would block the next start.
    os.fsync(fd)


def _close(fd: int) -> None:
    """Close, unless that would drop the lock of a held file that was moved to this path."""
    held = _held.get(_inode(os.fstat(fd)))
    if held is None:
        os.close(fd)
    else:
        held.fds.append(fd)


def _inode(found: os.stat_result) -> _Inode:
    return found.st_dev, found.st_ino


def _draft_name(name: str, identity: ProcessIdentity) -> str:
    """The hidden name under which one identity, and no other, prepares its file."""
    short = os.fsdecode(os.fsencode(name)[:150])
    mark = identity.pidfd_inode or identity.start_ticks or identity.create_time or 0
    return f".{short}.{identity.pid}-{mark}.new"
