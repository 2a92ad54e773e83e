"""A command of the node's own holdfast, over a program of the engine: ssh, srun, or our own bridge.

The only place of this layer that makes a process. What the node says begins with its facts and ends
with the command's exit code, each a line that starts with a zero byte: a link that was cut can't be
taken for an end, and what a login script prints is left out. The program is reaped here.
"""

from __future__ import annotations

import os
import subprocess

from holdfast.errors import HoldfastError, NoAnswer, Unavailable
from holdfast.fleet.node import MARK
from holdfast.fleet.placement import NodeFacts
from holdfast.lean import read_json, signal
from holdfast.manage.operations import Wait
from holdfast.process.clock import boottime
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from holdfast.manage.operations import Steps

_LONGEST_MARK_BYTES = 1 << 16
_READ_BYTES = 1 << 16
_WRITE_PAUSE_SECONDS = 0.005
_KEPT_BYTES = 2000  # of what a program says on stderr
_END_SECONDS = 2.0
_SESSION_SECONDS = 10.0


class Piece(Record):
    """Some of what the node says: output, or a line of the protocol."""

    data: bytes = b""
    said: dict[str, Any] | None = None


class Unwrapping:
    """Parts output from the lines of the protocol, as bytes come. Pure."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> list[Piece]:
        """What can be told by now; only what may be the beginning of a mark is held back."""
        pieces: list[Piece] = []
        rest = self._held + data
        while (at := _mark_in(rest)) is not None:
            if at:
                pieces.append(Piece(rest[:at]))
            rest = rest[at:]
            end = rest.find(b"\n")
            if end < 0:
                if len(rest) < _LONGEST_MARK_BYTES:
                    break
                end = 0
            said = _said(rest[len(MARK) : end]) if end else None
            pieces.append(Piece(rest[: end + 1]) if said is None else Piece(said=said))
            rest = rest[end + 1 :]
        else:
            pieces += [Piece(rest)] if rest else []
            rest = b""
        self._held = rest
        return pieces

    def finish(self) -> list[Piece]:
        """What was held back, when nothing follows."""
        rest, self._held = self._held, b""
        return [Piece(rest)] if rest else []


def _mark_in(data: bytes) -> int | None:
    """Where a mark begins, or may begin at the end of what is there."""
    at = data.find(b"\0")
    while at >= 0:
        if MARK.startswith(data[at : at + len(MARK)]):
            return at
        at = data.find(b"\0", at + 1)
    return None


def _said(line: bytes) -> dict[str, Any] | None:
    try:
        document = read_json(line.decode())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def count_sessions(argv: Sequence[str], most: int) -> Steps[int]:
    """How many of a program that echoes its input can be open at once."""
    opened: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(most):
            one = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            opened.append(one)
            assert one.stdin is not None
            assert one.stdout is not None
            try:
                os.write(one.stdin.fileno(), b"x")
            except BrokenPipeError:
                return len(opened) - 1
            ready = yield Wait((one.stdout.fileno(),), _SESSION_SECONDS)
            if not ready or not os.read(one.stdout.fileno(), 1):
                return len(opened) - 1
        return len(opened)
    finally:
        for one in opened:
            for pipe in (one.stdin, one.stdout):
                if pipe is not None:
                    pipe.close()
            one.wait()


class Channel:
    """One program that leads to a node, and what comes through it. A context manager.

    `where` names the node in errors. `shows_errors`: what the node says on stderr goes to ours.
    """

    def __init__(
        self,
        argv: Sequence[str],
        where: str,
        *,
        answer_seconds: float,
        shows_errors: bool = False,
        explain: Callable[[NoAnswer], HoldfastError] = lambda error: error,
    ) -> None:
        """`explain` makes a better error of what the program said before the node did."""
        self._explain = explain
        self._where = where
        self._deadline = boottime() + answer_seconds
        self._unwrapping = Unwrapping()
        self._pieces: list[Piece] = []
        self._is_over = False
        self._errors = b""
        self.facts: NodeFacts | None = None
        self.exit_code: int | None = None  # of the command on the node
        try:
            self._program = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if shows_errors else subprocess.PIPE,
                start_new_session=True,  # a ctrl-c is for us; we end it when we go
            )
        except FileNotFoundError:
            raise Unavailable(
                f"there is no {argv[0]} here", hint="install it, and see that it is in PATH"
            ) from None
        assert self._program.stdout is not None
        self._out = self._program.stdout.fileno()
        self._err = -1 if self._program.stderr is None else self._program.stderr.fileno()
        for fd in (self._out, self._err):
            if fd >= 0:
                os.set_blocking(fd, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hello(self) -> Steps[NodeFacts]:
        """What the node says about itself; NoAnswer when nothing comes in time."""
        while self.facts is None:
            piece = yield from self._next(self._deadline)
            if piece is None:
                raise (yield from self._no_answer())
            if piece.said is not None and "hello" in piece.said:
                self.facts = NodeFacts.from_json(piece.said["hello"])
        return self.facts

    def read(self, deadline: float | None = None) -> Steps[bytes | None]:
        """Some output; None: the command has ended, and `exit_code` is there."""
        while (piece := (yield from self.piece(deadline))) is not None:
            if piece.said is None:
                return piece.data
        return None

    def piece(self, deadline: float | None = None) -> Steps[Piece | None]:
        """Output, or a line of the protocol; None: the command has ended. NoAnswer when the link
        is lost before that, or the deadline (in boottime) has passed."""
        if self.exit_code is not None:
            return None
        piece = yield from self._next(deadline)
        if piece is None:
            raise (yield from self._no_answer())
        if piece.said is not None and "ended" in piece.said:
            self.exit_code = int(piece.said["ended"])
            return None
        return piece

    def line(self, deadline: float | None = None) -> Steps[dict[str, Any]]:
        """The next line of the protocol; NoAnswer when there is none."""
        while True:
            piece = yield from self._next(deadline)
            if piece is None:
                raise (yield from self._no_answer())
            if piece.said is not None:
                return piece.said

    def write(self, data: bytes) -> Steps[None]:
        """To the command's stdin. The next read reports that a node has hung up."""
        assert self._program.stdin is not None
        fd = self._program.stdin.fileno()
        os.set_blocking(fd, False)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                yield Wait((), _WRITE_PAUSE_SECONDS)
            except BrokenPipeError:
                return

    def end_input(self) -> None:
        """Nothing more comes."""
        if self._program.stdin is not None:
            self._program.stdin.close()

    @property
    def errors(self) -> str:
        """What was said on stderr so far."""
        self._read_errors()
        return self._errors.decode(errors="replace").strip()

    def _next(self, deadline: float | None) -> Steps[Piece | None]:
        """None: nothing more comes, or the time is over."""
        while not self._pieces:
            if self._is_over:
                return None
            left = None if deadline is None else deadline - boottime()
            if left is not None and left <= 0:
                return None
            fds = tuple(fd for fd in (self._out, self._err) if fd >= 0)
            ready = yield Wait(fds, left)
            if self._err in ready:
                self._read_errors()
            if self._out in ready:
                self._read_output()
        return self._pieces.pop(0)

    def _read_output(self) -> None:
        try:
            data = os.read(self._out, _READ_BYTES)
        except BlockingIOError:
            return
        self._is_over = not data
        self._pieces += self._unwrapping.feed(data) if data else self._unwrapping.finish()

    def _read_errors(self) -> None:
        while self._err >= 0:
            try:
                data = os.read(self._err, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._err = -1
            self._errors = (self._errors + data)[-_KEPT_BYTES:]

    def _no_answer(self) -> Steps[HoldfastError]:
        """Why nothing came, as far as the program says."""
        status: int | None = None
        if self._is_over:
            status = yield from self._reap()
        error = self._error(status)
        return error if self.facts is not None else self._explain(error)

    def _error(self, status: int | None) -> NoAnswer:
        """For a program that ended, or said nothing (None), before the node did."""
        said = self.errors.splitlines()
        last = f": {said[-1].strip()}" if said else ""
        if status is None:
            took = "did not answer in time"
        else:
            took = "hung up" if self.facts is not None else "can't be reached"
        return NoAnswer(
            f"{self._where} {took}{last}",
            hint=f"holdfast fleet check {self._where} says more",
            status=status,
            said=self.errors,
        )

    def _reap(self) -> Steps[int | None]:
        """The program's own exit code; None: the host program has reaped it."""
        try:
            pidfd = os.pidfd_open(self._program.pid)
        except OSError:
            return self._program.poll()
        try:
            yield Wait((pidfd,), 5.0)
        finally:
            os.close(pidfd)
        self._read_errors()
        return self._program.poll()

    def close(self) -> None:
        """Close it: the program is ended, if it has not ended by itself."""
        for pipe in (self._program.stdin, self._program.stdout, self._program.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # bytes for a program that is gone; the descriptor is closed
                    pass
        self._out = self._err = -1
        if self._program.poll() is None:
            try:
                send_signal(ProcessIdentity.of(self._program.pid), signal.SIGTERM)
            except HoldfastError:
                pass  # it has just ended
            try:
                self._program.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                send_signal(ProcessIdentity.of(self._program.pid), signal.SIGKILL)
                self._program.wait()
