"""A run on another machine: `Run`'s methods, over the node's own holdfast.

Nothing is guessed: what the node does not answer is raised as NoAnswer (exit 6), or told as
`unknown` with the last facts. A wait and a follow go on when the link is back.
"""

from __future__ import annotations

from holdfast.errors import NoAnswer, WrongUse
from holdfast.fleet.reaching import (
    ask,
    ask_json,
    drop_waiting,
    leave_to_engine,
    look_steps,
    raise_refusal,
)
from holdfast.fleet.remote_info import info_from_node, refuse_resume
from holdfast.fleet.remote_output import RemoteOutput
from holdfast.fleet.remote_report import RemoteReport
from holdfast.fleet.request import RESUME, FleetRequest
from holdfast.fleet.session import error_of
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.options import OPTIONS
from holdfast.process.tree_stop import Cleanup
from holdfast.run.directory import RunDirectory
from holdfast.run.units import seconds_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from holdfast.fleet.aio import AsyncRemoteRun
    from holdfast.fleet.library import Fleet
    from holdfast.fleet.placement import Placement
    from holdfast.fleet.placer import StartAnswer
    from holdfast.fleet.reaching import Answered
    from holdfast.manage.changing.adjusting import Adjusted
    from holdfast.manage.changing.answering import GivenAnswer
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.removal.archive import Archived
    from holdfast.manage.removal.discarding import Discarded
    from holdfast.manage.removal.remove import Removed
    from holdfast.manage.report.report import Report
    from holdfast.manage.worktrees.changes import Diff
    from holdfast.run.output import Chunk

_STOP_SECONDS = 60.0  # beyond the grace


