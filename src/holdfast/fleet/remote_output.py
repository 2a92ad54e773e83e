"""The output of a run on another machine, over a link that may be cut."""

from __future__ import annotations

from holdfast.errors import NoAnswer
from holdfast.fleet.placer import NodeCall
from holdfast.fleet.reaching import open_channel
from holdfast.fleet.session import error_of
from holdfast.manage.operations import Wait
from holdfast.run.output import Chunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.operations import Steps

AGAIN_SECONDS = 1.0  # until a node that did not answer is asked again; then longer
LONGEST_AGAIN_SECONDS = 15.0


class RemoteOutput:
    """A run's output over a link that may be cut: it is asked for again, from where it was."""

    def __init__(self, run: RemoteRun, at_byte: int) -> None:
        self._run = run
        self._at_byte = at_byte
        self._channel: Any = None

    def next_chunk(self) -> Steps[Chunk | None]:
        """What was written next; None: the run is over, and all of it was given."""
        pause = AGAIN_SECONDS
        while True:
            try:
                return (yield from self._next())
            except NoAnswer as error:
                self.close()
                self._run._runs._notice(f"{error.message}; going on when it is back")
            yield Wait((), pause)
            pause = min(pause * 2, LONGEST_AGAIN_SECONDS)

    def _next(self) -> Steps[Chunk | None]:
        if self._channel is None:
            call = NodeCall(("fleet", "output", self._run.id, str(self._at_byte)))
            self._channel = yield from open_channel(self._run._fleet, self._run.placement, call)
        piece = yield from self._channel.piece()
        while piece is not None and piece.said is not None:
            self._at_byte = int(piece.said["at_byte"])
            piece = yield from self._channel.piece()
        if piece is None:
            if self._channel.exit_code:
                message = self._channel.errors or "its output can't be read there"
                raise error_of(
                    {"code": "", "message": message, "exit_code": self._channel.exit_code}
                )
            return None
        chunk = Chunk(self._at_byte, piece.data)
        self._at_byte += len(piece.data)
        return chunk

    def close(self) -> None:
        """Close the link."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
