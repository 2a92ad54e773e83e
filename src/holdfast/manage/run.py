"""One run: look at it, wait for it, act on it. Holds nothing open."""

from __future__ import annotations

from holdfast.errors import IdentityUnproven, NoStdin, Unavailable, WrongUse, argument
from holdfast.manage.operations import run_steps
from holdfast.run.directory import RunDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from holdfast.manage.aio import AsyncRun
    from holdfast.manage.changing.adjusting import Adjusted
    from holdfast.manage.changing.answering import GivenAnswer
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.removal.archive import Archived
    from holdfast.manage.removal.discarding import Discarded
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.report.report import Report
    from holdfast.manage.runs import Runs
    from holdfast.manage.worktrees.changes import Diff
    from holdfast.process.tree_stop import Cleanup
    from holdfast.run.output import Chunk


class Run:
    """One run, by its id. Holds nothing open: look as often as you like."""

    is_elsewhere = False  # on another machine: then it is a RemoteRun

    def __init__(self, runs: Runs, run_id: str, directory: RunDirectory | None = None) -> None:
        self._runs = runs
        self._directory = directory or RunDirectory(runs.home, run_id)

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def directory(self) -> RunDirectory:
        """Its files; of a run elsewhere there are none here."""
        return self._directory

    @property
    def id(self) -> str:
        return self.directory.id

    def _as_async(self) -> AsyncRun:
        """The same for an asyncio event loop."""
        from holdfast.manage.aio import AsyncRun

        return AsyncRun(self._runs, self.id)

    def info(self) -> RunInfo:
        """All that is known, at one look."""
        from holdfast.manage.info import read_run

        return read_run(self.directory)

    def wait(self, timeout: float | str | None = None) -> RunInfo:
        """Wait for the end; the info of a run that has not ended when the time is up."""
        return self._runs.wait([self], timeout=timeout)[0]

    def stop(self, grace: float | str | None = None, signal: str | None = None) -> Cleanup:
        """Stop the whole tree; over when it is empty. Of a run that has ended, what it left."""
        from holdfast.manage.stopping import stop_run
        from holdfast.process.tree_stop import Cleanup

        stopped = run_steps(stop_run(self.directory, grace_seconds=grace, signal=signal))
        return stopped.cleanup or Cleanup()

    def pause(self) -> None:
        """Stop its processes where they are; a queued run is held."""
        from holdfast.manage.changing.pausing import pause_run

        run_steps(pause_run(self.directory))

    def unpause(self) -> None:
        """Continue those that `pause` stopped."""
        from holdfast.manage.changing.pausing import pause_run

        run_steps(pause_run(self.directory, verb="unpause"))

    def adjust(self, **limits: Any) -> Adjusted:
        """Change limits while it goes on: `timeout="2h"`, `max_tokens=500_000`; None: no limit."""
        from holdfast.manage.changing.adjusting import adjust_run

        adjusted: Adjusted = run_steps(adjust_run(self.directory, limits))
        return adjusted

    def approve(self, question: str) -> GivenAnswer:
        """Allow what its agent asks for (`info().attention["id"]`); done once the agent knows."""
        return self._answer(question, allow=True)

    def deny(self, question: str, message: str | None = None) -> GivenAnswer:
        """Refuse it; the agent is told the message."""
        return self._answer(question, allow=False, message=message)

    def _answer(self, question: str, *, allow: bool, message: str | None = None) -> GivenAnswer:
        from holdfast.manage.changing.answering import answer_run

        steps = answer_run(self.directory, question, allow=allow, message=message)
        answered: GivenAnswer = run_steps(steps)
        return answered

    def send(self, data: bytes) -> None:
        """Write to the run's stdin."""
        run_steps(self._send_steps(data))

    def _send_steps(self, data: bytes) -> Steps[None]:
        return self._send_for(data, ())

    def _send_for(self, data: bytes, asked_by: Sequence[str]) -> Steps[None]:
        """`asked_by`: tokens of the processes for which a server does it."""
        import base64

        from holdfast.manage.shim_client import reach
        from holdfast.manage.stopping import refuse_unproven

        refuse_unproven(self.directory)
        link = yield from reach(self.directory)
        if link is None:
            raise Unavailable(
                f"run {self.id} has no shim to send through: {self.info().evidence}",
                hint=f"holdfast recover, if {self.id} is orphaned",
            )
        with link:
            encoded = base64.b64encode(data).decode("ascii")
            asked = {"do": "send", "base64": encoded, "asked_by": list(asked_by)}
            answer = yield from link.ask(asked)
        if answer is None:
            raise Unavailable(f"the shim of run {self.id} does not answer", hint="try again")
        if answer.get("code") == "no-stdin":
            raise NoStdin(
                f"run {self.id} was started without a stdin to write to",
                hint=f"start it with {argument('pty', True)} or {argument('stdin', 'pipe')}",
            )
        if answer.get("code") == "unproven":
            raise IdentityUnproven(f"run {self.id}: {answer.get('error')}", run=self.id)
        if not answer.get("ok"):
            raise Unavailable(f"run {self.id}: {answer.get('error')}", hint="try again later")

    def output(self, since_byte: int = 0, tail: int | None = None) -> bytes:
        """What the run has written so far: from a byte on, or its last lines."""
        if since_byte < 0:
            raise WrongUse("since_byte counts from the start of the output", hint="use tail=N")
        from holdfast.run.output import read_from

        path, kept = self.directory.output_path, self.directory.first_kept_byte()
        found = read_from(path, since_byte, tail=tail, first_kept=kept)
        data = b"".join(chunk.data for chunk in found)
        self._check_known()  # after the read: of a run that is being removed, nothing is said
        return data

    def follow(self, since_byte: int = 0) -> Iterator[Chunk]:
        """The output from a byte on, as it comes, until the run has ended."""
        from holdfast.manage.reading.output_stream import OutputStream, chunks

        self._check_known()
        return chunks(OutputStream(self.directory, since_byte))

    def lines(self) -> Iterator[bytes]:
        """The output as it comes, in whole lines without newline; the last may be unfinished."""
        from holdfast.manage.reading.output_stream import Lines

        lines = Lines()
        for chunk in self.follow():
            yield from lines.of(chunk)
        yield from lines.rest()

    def _check_known(self) -> None:
        """RunNotFound, as `info` has it, when the run was removed."""
        if not self.directory.is_known():
            self.info()

    def resume(self, prompt: str | None = None) -> Run:
        """Go on with the agent's session as a new run, once the old tree is proven gone."""
        from holdfast.manage.starting.resuming import resume_steps

        return self._runs._run_of(run_steps(resume_steps(self._runs, self.directory, prompt)))

    def rerun(self, **changes: Any) -> Run:
        """The same command again, as a new run."""
        from holdfast.manage.starting.resuming import rerun_steps

        return self._runs._run_of(run_steps(rerun_steps(self._runs, self.directory, changes)))

    def remove(
        self, *, stop: bool = False, force: bool = False, discard_worktree: bool = False
    ) -> Removed:
        """Remove an ended run, as `holdfast rm` does; StillAlive while anything may be alive.

        `stop` it first; `force`: on your word, where it is not known; never what is alive.
        """
        from holdfast.manage.removal.stop_first import remove_steps

        removed: Removed = run_steps(
            remove_steps(self.directory, stop=stop, force=force, discard_worktree=discard_worktree)
        )
        return removed

    def diff(self, *, stat: bool = False, name_only: bool = False) -> Diff:
        """What a worktree run changed since its base commit, untracked files too.

        `text` is a patch; with `stat` a summary, with `name_only` the paths.
        """
        from holdfast.manage.worktrees.changes import diff_run

        diff: Diff = run_steps(diff_run(self.directory, stat=stat, name_only=name_only))
        return diff

    def discard(self, *, dry_run: bool = False) -> Discarded:
        """Give up what a worktree run changed: its worktree goes, and the branch made for it.

        StillAlive while anything may be alive. `dry_run`: only say what would be given up.
        """
        from holdfast.manage.removal.discarding import discard_run

        return discard_run(self.directory, dry_run=dry_run)

    def archive(self) -> Archived:
        """Pack an ended run into a tar.gz in the home, and remove it."""
        from holdfast.manage.removal.archive import archive_run

        return archive_run(self.directory)

    def report(self) -> Report:
        """What it used over time: figures, and `text()`, `markdown()`, `html()`."""
        from holdfast.manage.report.report import read_report

        return read_report(self.directory)
