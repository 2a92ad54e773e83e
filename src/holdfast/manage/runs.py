"""Many runs: start, get, list, wait, follow. The library that every interface calls.

It leaves no child to reap, installs no signal handler, starts no thread. A failed run is a
value; what is raised is what could not be done.
"""

from __future__ import annotations

from holdfast.errors import NoStdin, Unavailable, WrongUse
from holdfast.manage.request import StartRequest, check_tags
from holdfast.manage.starting import start_run
from holdfast.manage.steps import run_steps
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from holdfast.manage.events import Event
    from holdfast.manage.info import RunInfo
    from holdfast.manage.recovery import Recovered
    from holdfast.manage.steps import Steps
    from holdfast.process.tree import Cleanup
    from holdfast.run.output import Chunk

    Infos = list[RunInfo]  # inside the class, `list` is its own method
    Findings = list[Recovered]


def _log_notice(text: str) -> None:
    import logging

    logging.getLogger("holdfast").warning("%s", text)


class Runs:
    """The runs of one state directory. `tags` are given to every start and limit every list."""

    def __init__(
        self,
        home: str | PathLike[str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
        notice: Callable[[str], None] = _log_notice,
    ) -> None:
        self.home = Home.locate(home)
        self.tags = check_tags(tags)
        self._notice = notice

    def start(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        key: str | None = None,
        stdin: str | PathLike[str] | bytes | None = None,
        replace: bool = False,
        **options: Any,
    ) -> Run:
        """Start a supervised run; returns when the command runs, or has failed to start."""
        steps = self.start_steps(argv, name=name, key=key, stdin=stdin, replace=replace, **options)
        return self.run_of(run_steps(steps))

    def start_steps(self, argv: Sequence[str], **options: Any) -> Steps[RunDirectory]:
        """The same as an operation that both kinds of caller can drive."""
        options["tags"] = {**self.tags, **check_tags(options.get("tags"))}
        return start_run(self.home, StartRequest(argv, **options), self._notice)

    def get(self, ref: str) -> Run:
        """A run by name, id, or the beginning of an id."""
        from holdfast.run.references import resolve

        self.home.check()
        return Run(self, resolve(self.home, ref))

    def list(
        self,
        *,
        active: bool | None = None,
        outcome: str | None = None,
        tags: Mapping[str, str] | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> Infos:
        """Runs, newest first. `since`: seconds since the epoch; ended before that is left out."""
        from holdfast.manage.listing import list_runs

        wanted = {**self.tags, **(tags or {})}
        return list_runs(
            self.home, active=active, outcome=outcome, tags=wanted, since=since, limit=limit
        )

    def wait(
        self,
        runs: Sequence[Run | str],
        *,
        any: bool = False,  # noqa: A002 - the contract's word
        timeout: float | None = None,
    ) -> Infos:
        """Wait until all of the runs (or one) have ended; in the order given."""
        infos: Infos = run_steps(self.wait_steps(runs, any_of=any, timeout=timeout))
        return infos

    def wait_steps(
        self, runs: Sequence[Run | str], *, any_of: bool, timeout: float | None
    ) -> Steps[Infos]:
        from holdfast.manage.waiting import wait_for_runs

        directories = [(run if isinstance(run, Run) else self.get(run)).directory for run in runs]
        return wait_for_runs(directories, any_of=any_of, timeout=timeout)

    def events(self, since: str | None = None, follow: bool = True) -> Iterator[Event]:
        """The facts of all runs, oldest first, each with a cursor to go on from."""
        from holdfast.manage.events import all_events

        return all_events(self.home, since=since, follow=follow, tags=self.tags)

    def recover(self, *, dry_run: bool = False) -> Findings:
        """Look at every run whose shim is gone: adopt, record, or say unknown."""
        from holdfast.manage.recovery import recover_all

        found: Findings = run_steps(recover_all(self.home, dry_run=dry_run))
        return found

    def run_of(self, directory: RunDirectory) -> Run:
        return Run(self, directory.id)


class Run:
    """One run, by its id. Holds nothing open: look as often as you like."""

    def __init__(self, runs: Runs, run_id: str) -> None:
        self._runs = runs
        self.directory = RunDirectory(runs.home, run_id)

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def id(self) -> str:
        return self.directory.id

    def info(self) -> RunInfo:
        """All that is known, at one look."""
        from holdfast.manage.info import read_run

        return read_run(self.directory)

    def wait(self, timeout: float | None = None) -> RunInfo:
        """Wait for the end; the info of a run that has not ended when the time is up."""
        return self._runs.wait([self], timeout=timeout)[0]

    def stop(self, grace: float | None = None, signal: str | None = None) -> Cleanup:
        """Stop the whole tree; over when it is empty. Of a run that has ended, what it left."""
        from holdfast.manage.stopping import stop_run
        from holdfast.process.tree import Cleanup

        stopped = run_steps(stop_run(self.directory, grace_seconds=grace, signal=signal))
        return stopped.cleanup or Cleanup()

    def send(self, data: bytes) -> None:
        """Write to the run's stdin."""
        run_steps(self.send_steps(data))

    def send_steps(self, data: bytes) -> Steps[None]:
        import base64

        from holdfast.manage.link import reach
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
            answer = yield from link.ask({"do": "send", "base64": encoded})
        if answer is None:
            raise Unavailable(f"the shim of run {self.id} does not answer", hint="try again")
        if answer.get("code") == "no-stdin":
            raise NoStdin(
                f"run {self.id} was started without a stdin to write to",
                hint="start it with --pty or --stdin pipe",
            )
        if not answer.get("ok"):
            raise Unavailable(f"run {self.id}: {answer.get('error')}", hint="try again later")

    def output(self, since_byte: int = 0, tail: int | None = None) -> bytes:
        """What the run has written so far: from a byte on, or its last lines."""
        if since_byte < 0:
            raise WrongUse("since_byte counts from the start of the output", hint="use tail=N")
        from holdfast.run.output import read_from

        path, kept = self.directory.output_path, self.directory.first_kept_byte()
        found = read_from(path, since_byte, tail=tail, first_kept=kept)
        return b"".join(chunk.data for chunk in found)

    def follow(self, since_byte: int = 0) -> Iterator[Chunk]:
        """The output from a byte on, as it comes, until the run has ended."""
        from holdfast.manage.following import OutputStream, chunks

        return chunks(OutputStream(self.directory, since_byte))

    def lines(self) -> Iterator[bytes]:
        """The same as whole lines without their newline; the last may be unfinished."""
        from holdfast.manage.following import Lines

        lines = Lines()
        for chunk in self.follow():
            yield from lines.of(chunk)
        yield from lines.rest()

    def is_over(self) -> bool:
        """Whether nothing more will be written: an ending is recorded, or nobody is alive."""
        return not self.info().is_active

    def resume(self, prompt: str | None = None) -> Run:
        """Go on with the agent's session as a new run, once the old tree is proven gone."""
        from holdfast.manage.resuming import resume_steps

        return self._runs.run_of(run_steps(resume_steps(self._runs, self.directory, prompt)))

    def rerun(self, **changes: Any) -> Run:
        """The same command again, as a new run."""
        from holdfast.manage.resuming import rerun_steps

        return self._runs.run_of(run_steps(rerun_steps(self._runs, self.directory, changes)))
