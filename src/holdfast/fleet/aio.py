"""A run on another machine, for programs that run an asyncio event loop."""

from __future__ import annotations

from holdfast.fleet.remote_output import RemoteOutput
from holdfast.manage.aio import AsyncRun, run_steps_async
from holdfast.manage.reading.output_stream import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.changing.adjusting import Adjusted
    from holdfast.manage.changing.answering import GivenAnswer
    from holdfast.manage.info import RunInfo
    from holdfast.manage.removal.archive import Archived
    from holdfast.manage.removal.discarding import Discarded
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.report.report import Report
    from holdfast.manage.worktrees.changes import Diff
    from holdfast.process.tree_stop import Cleanup
    from holdfast.run.output import Chunk


class AsyncRemoteRun(AsyncRun):
    """`RemoteRun` for asyncio. Cancelling gives up the waiting, never the run."""

    _plain: RemoteRun

    def __init__(self, plain: RemoteRun) -> None:
        self._runs = plain._runs
        self._plain = plain

    def __repr__(self) -> str:
        return f"AsyncRemoteRun({self.id!r}, on={self._plain.placement.target!r})"

    async def info(self) -> RunInfo:
        """All that is known, at one look; `unknown` with the last facts if its node is silent."""
        return await run_steps_async(self._plain._info_steps())

    async def wait(self, timeout: float | str | None = None) -> RunInfo:
        """Wait for the end, also when the link is cut meanwhile."""
        return await run_steps_async(self._plain._wait_steps(timeout))

    async def stop(self, grace: float | str | None = None, signal: str | None = None) -> Cleanup:
        """Stop the whole tree, by the run's own shim. Cancelled: the stop goes on without us."""
        return await run_steps_async(self._plain._stop_steps(grace, signal))

    async def pause(self) -> None:
        """Stop its processes where they are; a queued run is held."""
        await run_steps_async(self._plain._do_steps("pause"))

    async def unpause(self) -> None:
        """Continue those that `pause` stopped."""
        await run_steps_async(self._plain._do_steps("unpause"))

    async def adjust(self, **limits: Any) -> Adjusted:
        """Change limits of a run that goes on; None takes one away."""
        return await run_steps_async(self._plain._adjust_steps(limits))

    async def approve(self, question: str) -> GivenAnswer:
        """Allow what its agent asks for; done once the agent knows."""
        steps = self._plain._answer_steps(["approve", self.id, question])
        return await run_steps_async(steps)

    async def deny(self, question: str, message: str | None = None) -> GivenAnswer:
        """Refuse it; the agent is told the message."""
        more = [] if message is None else ["--message", message]
        steps = self._plain._answer_steps(["deny", *more, self.id, question])
        return await run_steps_async(steps)

    async def send(self, data: bytes) -> None:
        """Write to the run's stdin."""
        await run_steps_async(self._plain._send_steps(data))

    async def output(self, since_byte: int = 0, tail: int | None = None) -> bytes:
        """What the run has written so far: from a byte on, or its last lines."""
        return await run_steps_async(self._plain._output_steps(since_byte, tail))

    async def follow(self, since_byte: int = 0) -> AsyncGenerator[Chunk, None]:
        """The output from a byte on, as it comes, until the run has ended."""
        stream = RemoteOutput(self._plain, since_byte)
        try:
            while (chunk := await run_steps_async(stream.next_chunk())) is not None:
                yield chunk
        finally:
            stream.close()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The output as it comes, in whole lines without newline; the last may be unfinished."""
        lines = Lines()
        async for chunk in self.follow():
            for line in lines.of(chunk):
                yield line
        for line in lines.rest():
            yield line

    async def resume(self, prompt: str | None = None) -> AsyncRun:
        """Go on with the agent's session as a new run, on the same node."""
        return AsyncRemoteRun(await run_steps_async(self._plain._resume_steps(prompt)))

    async def rerun(self, **changes: Any) -> AsyncRun:
        """The same command again, as a new run on the same node."""
        return AsyncRemoteRun(await run_steps_async(self._plain._rerun_steps(changes)))

    async def remove(
        self, *, stop: bool = False, force: bool = False, discard_worktree: bool = False
    ) -> Removed:
        """Remove an ended run from its node, and from the ledger: its key is free."""
        return await run_steps_async(self._plain._remove_steps(stop, force, discard_worktree))

    async def diff(self, *, stat: bool = False, name_only: bool = False) -> Diff:
        """What a worktree run changed since its base commit, on its node."""
        return await run_steps_async(self._plain._diff_steps(stat, name_only))

    async def discard(self, *, dry_run: bool = False) -> Discarded:
        """Give up what a worktree run changed, on its node."""
        return await run_steps_async(self._plain._discard_steps(dry_run))

    async def archive(self) -> Archived:
        """Pack an ended run into a tar.gz in its node's home, and remove it there."""
        return await run_steps_async(self._plain._archive_steps())

    async def report(self) -> Report:
        """What it used over time, as its node has it. Its texts are asked for when they are used,
        which waits without the event loop."""
        return self._plain.report()
