"""Starts a shim and waits until it is ready. The only place in the library that makes a process.

The command line is one thread of ours and may fork, which saves an interpreter's start. A
program that embeds the library may hold any lock in another thread: there the shim is exec'ed.
Either way it is no child of the caller, which has nothing to reap.
"""

from __future__ import annotations

import fcntl
import os

from holdfast.errors import Unavailable, is_shortage, out_of_room
from holdfast.lean import json_text, read_json
from holdfast.manage.operations import Wait
from holdfast.run.crashpoints import crash_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.manage.operations import Steps

READY_SECONDS = 60.0  # an exec from a dead network drive can hang: the run then is `starting`
_LONGEST_WORDS = 4096
_TIDY = "from holdfast.manage.removal.retention import main; main(sys.argv[2])"
_BUNDLE = "from holdfast.bundling import main; main(sys.argv[2])"
_SHOW_PARENT = "from holdfast.manage.doctor.parent import main; main(3)"
_EXAMINE = "from holdfast.manage.doctor.checks import main; main(*sys.argv[2:4], 3)"
_may_fork = False
_forbidden = ""  # why no shim may be started from this process
_preforked: tuple[int, int] | None = None  # job pipe, ready pipe


def allow_fork() -> None:
    """For the command line alone: this process has one thread and nothing to lose."""
    global _may_fork
    _may_fork = True


def forbid_shims(reason: str) -> None:
    """What is started from here would end with this process: refuse to. `reason`: for people."""
    global _forbidden
    _forbidden = reason or "no run can be started or adopted from here"


def preload_shims() -> None:
    """Allow forks, and load what every shim needs once, for the many that will be forked."""
    allow_fork()
    import gc

    from holdfast.shim.main import load_all

    load_all()
    gc.freeze()  # a shim that collects would copy the pages of what all of them share


def prefork_shim() -> None:
    """Allow forks, and fork a shim now: it loads its modules while the start is prepared.

    It ends when it gets no job: a launcher that gives up or dies leaves nothing. Where it can't be
    made now, the start says why when it tries again.
    """
    global _preforked
    allow_fork()
    ends: list[int] = []

    def job() -> Sequence[str]:
        os.close(ends[1])
        from holdfast.shim.main import load_ahead

        load_ahead(ends[0])
        with open(ends[0], "rb") as pipe:
            words: list[str] = read_json(pipe.read().decode() or "[]")
        return words

    try:
        ends += os.pipe2(os.O_CLOEXEC)
        ends += os.pipe2(os.O_CLOEXEC)
        pid = _fork_shim(job, ends[3])
    except OSError:
        for fd in ends:
            os.close(fd)
        return
    job_read, job_write, ready_read, ready_write = ends
    os.close(job_read)
    os.close(ready_write)
    _preforked = (job_write, ready_read)
    # Sleeping now lets it begin: some kernels leave a new process behind its maker on one core
    # while another is idle, for some milliseconds, but wake the maker on the idle one.
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:  # SIGCHLD is ignored, as we have inherited it
        pass


def discard_preforked_shim() -> None:
    """Tell a preforked shim that it is not needed, and wait for its end.

    It has our directory and whatever we were started with, a lock of the caller's too: what the
    caller does next must not meet it.
    """
    global _preforked
    if _preforked is not None:
        (job_write, ready_read), _preforked = _preforked, None
        os.close(job_write)
        os.read(ready_read, 1)  # the end, when the last process that can write there is gone
        os.close(ready_read)


