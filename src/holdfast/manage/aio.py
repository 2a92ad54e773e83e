"""The library for programs that run an asyncio event loop: the same names, awaitable.

Operations are those of `Runs`, driven by the loop's readers and timers: no thread, no signal
handler. Cancelling gives up the waiting, never the run.
"""

from __future__ import annotations

import asyncio

from holdfast.errors import HoldfastError, is_shortage, out_of_room
from holdfast.manage.changing.pausing import pause_run
from holdfast.manage.reading.events import EventStream
from holdfast.manage.reading.output_stream import Lines, OutputStream
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.stopping import stop_run
from holdfast.manage.waiting import wait_for_runs
from holdfast.process.tree_stop import Cleanup
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.manage.changing.adjusting import Adjusted
    from holdfast.manage.changing.answering import GivenAnswer
    from holdfast.manage.doctor.checks import Diagnosis
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Wait
    from holdfast.manage.queueing.view import QueueInfo
    from holdfast.manage.reading.events import Event
    from holdfast.manage.recovery import Recovered
    from holdfast.manage.removal.archive import Archived
    from holdfast.manage.removal.discarding import Discarded
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.removal.retention import Cleaned
    from holdfast.manage.report.report import Report
    from holdfast.manage.selection import Either, Tags
    from holdfast.manage.usage.totals import Usage
    from holdfast.manage.worktrees.changes import Diff
    from holdfast.run.home import Home
    from holdfast.run.output import Chunk

    Result = TypeVar("Result")
    Infos = list[RunInfo]  # inside the class `list` is a method
    Started = list["AsyncRun | HoldfastError"]


async def run_steps_async(steps: Generator[Wait, set[int], Result]) -> Result:
    """Run an operation to its end in the running event loop."""
    try:
        wait = next(steps)
        while True:
            wait = steps.send(await until(wait))
    except StopIteration as done:
        result: Result = done.value
        return result
    except OSError as error:
        if not is_shortage(error):
            raise
        raise out_of_room(error) from error
    finally:
        steps.close()


