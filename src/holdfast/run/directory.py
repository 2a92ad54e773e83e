"""One run's directory: what lies where, and who may write it.

Reading takes no lock and writes nothing. Events are written only through `open_log`, which needs
the run's lock. Nothing is removed here.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, InvalidName, LockBusy, RunNotFound
from holdfast.lean import read_json
from holdfast.run.atomic_files import (
    append_line,
    atomic_write,
    encode,
    make_directory,
    read_file,
    read_lines,
    remove_file,
)
from holdfast.run.checked_json import damaged
from holdfast.run.home import Home
from holdfast.run.locks import HeldLock, lock_is_held, take_lock, wait_for_lock
from holdfast.run.names import is_id
from holdfast.run.spec import RunSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from holdfast.run.event_log import EventLog, EventsRead


class RunDirectory:
    """Paths and files of one run, which may or may not exist."""

    def __init__(self, home: Home, run_id: str) -> None:
        if not is_id(run_id):
            raise InvalidName(f"{run_id!r} is not the id of a run", name=run_id)
        self.home = home
        self.id = run_id
        self.path = f"{home.runs_path}/{run_id}"
        self.spec_path = f"{self.path}/spec.json"
        self.lock_path = f"{self.path}/lock"
        self.events_path = f"{self.path}/events.jsonl"
        self.output_path = f"{self.path}/output.log"
        self.stderr_path = f"{self.path}/stderr.log"
        self.trace_path = f"{self.path}/trace.jsonl"
        self.anomalies_path = f"{self.path}/anomalies.jsonl"
        self.signals_path = f"{self.path}/signals.jsonl"
        self.inner_path = f"{self.path}/inner"
        self.rescued_path = f"{self.path}/rescued"
        self.control_path = f"{self.path}/control"
        self.stdin_path = f"{self.path}/stdin"
        self.setup_log_path = f"{self.path}/setup.log"
        self.notify_failed_path = f"{self.path}/notify.failed"
        self.summary_path = f"{self.path}/summary.json"
        self._written_spec: RunSpec | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """The run whose directory this is."""
        runs, run_id = os.path.split(os.path.abspath(path))
        return cls(Home(os.path.dirname(runs)), run_id)

    def sibling(self, run_id: str) -> RunDirectory:
        """Another run of the same home."""
        return RunDirectory(self.home, run_id)

    def exists(self) -> bool:
        """Whether there is such a run; one without a spec was never made, unless it has begun."""
        return os.path.exists(self.spec_path) or self._has_begun()

    # What was asked

    def make(self) -> None:
        """Make the directory. FileExistsError when the id is taken."""
        os.mkdir(self.path, 0o700)

    def write_spec(self, spec: RunSpec) -> None:
        """Written once, whole or not at all, private."""
        atomic_write(self.spec_path, encode(spec.to_json()) + b"\n")
        self._written_spec = spec

    def known_spec(self) -> RunSpec:
        """What we have written ourselves, even where it was removed since; else what is there."""
        return self._written_spec or self.read_spec()

    def read_spec(self) -> RunSpec:
        """RunNotFound, DamagedRecord or LaterVersion when it can't be had."""
        try:
            document = self._read_json(self.spec_path)
        except RunNotFound:
            if not self._has_begun():
                raise
            # Written before anything begins: looked for after that, it is there, or was lost.
            if not os.path.exists(self.spec_path):
                raise damaged(self.spec_path, "is missing") from None
            document = self._read_json(self.spec_path)
        return RunSpec.from_json(document, self.spec_path)

    def _has_begun(self) -> bool:
        """Whether a shim ever was at work here, or is."""
        try:
            return self.lock_is_held() or os.stat(self.events_path).st_size > 0
        except OSError:
            return False

    # What happened

    def read_events(
        self, offset: int = 0, next_seq: int = 1, *, members: bool = True
    ) -> EventsRead:
        """The whole events from a byte on, as `EventsRead.offset` and `next_seq` told it."""
        from holdfast.run.event_log import read_events

        return read_events(self.events_path, offset, next_seq, members=members)

    def first_kept_byte(self, path: str | None = None) -> int:
        """Where an output file begins that is a copy of a trimmed one: before it are zeros.

        A trimmed file itself has a hole there, which every reader sees.
        """
        from holdfast.run.output import begins_with_zeros

        if path not in (None, self.output_path) or not begins_with_zeros(self.output_path):
            return 0
        from holdfast.run.lifecycle import fold

        try:
            return fold(self.read_events(members=False).events).output_first_byte
        except (HoldfastError, OSError):
            return 0

    def lock_is_held(self) -> bool:
        """Whether the run is supervised right now."""
        return lock_is_held(self.lock_path)

    def take_lock(self) -> HeldLock | None:
        """Become the run's one writer; None while another is."""
        try:
            return take_lock(self.lock_path)
        except FileNotFoundError:
            raise self.not_found() from None

    def wait_for_lock(self, timeout_seconds: float) -> HeldLock | None:
        """Take the lock, waiting for a holder that is about to end; None: it is still held."""
        try:
            return wait_for_lock(self.lock_path, timeout_seconds)
        except LockBusy:
            return None
        except FileNotFoundError:
            raise self.not_found() from None

    def open_log(
        self, lock: HeldLock, *, published: Callable[[bytes], None] | None = None
    ) -> EventLog:
        """The log, for the holder of the lock. DamagedRecord when it can't be gone on with."""
        from holdfast.run.event_log import EventLog

        return EventLog(self.events_path, lock, published=published)

    def append_signal(self, document: dict[str, Any]) -> None:
        """Add to the history of signals; needs no lock."""
        append_line(self.signals_path, document)

    def read_signals(self) -> list[dict[str, Any]]:
        """Every signal that was sent or refused, oldest first.

        An announced signal is among them until its sender has recorded the result.
        """
        from holdfast.run.signal_log import without_settled

        return without_settled(read_lines(self.signals_path))

    def write_summary(self, document: dict[str, Any]) -> None:
        """What can be rebuilt from the rest, for those who read many runs."""
        atomic_write(self.summary_path, encode(document) + b"\n")

    # What leads to it

    def mark_active(self) -> None:
        """A run without a recorded ending is found without reading history."""
        fd = os.open(self._marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.close(fd)

    def unmark_active(self) -> None:
        """The ending is recorded: from now on, for a day, the run is one that ended recently."""
        try:
            os.utime(self._marker)
            os.rename(self._marker, f"{self.home.recent_path}/{self.id}")
        except OSError:  # not marked, or a full disk: then only plain listings miss it
            self.drop_marker()

    def drop_marker(self) -> None:
        """Remove the `active/` marker: no reader needs to look at this run any more."""
        remove_file(self._marker)

    def note_processes(self, tokens: list[str]) -> None:
        """Note the supervised processes in the marker too: it outlives a deleted directory."""
        data = "".join(f"{token}\n" for token in tokens).encode("ascii")
        try:
            fd = os.open(self._marker, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # not marked
            return
        try:
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
        except OSError:  # a full disk: then a deleted directory leaves less behind
            pass
        finally:
            os.close(fd)

    def noted_tokens(self) -> list[str]:
        """The processes that its shim has noted in the marker."""
        try:
            return str(read_file(self._marker), "ascii", "replace").split()
        except OSError:
            return []

    def is_known(self) -> bool:
        """Whether there is such a run, or what a deleted one has left: see `manage/vanished.py`."""
        return self.exists() or self.is_marked_active()

    def is_marked_active(self) -> bool:
        return os.path.exists(self._marker)

    def add_inner(self, inner: RunDirectory) -> None:
        """Note that a run is being started inside this one; its home, where that is another."""
        self._note_below(self.inner_path, inner)

    def add_rescued(self, rescued: RunDirectory) -> None:
        """Note that our shim starts an adopter for another run: what is that run's is not ours."""
        self._note_below(self.rescued_path, rescued)

    def _note_below(self, path: str, other: RunDirectory) -> None:
        make_directory(path)
        with open(f"{path}/{other.id}", "wb") as file:
            if other.home.path != self.home.path:
                file.write(os.fsencode(other.home.path))

    def has_below(self, run_id: str) -> bool:
        """Whether the shim of that run was started below ours: by a rescue, or inside this run."""
        paths = (self.rescued_path, self.inner_path)
        return any(os.path.exists(f"{path}/{run_id}") for path in paths)

    def inner_runs(self) -> list[RunDirectory]:
        """The runs that were started inside this one, oldest first."""
        return [self._noted(self.inner_path, run_id) for run_id in _ids_in(self.inner_path)]

    def rescued_runs(self) -> list[RunDirectory]:
        """The runs whose adopters were started below our shim; never stopped with this one."""
        return [self._noted(self.rescued_path, run_id) for run_id in _ids_in(self.rescued_path)]

    def _noted(self, path: str, run_id: str) -> RunDirectory:
        try:
            home = os.fsdecode(read_file(f"{path}/{run_id}"))
        except OSError:
            home = ""
        is_elsewhere = os.path.isabs(home) and "\0" not in home
        return RunDirectory(Home(home), run_id) if is_elsewhere else self.sibling(run_id)

    @property
    def _marker(self) -> str:
        return f"{self.home.active_path}/{self.id}"

    def _read_json(self, path: str) -> object:
        try:
            document: object = read_json(str(read_file(path), "utf-8"))
        except FileNotFoundError:
            raise self.not_found() from None
        except (ValueError, RecursionError):
            raise damaged(path, "is not JSON") from None
        return document

    def not_found(self) -> RunNotFound:
        """The error for a run that is not there, or no longer."""
        return RunNotFound(f"there is no run {self.id}", run=self.id)


def _ids_in(path: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(path) if is_id(name))
    except FileNotFoundError:
        return []
