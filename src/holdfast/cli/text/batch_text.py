"""`run --batch`: starts what the lines ask for, and tells of each in the order of the lines."""

from __future__ import annotations

from holdfast.cli import tell_error
from holdfast.cli.arguments.batch_lines import BatchLine, read_batch
from holdfast.cli.arguments.run_options import typed_options
from holdfast.cli.text import streams
from holdfast.cli.text.start_text import (
    did_not_start,
    is_ours,
    never_started,
    say_it_was_removed,
    wants_details,
    warn_of_logout,
    who,
)
from holdfast.errors import HoldfastError, RunNotFound, WrongUse
from holdfast.manage.operations import run_steps
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.starting.batch import start_many_steps
from holdfast.manage.starting.launch import preload_shims
from holdfast.manage.state import read_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.run.directory import RunDirectory
    from holdfast.run.spec import RunSpec


def run_batch(args: Namespace) -> int:
    """Start them all; the exit code is the first that is not 0, in the order of the lines."""
    _refuse_what_makes_no_sense(args)
    options = {**typed_options(args), "preset": args.preset}
    lines = read_batch(args.batch)
    source = _source(args)
    preload_shims()
    runs, notice = Runs(), streams.notices(args.quiet)
    telling = _Telling(runs, lines, args)
    steps = start_many_steps(
        runs.home,
        notice,
        [line.item for line in lines],
        name=options.pop("name", None),
        key=options.pop("key", None),
        label=lambda number: f"{source}, line {lines[number - 1].number}",
        with_config=True,
        told=telling.told,
        **options,
    )
    run_steps(steps)
    telling.finish()
    return telling.code


def _refuse_what_makes_no_sense(args: Namespace) -> None:
    if args.command:
        raise WrongUse("--batch: its lines are the commands", hint="leave out CMD, or --batch")
    if args.foreground:
        raise WrongUse("--batch: -F follows one run", hint="leave out -F; then holdfast logs -f")
    if args.batch == "-" and args.stdin == "-":
        raise WrongUse("--stdin -: stdin is the batch", hint="--batch FILE")


class _Telling:
    """Reports each start in the order of the lines."""

    def __init__(self, runs: Runs, lines: list[BatchLine], args: Namespace) -> None:
        self.code = 0
        self._runs, self._lines, self._args = runs, lines, args
        self._known: dict[int, RunDirectory | Run | HoldfastError] = {}
        self._next = 0
        self._before = 0  # that the key had already

    def told(self, place: int, started: RunDirectory | Run | HoldfastError) -> None:
        self._known[place] = started
        while self._next in self._known:
            self._tell(self._lines[self._next].number, self._known.pop(self._next))
            self._next += 1

    def _tell(self, line: int, started: RunDirectory | Run | HoldfastError) -> None:
        try:
            if isinstance(started, HoldfastError):
                raise started
            if isinstance(started, Run):
                self._tell_run_elsewhere(line, started)
            else:
                self._tell_run(line, started)
        except HoldfastError as error:
            tell_error(error, self._args, line)
            self.code = self.code or error.exit_code
        streams.flush()  # before the diagnostics of the next, also where both are one stream

    def _tell_run(self, line: int, directory: RunDirectory) -> None:
        args, spec = self._args, directory.known_spec()
        if not args.json and not args.quiet:
            streams.say(spec.name)
            streams.flush()
        try:
            self._tell_how_it_stands(line, Run(self._runs, directory.id), spec)
        except RunNotFound:
            if args.json or directory.exists():
                raise
            say_it_was_removed(args)

    def _tell_how_it_stands(self, line: int, run: Run, spec: RunSpec) -> None:
        args, facts = self._args, read_facts(run.directory)
        if did_not_start(run, spec, facts):
            raise never_started(run, spec, facts)
        if args.json:
            streams.say_json({**run.info().to_json(), "line": line})
        if args.key is not None and not is_ours(spec):
            self._before += 1
        elif wants_details(args):
            streams.complain(who(run.info()))

    def _tell_run_elsewhere(self, line: int, run: Run) -> None:
        from holdfast.cli.fleet.texts import report_start

        if not run.is_ours:  # type: ignore[attr-defined]
            self._before += 1
        report_start(run, self._args, line)  # type: ignore[arg-type]

    def finish(self) -> None:
        """What concerns all of them, once."""
        if self._args.quiet:
            return
        if not self._lines:
            streams.complain(f"there is no command in {_source(self._args)}")
        elif self._before:
            those = f"{self._before} of {len(self._lines)} were started before"
            streams.complain(f"key {self._args.key}: {those}, and are the ones given")
        warn_of_logout()


def _source(args: Namespace) -> str:
    return "stdin" if args.batch == "-" else str(args.batch)
