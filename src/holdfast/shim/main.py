"""The shim's entry: takes the run's lock itself, supervises until the ending is recorded.

Standard library only. Started by `manage/starting/launch.py`: forked by the command line, exec'ed
by the library. It belongs to no terminal and no session of the caller.
"""

from __future__ import annotations

import gc
import os
import select
import sys

from holdfast.importing import strip_modules
from holdfast.lean import read_json, signal
from holdfast.options import OPTIONS
from holdfast.process import libc, this_host
from holdfast.process.identity import ProcessIdentity
from holdfast.process.oom import OomWatch
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.events import Kind
from holdfast.shim.beginning import begin_attempt, not_recorded
from holdfast.shim.journal import Journal
from holdfast.shim.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.spec import RunSpec
    from holdfast.shim.beginning import BegunAttempt
    from holdfast.shim.supervisor import Supervisor

READY = b"!"
_LONGEST_REASON = 300
_EXEC_SECONDS = 0.05  # that the exec may take before the shim goes on loading
_BRIEF_SECONDS = 1.0  # that a shim may live on after a command which was over at once

_oom_watch: OomWatch | None = None  # made while there was no job

# What comes next for a run whose command was let go, with what these need.
_AHEAD = (
    *("holdfast.process.tree", "holdfast.run.inner_runs", "holdfast.shim.attempt"),
    *("holdfast.shim.reaper", "holdfast.shim.restarts", "holdfast.shim.supervisor"),
    *("holdfast.shim.control", "holdfast.shim.wiring"),
)
# Of this package, what only the command line uses, and `runpy`, which may have started it.
_ABOVE = ("holdfast.cli", "holdfast.manage", "holdfast.run.claims", "runpy")
# What a console script and the command line load. A shim that needs one of them loads it again.
_OF_THE_LAUNCHER = (
    *("argparse", "collections", "contextlib", "copyreg", "enum", "functools", "gettext"),
    *("importlib", "json", "keyword", "operator", "re", "reprlib", "site", "types", "warnings"),
)


def become_shim(ready_fd: int) -> int:
    """Leave everything of the caller's behind; the ready descriptor's new number."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd, inheritable=True)
    keep = os.dup2(ready_fd, 3) if ready_fd != 3 else 3  # after that: null may be number 3
    os.set_inheritable(keep, False)  # a workload that held it would keep the launcher waiting
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit of a child away
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return keep


class Readiness:
    """Tells the launcher once that the run runs, has failed to start, or what a shim failed of."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self) -> None:
        self._say(READY)

    def failed(self, error: BaseException) -> None:
        """The last words, also where no note of them could be left."""
        self._say(f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="replace"))

    def _say(self, words: bytes) -> None:
        if self._fd >= 0:
            try:
                os.write(self._fd, words)
            except OSError:  # the launcher is gone: the run is not
                pass
            os.close(self._fd)
            self._fd = -1


def launch(path: str, ready: Readiness) -> None:
    """Supervise a new run."""
    set_role("shim")
    directory = RunDirectory.at(path)
    crash_point("shim.started")
    lock = directory.take_lock()
    if lock is None:
        return  # another shim took the run first
    crash_point("shim.locked")
    libc.set_child_subreaper()
    journal = Journal(directory, lock)
    if journal.facts.last_seq:
        return  # another process recorded its ending before we had the lock
    spec = directory.read_spec()
    this_host.take_host(spec.host)  # which our launcher has just written
    us = ProcessIdentity.current().to_json()
    journal.record(Kind.SUPERVISED, shim=us, how="launched")
    crash_point("shim.supervised")
    # What can fail for want of descriptors, and what counts from the start, comes before the start.
    loop, oom = Loop(journal.record_fault), _oom_watch or OomWatch()
    begun = _begin(spec, directory, journal) if spec.waits is None else None
    if begun is not None:
        _let_it_exec(begun)
    from holdfast.shim.supervisor import Supervisor

    supervisor = Supervisor(directory, spec, journal, loop, is_reaper=True, on_ready=ready, oom=oom)
    if begun is None:
        supervisor.wait_to_begin()
        supervise(supervisor)
    else:
        supervisor.take_attempt(begun)
        # The launcher waits for the exec alone, the child for a core: nothing is loaded meanwhile.
        supervise(supervisor, after_seconds=_EXEC_SECONDS)
    lock.release()
    crash_point("shim.lock-released")
    for part in supervisor.after_release:
        part()


def _begin(spec: RunSpec, directory: RunDirectory, journal: Journal) -> BegunAttempt:
    begun = begin_attempt(spec, directory, journal, 1)
    if not journal.is_settled:
        begun.waiting.close()
        raise not_recorded()
    begun.release()
    return begun