async def until(wait: Wait) -> set[int]:
    """The descriptors that are ready; empty when the time is over."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    ready: set[int] = set()

    def wake(fd: int) -> None:
        ready.add(fd)
        loop.remove_reader(fd)  # level-triggered: it would be called again until it is read
        if not woken.done():
            woken.set_result(None)

    for fd in wait.fds:
        loop.add_reader(fd, wake, fd)
    try:
        timeout = None if wait.seconds is None else max(0.0, wait.seconds)
        await asyncio.wait({woken}, timeout=timeout)
    finally:
        # Before the operation goes on: it may close them, and their numbers be used again.
        for fd in wait.fds:
            loop.remove_reader(fd)
        woken.cancel()
    return ready


class AsyncRuns:
    """`Runs` for asyncio. `tags` are given to every start and limit every list."""

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        notice: Callable[[str], None] | None = None,
    ) -> None:
        self._runs = (
            Runs(home, tags=tags) if notice is None else Runs(home, tags=tags, notice=notice)
        )

    @property
    def home(self) -> Home:
        return self._runs.home

    @property
    def tags(self) -> dict[str, str]:
        return self._runs.tags

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        key: str | None = None,
        stdin: str | os.PathLike[str] | bytes | None = None,
        replace: bool = False,
        **options: Any,
    ) -> AsyncRun:
        """Start a supervised run. Cancelled: it may or may not have been started."""
        steps = self._runs._start_steps(
            argv, name=name, key=key, stdin=stdin, replace=replace, **options
        )
        return _awaitable(self._runs, await run_steps_async(steps))

    async def start_many(
        self,
        requests: Sequence[Sequence[str] | Mapping[str, Any]],
        *,
        name: str | None = None,
        key: str | None = None,
        **defaults: Any,
    ) -> Started:
        """`Runs.start_many`. Cancelled: each of them may or may not have been started."""
        steps = self._runs._start_many_steps(requests, name=name, key=key, **defaults)
        return [
            started if isinstance(started, HoldfastError) else _awaitable(self._runs, started)
            for started in await run_steps_async(steps)
        ]

    async def get(self, ref: str) -> AsyncRun:
        """A run by name, id, or the beginning of an id."""
        return _awaitable(self._runs, self._runs.get(ref))

    async def list(
        self,
        *,
        active: bool | None = None,
        state: Either = None,
        outcome: Either = None,
        agent: Either = None,
        name: Either = None,
        tags: Tags | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> Infos:
        """Runs, newest first; the selectors are those of `Runs.list`."""
        return self._runs.list(
            active=active,
            state=state,
            outcome=outcome,
            agent=agent,
            name=name,
            tags=tags,
            since=since,
            limit=limit,
        )

    async def wait(
        self,
        runs: Sequence[AsyncRun | Run | str],
        *,
        any: bool = False,  # noqa: A002 - the contract's word
        attention: bool = False,
        timeout: float | str | None = None,
    ) -> Infos:
        """Wait until all of the runs (or one) have ended; in the order given.

        `attention`: or until one of them needs a person.
        """
        plain = [run._plain if isinstance(run, AsyncRun) else run for run in runs]
        steps = self._runs._wait_steps(plain, any_of=any, attention=attention, timeout=timeout)
        return await run_steps_async(steps)

    async def events(
        self, since: str | None = None, follow: bool = True
    ) -> AsyncGenerator[Event, None]:
        """The facts of all runs, oldest first, each with a cursor to go on from."""
        with EventStream(self.home, since=since, follow=follow, tags=self.tags) as stream:
            while (event := await run_steps_async(stream.next_event())) is not None:
                yield event

    async def recover(
        self, *, dry_run: bool = False, resume_lost: bool = False
    ) -> Sequence[Recovered]:
        """Look at every run whose shim is gone: adopt, record, or say unknown."""
        steps = self._runs._recover_steps(dry_run=dry_run, resume_lost=resume_lost)
        return list(await run_steps_async(steps))

    async def clean(
        self,
        *,
        keep: int | None = None,
        older_than: float | str | None = None,
        max_bytes: int | str | None = None,
        dry_run: bool = False,
    ) -> Sequence[Cleaned]:
        """Remove ended runs over a limit; without any, over those of config.toml."""
        return self._runs.clean(
            keep=keep, older_than=older_than, max_bytes=max_bytes, dry_run=dry_run
        )

    async def usage(self, *, since: float | None = None, by: str | None = None) -> Usage:
        """Tokens, cost and CPU time; `since` as in `list`, `by`: agent, tag or day."""
        return self._runs.usage(since=since, by=by)

    async def doctor(self, *, agents: bool = False) -> Diagnosis:
        """What this machine can prove and enforce, tried by a process of its own."""
        return await run_steps_async(self._runs._doctor_steps(agents))

    async def queues(self) -> Sequence[QueueInfo]:
        """Every queue of the home: its limit, which runs are active, which wait and why."""
        return self._runs.queues()


def _awaitable(runs: Runs, started: RunDirectory | Run) -> AsyncRun:
    """The same run for an event loop; one elsewhere has methods of its own."""
    return started._as_async() if isinstance(started, Run) else AsyncRun(runs, started.id)


class AsyncRun:
    """One run, by its id. Holds nothing open: look as often as you like."""

    def __init__(self, runs: Runs, run_id: str) -> None:
        self._runs = runs
        self._plain = Run(runs, run_id)

    @property
    def directory(self) -> RunDirectory:
        """Its files; of a run elsewhere there are none here."""
        return self._plain.directory

    def __repr__(self) -> str:
        return f"AsyncRun({self.id!r})"

    @property
    def id(self) -> str:
        return self._plain.id

    async def info(self) -> RunInfo:
        """All that is known, at one look."""
        return self._plain.info()

    async def wait(self, timeout: float | str | None = None) -> RunInfo:
        """Wait for the end; the info of a run that has not ended when the time is up."""
        infos = await run_steps_async(wait_for_runs([self.directory], timeout=timeout))
        return infos[0]

    async def stop(self, grace: float | str | None = None, signal: str | None = None) -> Cleanup:
        """Stop the whole tree; over when it is empty. Cancelled: the stop goes on without us."""
        steps = stop_run(self.directory, grace_seconds=grace, signal=signal)
        stopped = await run_steps_async(steps)
        return stopped.cleanup or Cleanup()

    async def pause(self) -> None:
        """Stop its processes where they are; a queued run is held."""
        await run_steps_async(pause_run(self.directory))

    async def unpause(self) -> None:
        """Continue those that `pause` stopped."""
        await run_steps_async(pause_run(self.directory, verb="unpause"))

    async def adjust(self, **limits: Any) -> Adjusted:
        """Change limits while it goes on; None: no limit."""
        from holdfast.manage.changing.adjusting import adjust_run

        return await run_steps_async(adjust_run(self.directory, limits))

    async def approve(self, question: str) -> GivenAnswer:
        """Allow what its agent asks for; done once the agent knows."""
        from holdfast.manage.changing.answering import answer_run

        return await run_steps_async(answer_run(self.directory, question, allow=True))

    async def deny(self, question: str, message: str | None = None) -> GivenAnswer:
        """Refuse it; the agent is told the message."""
        from holdfast.manage.changing.answering import answer_run

        steps = answer_run(self.directory, question, allow=False, message=message)
        return await run_steps_async(steps)

    async def send(self, data: bytes) -> None:
        """Write to the run's stdin."""
        await run_steps_async(self._plain._send_steps(data))

    async def output(self, since_byte: int = 0, tail: int | None = None) -> bytes:
        """What the run has written so far: from a byte on, or its last lines."""
        return self._plain.output(since_byte, tail)

    async def follow(self, since_byte: int = 0) -> AsyncGenerator[Chunk, None]:
        """The output from a byte on, as it comes, until the run has ended."""
        self._plain._check_known()
        with OutputStream(self.directory, since_byte) as stream:
            while (chunk := await run_steps_async(stream.next_chunk())) is not None:
                yield chunk

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The output as it comes, in whole lines without newline; the last may be unfinished."""
        self._plain._check_known()
        lines = Lines()
        with OutputStream(self.directory) as stream:
            while (chunk := await run_steps_async(stream.next_chunk())) is not None:
                for line in lines.of(chunk):
                    yield line
        for line in lines.rest():
            yield line

    async def resume(self, prompt: str | None = None) -> AsyncRun:
        """Go on with the agent's session as a new run, once the old tree is proven gone."""
        from holdfast.manage.starting.resuming import resume_steps

        steps = resume_steps(self._runs, self.directory, prompt)
        return AsyncRun(self._runs, (await run_steps_async(steps)).id)

    async def rerun(self, **changes: Any) -> AsyncRun:
        """The same command again, as a new run."""
        from holdfast.manage.starting.resuming import rerun_steps

        steps = rerun_steps(self._runs, self.directory, changes)
        return AsyncRun(self._runs, (await run_steps_async(steps)).id)

    async def remove(
        self, *, stop: bool = False, force: bool = False, discard_worktree: bool = False
    ) -> Removed:
        """Remove an ended run, as `holdfast rm` does; StillAlive while anything may be alive."""
        from holdfast.manage.removal.stop_first import remove_steps

        return await run_steps_async(
            remove_steps(self.directory, stop=stop, force=force, discard_worktree=discard_worktree)
        )

    async def diff(self, *, stat: bool = False, name_only: bool = False) -> Diff:
        """What a worktree run changed since its base commit, untracked files too."""
        from holdfast.manage.worktrees.changes import diff_run

        return await run_steps_async(diff_run(self.directory, stat=stat, name_only=name_only))

    async def discard(self, *, dry_run: bool = False) -> Discarded:
        """Give up what a worktree run changed: its worktree goes, and the branch made for it."""
        return self._plain.discard(dry_run=dry_run)

    async def archive(self) -> Archived:
        """Pack an ended run into a tar.gz in the home, and remove it."""
        return self._plain.archive()

    async def report(self) -> Report:
        """What it used over time: figures, and `text()`, `markdown()`, `html()`."""
        return self._plain.report()