def start_shim(
    mode: str,
    path: str,
    request: dict[str, Any] | None = None,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> Steps[str | None]:
    """Start a shim for the run directory; over when it is ready, or is gone.

    The reason of its failure; "": it is ready; None: it ended without giving one. `meanwhile` is
    called while it begins.
    """
    if _forbidden:
        raise Unavailable(_forbidden, hint="try again")
    words = (mode, path, json_text(request))
    ready_read = _give_job(words) if mode == "launch" else -1
    pid = 0  # of the intermediate process
    shortage = ""
    if ready_read < 0:
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        make = _fork_now if _may_fork else _exec_shim
        try:
            pid = make(words, ready_write)
        except BaseException:
            os.close(ready_read)
            raise
        finally:
            os.close(ready_write)
    try:
        crash_point("launcher.shim-spawned")
        meanwhile()
        if pid:
            shortage = yield from _reap(pid)
        ready = yield Wait((ready_read,), READY_SECONDS)
        # A byte: it is ready. The end: it is gone, and the events say how far it came.
        said = os.read(ready_read, _LONGEST_WORDS) if ready else b""
    finally:
        os.close(ready_read)
    crash_point("launcher.ready")
    if len(said) > 1:
        return said.decode(errors="replace")
    return "" if said else shortage or None


def _reap(pid: int) -> Steps[str]:
    """Wait for the intermediate process, which exits as soon as it has made the other one.

    Why it could not make it, and what to do; "": it could, or that is not known.
    """
    ended = None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # the program reaps, or ignores, its children itself
        return ""
    try:
        yield Wait((pidfd,))
    finally:
        # Also when the caller gave up: it ends by itself at once, and must leave no zombie.
        try:
            ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        except ChildProcessError:
            pass
        os.close(pidfd)
    return "" if ended is None or ended.si_code != os.CLD_EXITED else _shortage(ended.si_status)


def _shortage(status: int) -> str:
    """What an intermediate process says by its exit status: the number of the error of its fork."""
    error = OSError(status, os.strerror(status))
    if not is_shortage(error):
        return ""
    told = out_of_room(error)
    return f"no process can be made for its shim: {told.message}; {told.hint}"


def _give_job(words: Sequence[str]) -> int:
    """Give the preforked shim its job. The ready pipe; -1: there is none."""
    global _preforked
    if _preforked is None:
        return -1
    (job_write, ready_read), _preforked = _preforked, None
    try:
        os.write(job_write, json_text(words).encode())  # far less than a pipe holds
    except BrokenPipeError:  # it was ended
        os.close(ready_read)
        return -1
    finally:
        os.close(job_write)
    return ready_read


def _fork_now(words: tuple[str, str, str], ready_fd: int) -> int:
    return _fork_shim(lambda: words, ready_fd)


def _fork_shim(job: Callable[[], Sequence[str]], ready_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status, end = 70, os._exit
    try:
        os.setsid()  # go on in a grandchild: there is nothing to reap
        try:
            is_between = os.fork() != 0
        except OSError as error:
            end(error.errno or status)
        if is_between:
            end(0)
        try:
            # Loaded in the shim: a fork has to copy whatever is touched after it.
            from holdfast.shim.main import run_shim
        except BaseException as error:
            os.closerange(0, 3)  # where descriptors ran out: room for the note
            from holdfast.run.last_words.crash_note import leave_note

            leave_note(job()[1], error)
            raise
        words = job()
        if words:
            mode, path, request = words
            run_shim(mode, path, ready_fd, request)
        status = 0
    finally:
        end(status)


def _exec_shim(words: tuple[str, str, str], ready_fd: int) -> int:
    from holdfast.shim.rescue.spawn import RUN_SHIM

    mode, path, request = words
    try:
        return _spawn_with(RUN_SHIM, (mode, path, "3", request), ready_fd)
    except OSError as error:
        raise Unavailable(f"a shim can't be started: {error.strerror}", hint="try again") from error


def _spawn_with(program: str, words: Sequence[str], fd: int) -> int:
    """A process that has this descriptor as its 3."""
    from holdfast.shim.rescue.spawn import spawn

    # dup2 of a descriptor onto itself would keep its close-on-exec flag: move it out of the way.
    spare = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    try:
        return spawn(program, words, [(os.POSIX_SPAWN_DUP2, spare, 3)])
    finally:
        os.close(spare)


def examine_apart(home_path: str, agents: bool) -> Steps[bytes]:
    """Have a home and its machine examined by a process of its own; the document that it wrote."""
    return _told_by(_EXAMINE, (home_path, "agents" if agents else ""))


def show_parent() -> Steps[bytes]:
    """Start a process as a shim is started, and have it report its parent."""
    return _told_by(_SHOW_PARENT, ())


def _told_by(program: str, words: Sequence[str]) -> Steps[bytes]:
    """What a process of its own writes."""
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pid = _spawn_with(program, words, write)
        finally:
            os.close(write)
        yield from _reap(pid)
        document = b""
        while True:
            yield Wait((read,))
            data = os.read(read, 1 << 16)
            if not data:
                return document
            document += data
    finally:
        os.close(read)


def start_tidying(home_path: str) -> Steps[None]:
    """Have old runs removed by a process of its own, without waiting for it."""
    return _start_aside(_TIDY, home_path)


def start_bundling(stamp: str) -> Steps[None]:
    """Have the bundle made by a process of its own; it removes the stamp."""
    return _start_aside(_BUNDLE, stamp)


def _start_aside(program: str, word: str) -> Steps[None]:
    from holdfast.shim.rescue.spawn import spawn

    try:
        pid = spawn(program, (word,), [])
    except (OSError, Unavailable):  # the next start tries again
        return
    yield from _reap(pid)