def _let_it_exec(begun: BegunAttempt) -> None:
    """Wait for the exec: the child may need the core that we are on, and so does the launcher."""
    poll = select.poll()
    poll.register(begun.waiting.report_fd, select.POLLIN)
    poll.poll(_EXEC_SECONDS * 1000)


def supervise(supervisor: Supervisor, *, after_seconds: float = 0.0) -> None:
    """Load what is not needed before the command runs, and serve to the end.

    What happens within the first so many seconds is served before: the exec.
    """
    loop = supervisor.journal.loop = supervisor.loop
    loop.on_signal(signal.SIGCHLD, supervisor.child_ended)
    loop.on_signal(signal.SIGTERM, supervisor.signalled)
    if after_seconds:
        loop.turn(after_seconds)
    if not _is_brief(supervisor):
        _forget_the_launcher()
    from holdfast.shim.wiring import equip

    supervisor.on_waiting.append(_settle)
    equip(supervisor)
    supervisor.add_watchers([lambda: _settle_unless_brief(supervisor)])
    loop.run()


def load_ahead(job_fd: int) -> None:
    """While there is no job: find out where we are, and load what the job will need, in that order.

    A job waits for one of these at most. What fails here fails again later, where it is told.
    """
    poll = select.poll()
    poll.register(job_fd, select.POLLIN)
    global _oom_watch
    try:
        this_host.place()
        _oom_watch = OomWatch()
        for name in _AHEAD:
            if poll.poll(0):
                return
            __import__(name)
    except Exception:  # noqa: BLE001 - such as a want of descriptors
        return


def load_all() -> None:
    """What every shim needs sooner or later."""
    from holdfast.shim import observer, supervisor, wiring  # noqa: F401

    _load_the_end()


def _load_the_end() -> None:
    """An upgrade may replace the files during a run: what ends it is loaded before."""
    from holdfast.run import signal_log  # noqa: F401
    from holdfast.shim import ending, requests, stopping, succession  # noqa: F401
    from holdfast.shim.rescue import neighbours  # noqa: F401


def _is_brief(supervisor: Supervisor) -> bool:
    """Whether the command has ended already: what a long life needs is not worth its time then."""
    root = supervisor.attempt.root
    return root is not None and root.has_exited()


def _settle_unless_brief(supervisor: Supervisor) -> None:
    if _is_brief(supervisor):  # it may live on in another process, or be started again
        supervisor.loop.after("settle", _BRIEF_SECONDS, _settle)
    else:
        _settle()


def _settle() -> None:
    """The command runs, and the launcher has been told: nothing waits for the shim now."""
    if gc.isenabled():
        return  # at an earlier attempt; this one may be over before it is looked at
    _forget_the_launcher()
    _load_the_end()
    # What is loaded stays: the collector need not look at it, nor unshare its pages. Where it
    # was found is of no more use.
    sys.path_importer_cache.clear()
    gc.freeze()
    gc.enable()


def _forget_the_launcher() -> None:
    """A forked shim never returns to the code that made it, and lives for days beside others.

    What is given back here is used again by what the shim loads next.
    """
    OPTIONS.clear()
    strip_modules()
    above = [name for name in sys.modules if name.startswith(_ABOVE)]
    if not above:
        return
    for name in above:
        vars(sys.modules[name]).clear()
    vars(sys.modules["__main__"]).pop("re", None)  # a console script as pip makes it
    for name in list(sys.modules):
        # Only the reference is dropped: what else uses it keeps it.
        if name in above or name.partition(".")[0] in _OF_THE_LAUNCHER:
            del sys.modules[name]
    gc.collect()


def run_shim(mode: str, path: str, ready_fd: int, request: str | None = None) -> None:
    """Run one shim to its end, whatever it was started for, in a process of its own session.

    One that fails writes down why while it still has the run's lock, and tells its launcher last:
    an adopter, however soon, finds the reason.
    """
    gc.disable()  # until all is loaded: it would look through the modules again and again
    ready: Readiness | None = None
    try:
        ready = Readiness(become_shim(ready_fd))
        if mode == "launch":
            launch(path, ready)
        else:
            from holdfast.shim.adopt import adopt

            adopt(path, ready, read_json(request) if request else None)
    except BaseException as error:
        os.closerange(0, 3)  # where descriptors ran out: room for the note
        from holdfast.run.last_words.crash_note import leave_note

        leave_note(path, error)
        if ready is not None:
            ready.failed(error)
        raise