class RemoteRun(Run):
    """One run on another machine, by its placement."""

    is_elsewhere = True

    def __init__(
        self,
        fleet: Fleet,
        placement: Placement,
        *,
        fresh: StartAnswer | None = None,
        is_ours: bool = False,
    ) -> None:
        self._runs = fleet.runs
        self._fleet = fleet
        self.placement = placement
        self.start_answer = fresh  # what the node said when it was started by this call
        self.is_ours = is_ours  # started by this call, and not before

    def __repr__(self) -> str:
        return f"RemoteRun({self.id!r}, on={self.placement.target!r})"

    @property
    def id(self) -> str:
        return self.placement.id

    @property
    def directory(self) -> RunDirectory:
        """There is none here."""
        raise WrongUse(
            f"{self.placement.name} ({self.id}) is on {self.placement.where}, as are its files",
            hint="its output and its facts are read with the methods of the run",
        )

    def info(self) -> RunInfo:
        """All that is known, at one look; `unknown` with the last facts if its node is silent."""
        found: RunInfo = run_steps(self._info_steps())
        return found

    def _info_steps(self) -> Steps[RunInfo]:
        self._refresh()
        return look_steps(self._fleet, self.placement)

    def started_info(self) -> RunInfo:
        """As its node answered when it was started; else a look."""
        answer = self.start_answer
        if answer is None or answer.run is None:
            return self.info()
        return info_from_node(answer.run)

    def _refresh(self) -> None:
        """Another process may have gone on with the placement."""
        known = self._fleet.ledger.get(self.id)
        if known is not None:
            self.placement = known

    def stop(self, grace: float | str | None = None, signal: str | None = None) -> Cleanup:
        """Stop the whole tree, by its shim. LeftToEngine: that was not reached, its engine was."""
        cleanup: Cleanup = run_steps(self._stop_steps(grace, signal))
        return cleanup

    def _stop_steps(self, grace: float | str | None, signal: str | None) -> Steps[Cleanup]:
        if (yield from drop_waiting(self._fleet, self.placement)):
            return Cleanup()
        words = ["stop", self.id]
        seconds = None if grace is None else seconds_given(grace, "grace")
        if seconds is not None:
            words += ["--grace", f"{seconds:g}"]
        if signal is not None:
            words += ["--signal", signal]
        room = _STOP_SECONDS + (600.0 if seconds is None else seconds)
        try:
            answered = yield from self._ask(words, seconds=room)
        except NoAnswer as error:
            raise (yield from leave_to_engine(self._fleet, self.placement, error)) from None
        row = answered.document["runs"][0]
        if row["stop"]["error"] is not None:
            raise error_of({**row["stop"]["error"], "exit_code": answered.code})
        survivors = row["stop"]["survivors"]
        return Cleanup.from_json(
            {**(row.get("cleanup") or {"complete": True}), "survivors": survivors}
        )

    def _as_async(self) -> AsyncRemoteRun:
        """The same for an asyncio event loop."""
        from holdfast.fleet.aio import AsyncRemoteRun

        return AsyncRemoteRun(self)

    def pause(self) -> None:
        """Stop its processes where they are; a queued run is held."""
        run_steps(self._do_steps("pause"))

    def unpause(self) -> None:
        """Continue those that `pause` stopped."""
        run_steps(self._do_steps("unpause"))

    def adjust(self, **limits: Any) -> Adjusted:
        """Change limits of a run that goes on; None takes one away."""
        adjusted: Adjusted = run_steps(self._adjust_steps(limits))
        return adjusted

    def _adjust_steps(self, limits: dict[str, Any]) -> Steps[Adjusted]:
        from holdfast.manage.changing.adjusting import Adjusted

        before = (yield from self._info_steps()).wanted or {}
        words = ["adjust", self.id]
        for name, value in limits.items():
            flag = OPTIONS[name].flags[-1] if name in OPTIONS else f"--{name}"
            words += [flag, "none" if value is None else str(value)]
        after = (yield from self._ask(words)).document.get("wanted") or {}
        fields = {name: OPTIONS[name].field for name in limits}
        return Adjusted(
            {name: before.get(field) for name, field in fields.items()},
            {name: after.get(field) for name, field in fields.items()},
        )

    def approve(self, question: str) -> GivenAnswer:
        """Allow what its agent asks for; done once the agent knows."""
        done: GivenAnswer = run_steps(self._answer_steps(["approve", self.id, question]))
        return done

    def deny(self, question: str, message: str | None = None) -> GivenAnswer:
        """Refuse it; the agent is told the message."""
        more = [] if message is None else ["--message", message]
        done: GivenAnswer = run_steps(self._answer_steps(["deny", *more, self.id, question]))
        return done

    def _answer_steps(self, words: list[str]) -> Steps[GivenAnswer]:
        from holdfast.manage.changing.answering import GivenAnswer

        said = (yield from self._ask(words)).document["answered"]
        return GivenAnswer(**said)

    def send(self, data: bytes) -> None:
        """Write to the run's stdin."""
        run_steps(self._send_steps(data))

    def _send_steps(self, data: bytes) -> Steps[None]:
        import os

        # Among the words, which go over stdin: in no process list.
        yield from self._ask(["send", "--no-newline", self.id, "--", os.fsdecode(data)])

    def _do_steps(self, verb: str) -> Steps[None]:
        """A command that says nothing but whether it was done."""
        reply = yield from ask(self._fleet, self.placement, [verb, self.id])
        raise_refusal(verb, reply)

    def _ask(self, words: Sequence[str], seconds: float | None = 60.0) -> Steps[Answered]:
        return ask_json(self._fleet, self.placement, words, seconds=seconds)

    def wait(self, timeout: float | str | None = None) -> RunInfo:
        """Wait for the end, also when the link is cut meanwhile."""
        found: RunInfo = run_steps(self._wait_steps(timeout))
        return found

    def _wait_steps(
        self, timeout: float | str | None, *, attention: bool = False
    ) -> Steps[RunInfo]:
        from holdfast.fleet.waiting import wait_for_end

        return wait_for_end(self, timeout, attention=attention)

    def output(self, since_byte: int = 0, tail: int | None = None) -> bytes:
        """What the run has written so far: from a byte on, or its last lines."""
        data: bytes = run_steps(self._output_steps(since_byte, tail))
        return data

    def _output_steps(self, since_byte: int, tail: int | None) -> Steps[bytes]:
        if since_byte < 0:
            raise WrongUse("since_byte counts from the start of the output", hint="use tail=N")
        words = ["logs", "--raw", self.id]
        words += ["--since-byte", str(since_byte)] if tail is None else ["--tail", str(tail)]
        reply = yield from ask(self._fleet, self.placement, words, seconds=None)
        if reply.code:
            raise error_of({"code": "", "message": reply.errors, "exit_code": reply.code})
        return reply.output

    def follow(self, since_byte: int = 0) -> Iterator[Chunk]:
        """The output from a byte on, as it comes, until the run has ended; a cut link is mended."""
        stream = RemoteOutput(self, since_byte)
        try:
            while (chunk := run_steps(stream.next_chunk())) is not None:
                yield chunk
        finally:
            stream.close()

    def _check_known(self) -> None:
        """Its node is asked anyway."""

    def resume(self, prompt: str | None = None) -> Run:
        """Go on with the agent's session as a new run, on the same node."""
        resumed: Run = run_steps(self._resume_steps(prompt))
        return resumed

    def _resume_steps(self, prompt: str | None) -> Steps[RemoteRun]:
        if self.placement.engine == "slurm":
            refuse_resume((yield from self._info_steps()))
        request = FleetRequest(RESUME, self.placement.name, of=self.id, prompt=prompt)
        return (yield from self._again(request, None))

    def rerun(self, **changes: Any) -> Run:
        """The same command again, as a new run on the same node."""
        started: Run = run_steps(self._rerun_steps(changes))
        return started

    def _rerun_steps(self, changes: dict[str, Any]) -> Steps[RemoteRun]:
        changes = dict(changes)
        key, name = changes.pop("key", None), changes.get("name") or self.placement.name
        return self._again(FleetRequest.rerun(self.id, name, changes), key)

    def _again(self, request: FleetRequest, key: str | None) -> Steps[RemoteRun]:
        from holdfast.fleet.library import PreparedStart

        request = request.replace(
            on_node=self.placement.node,
            on_host=self.placement.node_name,
            resources=self.placement.request.get("resources") or {},
        )
        prepared = PreparedStart(self._fleet, self.placement.target, key, request)
        return self._fleet.start_steps(prepared)

    def remove(
        self, *, stop: bool = False, force: bool = False, discard_worktree: bool = False
    ) -> Removed:
        """Remove an ended run from its node, and from the ledger: its key is free."""
        removed: Removed = run_steps(self._remove_steps(stop, force, discard_worktree))
        return removed

    def _remove_steps(self, stop: bool, force: bool, discard_worktree: bool) -> Steps[Removed]:
        from holdfast.fleet.remote_removal import remove

        return remove(self, stop, force, discard_worktree)

    def diff(self, *, stat: bool = False, name_only: bool = False) -> Diff:
        """What a worktree run changed since its base commit, on its node."""
        diff: Diff = run_steps(self._diff_steps(stat, name_only))
        return diff

    def _diff_steps(self, stat: bool, name_only: bool) -> Steps[Diff]:
        from holdfast.manage.worktrees.changes import Diff

        flags = {"--stat": stat, "--name-only": name_only}
        words = ["diff", self.id, *(flag for flag, wanted in flags.items() if wanted)]
        return Diff.from_json((yield from self._ask(words, seconds=600.0)).document)

    def discard(self, *, dry_run: bool = False) -> Discarded:
        """Give up what a worktree run changed, on its node."""
        discarded: Discarded = run_steps(self._discard_steps(dry_run))
        return discarded

    def _discard_steps(self, dry_run: bool) -> Steps[Discarded]:
        from holdfast.fleet.remote_removal import discard

        return discard(self, dry_run)

    def archive(self) -> Archived:
        """Pack an ended run into a tar.gz in its node's home, and remove it there."""
        archived: Archived = run_steps(self._archive_steps())
        return archived

    def _archive_steps(self) -> Steps[Archived]:
        from holdfast.fleet.remote_removal import archive

        return archive(self)

    def report(self) -> Report:
        """What it used over time, as its node has it."""
        return RemoteReport(self._fleet, self.placement)  # type: ignore[return-value]
