"""Runs started inside this one. Each has a shim of its own, which lands below ours.

Their processes are never struck as mere descendants, even after their shim died: what their
records name is theirs. A stop reaches them through their own shim.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.members import STAMP
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket as socket
    from typing import Any


class InnerRuns:
    """The runs that were started inside a run."""

    def __init__(self, outer: RunDirectory) -> None:
        self._outer = outer
        self._calls: dict[str, socket.socket] = {}

    def owns(self, identity: ProcessIdentity) -> bool:
        """Whether a process below us belongs to an inner run."""
        inner = self._outer.inner_ids()
        if not inner:
            return False
        if any(identity.token in _tokens_of(self._outer.sibling(run_id)) for run_id in inner):
            return True
        # Not recorded yet, or a child of an inner orphan: the stamp spares, it never condemns.
        try:
            return procfs.environment(identity.pid).get(STAMP) in inner
        except HoldfastError:
            return False

    def stop(self, request: dict[str, Any]) -> list[str]:
        """Ask every inner run that is not independent to stop; the ids that were asked."""
        ids = self._outer.inner_ids()
        if not ids:
            return []
        import json

        from holdfast.shim.dial import dial

        for run_id in ids:
            inner = self._outer.sibling(run_id)
            if run_id in self._calls or _is_independent(inner):
                continue
            call = dial(inner.path)
            if call is not None:
                call.sendall(json.dumps({**request, "do": "stop", "wait": True}).encode() + b"\n")
                call.setblocking(False)
                self._calls[run_id] = call
        return list(self._calls)

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


def _is_independent(inner: RunDirectory) -> bool:
    try:
        return inner.read_spec().wanted.independent
    except (HoldfastError, OSError):
        return True  # what can't be read is left alone


def _tokens_of(inner: RunDirectory) -> set[str]:
    from holdfast.run.lifecycle import fold

    try:
        facts = fold(inner.read_events().events)
    except (HoldfastError, OSError):
        return set()
    named = [facts.shim, facts.root, facts.workload, *facts.wrappers, *facts.previous_shims]
    return {one["token"] for one in named if one} | set(facts.members)
