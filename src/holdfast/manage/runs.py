"""Many runs: start, get, list, wait, follow. The library that every interface calls.

It leaves no child to reap, installs no signal handler, starts no thread. A failed run is a
value; what is raised is what could not be done.
"""

from __future__ import annotations

from holdfast.errors import RunNotFound
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.manage.starting.request import StartRequest, check_tags
from holdfast.manage.starting.start import start_run
from holdfast.options import PLACING
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from holdfast.errors import HoldfastError
    from holdfast.manage.doctor.checks import Diagnosis
    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.queueing.view import QueueInfo
    from holdfast.manage.reading.events import Event
    from holdfast.manage.recovery import Recovered
    from holdfast.manage.removal.retention import Cleaned
    from holdfast.manage.selection import Either, Tags
    from holdfast.manage.usage.totals import Usage

    Infos = list[RunInfo]  # inside the class, `list` is its own method
    Findings = list[Recovered]
    Removals = list[Cleaned]
    Started = list["Run | HoldfastError"]
    Queues = list[QueueInfo]


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
        steps = self._start_steps(argv, name=name, key=key, stdin=stdin, replace=replace, **options)
        return self._run_of(run_steps(steps))

    def _start_steps(self, argv: Sequence[str], **options: Any) -> Steps[RunDirectory | Run]:
        """The same as an operation that both kinds of caller can drive."""
        preset = options.pop("preset", None)
        if preset is not None:
            from holdfast.manage.starting.config import layered, preset_names

            options = layered(options, preset_names(preset))
        if any(options.get(name) is not None for name in PLACING):
            from holdfast.manage.starting.elsewhere import start_elsewhere

            options["tags"] = {**self.tags, **check_tags(options.get("tags"))}
            return start_elsewhere(self, argv, options)
        return self._start_here(argv, **options)

    def _start_here(self, argv: Sequence[str], **options: Any) -> Steps[RunDirectory]:
        """On this machine."""
        options["tags"] = {**self.tags, **check_tags(options.get("tags"))}
        return start_run(self.home, StartRequest(argv, **options), self._notice)

    def start_many(
        self,
        requests: Sequence[Sequence[str] | Mapping[str, Any]],
        *,
        name: str | None = None,
        key: str | None = None,
        **defaults: Any,
    ) -> Started:
        """Start several runs: each one's run, or its error, in the order given.

        A request is a command's words, or a mapping of `start`'s keywords with `argv` (or
        `command`); `defaults` hold where it does not say otherwise. What can't be used is raised
        before anything is started. `name` is numbered. With a `key` the call can be repeated: what
        was started before is returned, not started again.
        """
        steps = self._start_many_steps(requests, name=name, key=key, **defaults)
        return [
            self._run_of(started) if isinstance(started, RunDirectory) else started
            for started in run_steps(steps)
        ]

    def _start_many_steps(self, requests: Sequence[Any], **given: Any) -> Steps[Any]:
        from holdfast.manage.starting.batch import start_many_steps

        given["tags"] = {**self.tags, **check_tags(given.get("tags"))}
        return start_many_steps(self.home, self._notice, requests, **given)

    def get(self, ref: str) -> Run:
        """A run by name, id, or the beginning of an id; here, or placed elsewhere from here."""
        from holdfast.manage.starting.elsewhere import fleet, has_shared_ledger, leads_elsewhere
        from holdfast.run.references import resolve

        self.home.check()
        if leads_elsewhere(self.home):
            return fleet().find(self, ref)
        try:
            return Run(self, resolve(self.home, ref))
        except RunNotFound:
            if not has_shared_ledger():
                raise
            return fleet().find(self, ref)

    def list(
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
        """Runs, newest first. `since`: seconds since the epoch; ended before that is left out.

        A selector is a text, or several of which any will do; `name` is a glob; a tag of None has
        any value. Different selectors must all hold.
        """
        from holdfast.manage.listing import list_runs
        from holdfast.manage.selection import Selection

        selection = Selection.of(
            active=active,
            state=state,
            outcome=outcome,
            agent=agent,
            name=name,
            tags={**self.tags, **(tags or {})},
            since=since,
        )
        return list_runs(self.home, selection, limit=limit)

    def wait(
        self,
        runs: Sequence[Run | str],
        *,
        any: bool = False,  # noqa: A002 - the contract's word
        attention: bool = False,
        timeout: float | str | None = None,
    ) -> Infos:
        """Wait until all of the runs (or one) have ended; in the order given.

        `attention`: or until one of them needs a person.
        """
        infos: Infos = run_steps(
            self._wait_steps(runs, any_of=any, attention=attention, timeout=timeout)
        )
        return infos

    def _wait_steps(
        self,
        runs: Sequence[Run | str],
        *,
        any_of: bool,
        attention: bool,
        timeout: float | str | None,
    ) -> Steps[Infos]:
        from holdfast.manage.waiting import wait_for_runs

        found = [run if isinstance(run, Run) else self.get(run) for run in runs]
        if any(run.is_elsewhere for run in found):
            from holdfast.manage.starting.elsewhere import fleet

            return fleet().wait_steps(found, any_of=any_of, attention=attention, timeout=timeout)
        directories = [run.directory for run in found]
        return wait_for_runs(directories, any_of=any_of, attention=attention, timeout=timeout)

    def events(self, since: str | None = None, follow: bool = True) -> Iterator[Event]:
        """The facts of all runs, oldest first, each with a cursor to go on from."""
        from holdfast.manage.reading.events import all_events

        return all_events(self.home, since=since, follow=follow, tags=self.tags)

    def recover(self, *, dry_run: bool = False, resume_lost: bool = False) -> Findings:
        """Look at every run whose shim is gone: adopt, record, or say unknown.

        `resume_lost`: go on with agents that a reboot ended, each once.
        """
        steps = self._recover_steps(dry_run=dry_run, resume_lost=resume_lost)
        found: Findings = run_steps(steps)
        return found

    def _recover_steps(self, *, resume_lost: bool, **word: Any) -> Steps[Findings]:
        from holdfast.manage.recovery import recover_all

        if not resume_lost:
            return recover_all(self.home, **word)
        from holdfast.manage.starting.resuming_lost import recover_and_resume

        return recover_and_resume(self, **word)

    def clean(
        self,
        *,
        keep: int | None = None,
        older_than: float | str | None = None,
        max_bytes: int | str | None = None,
        dry_run: bool = False,
    ) -> Removals:
        """Remove ended runs over a limit; without any, over those of config.toml.

        Only the runs within the scope of `tags` are counted, and removed.
        """
        from holdfast.manage.removal.retention import clean, limits
        from holdfast.manage.selection import Selection

        rules = limits(keep, older_than, max_bytes)
        return clean(self.home, rules, dry_run=dry_run, among=Selection.of(tags=self.tags))

    def usage(self, *, since: float | None = None, by: str | None = None) -> Usage:
        """Tokens, cost and CPU time; `since` as in `list`, `by`: agent, tag or day."""
        from holdfast.manage.usage.totals import usage_of

        return usage_of(self.home, self.tags, since=since, by=by)

    def doctor(self, *, agents: bool = False) -> Diagnosis:
        """What this machine can prove and enforce, tried by a process of its own."""
        diagnosis: Diagnosis = run_steps(self._doctor_steps(agents))
        return diagnosis

    def _doctor_steps(self, agents: bool) -> Steps[Diagnosis]:
        from holdfast.manage.doctor.checks import read_diagnosis
        from holdfast.manage.starting.launch import examine_apart

        return read_diagnosis((yield from examine_apart(self.home.path, agents)))

    def queues(self) -> Queues:
        """Every queue of the home: its limit, which runs are active, which wait and why."""
        from holdfast.manage.queueing.view import list_queues

        self.home.check()
        return list_queues(self.home)

    def _run_of(self, started: RunDirectory | Run) -> Run:
        return started if isinstance(started, Run) else Run(self, started.id, started)
