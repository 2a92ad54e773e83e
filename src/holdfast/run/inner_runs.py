"""What lands below a run's shim and is not the run's own: runs started inside it, runs that its
shim has rescued, and notices.

An inner run's processes are not signalled as descendants, even after their shim died: what its
record names is its own. A stop reaches them through their own shim, and a rescued run not at all.
A notice (`--notify`) belongs to no run: a daemon that it leaves comes back to the shim, which is
the subreaper.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.lean import json_text
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.this_host import STAMP
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any

    from holdfast.run.spec import RunSpec

NOTICE_STAMP = "HOLDFAST_NOTICE_OF"  # of a --notify command and whatever it starts
_DIAL_SECONDS = 0.1  # its shim may hang, and ours must not
_EXEC_LOOKS = 50  # at a process in the middle of an exec, which takes microseconds
_EXEC_PAUSE_SECONDS = 0.001


class InnerRuns:
    """The runs that were started inside a run."""

    def __init__(self, outer: RunDirectory, spec: RunSpec | None = None) -> None:
        self._outer = outer
        self._spec = spec
        self._calls: dict[str, socket.socket] = {}

    def owns(self, identity: ProcessIdentity) -> bool:
        """Whether a process below us belongs to an inner or a rescued run, or is a notice."""
        runs, notifies = self._outer.inner_runs(), self._notifies()
        runs += self._outer.rescued_runs()
        if not runs and not notifies:
            return False
        if any(identity.token in _tokens_of(inner) for inner in runs):
            return True
        # Not recorded yet, or a child of an inner orphan: a stamp excludes a process from signals,
        # never includes it.
        try:
            environment = _environment(identity.pid)
        except HoldfastError:
            return False
        inner = [run.id for run in runs]
        told = [*inner, self._outer.id] if notifies else inner
        return environment.get(STAMP) in inner or environment.get(NOTICE_STAMP) in told

    def _notifies(self) -> bool:
        if self._spec is None:
            try:
                self._spec = self._outer.read_spec()
            except (HoldfastError, OSError):
                return False
        return self._spec.wanted.notify is not None

    def stop(self, request: dict[str, Any]) -> list[str]:
        """Ask every inner run that is not independent to stop; the ids that were asked."""
        runs = self._outer.inner_runs()
        if not runs:
            return []
        from holdfast.run.control_socket import dial

        for inner in runs:
            if inner.id in self._calls or _is_independent(inner):
                continue
            call = dial(inner.path, _DIAL_SECONDS)
            if call is not None:
                call.sendall(json_text({**request, "do": "stop", "wait": True}).encode() + b"\n")
                call.setblocking(False)
                self._calls[inner.id] = call
        return list(self._calls)

    def tell(self, verb: str) -> None:
        """Ask every inner run that is not independent for something; does not wait."""
        from holdfast.run.control_socket import tell

        for inner in self._outer.inner_runs():
            if not _is_independent(inner):
                tell(inner.path, verb)

    def still_stopping(self) -> list[str]:
        """The inner runs that were asked and whose shim has not hung up yet."""
        for run_id, call in list(self._calls.items()):
            try:
                ended = call.recv(65536) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            if ended:
                call.close()
                del self._calls[run_id]
        return list(self._calls)


def _environment(pid: int) -> dict[str, str]:
    """The environment, also where an exec is under way.

    In the middle of an exec the kernel shows neither environment nor arguments, so a notice would
    pass for a member (test_a_notice_is_told_from_a_member_in_the_middle_of_its_exec). Arguments
    without an environment are an empty environment.
    """
    for _ in range(_EXEC_LOOKS):
        environment = procfs.environment(pid)
        if environment:
            return environment
        if procfs.command_line(pid):
            break  # the exec has ended since, or there is none
        time.sleep(_EXEC_PAUSE_SECONDS)
    return procfs.environment(pid)


def _is_independent(inner: RunDirectory) -> bool:
    try:
        return inner.read_spec().wanted.independent
    except (HoldfastError, OSError):
        return True  # what can't be read is left alone


def _tokens_of(inner: RunDirectory) -> set[str]:
    from holdfast.run.lifecycle import fold

    try:
        return fold(inner.read_events().events).named_tokens()
    except (HoldfastError, OSError):
        return set()
