"""`holdfast logs RUN...`: what runs have written, byte for byte unless asked otherwise."""

from __future__ import annotations

import time

from holdfast.cli import streams
from holdfast.cli.log_lines import Look, Printer
from holdfast.cli.selectors import add_selectors, chosen_runs
from holdfast.cli.terminal import paint
from holdfast.errors import DamagedRecord, HoldfastError, InvalidOption, LaterVersion, WrongUse
from holdfast.manage.following import OutputStream, consume
from holdfast.manage.log_times import LogTimes
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.runs import Runs
from holdfast.manage.steps import run_together
from holdfast.manage.units import clock
from holdfast.manage.watching import Watch
from holdfast.process.clock import iso_time
from holdfast.run.output import OutputReader, read_from
from holdfast.run.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.agents.pretty import PrettyPrinter
    from holdfast.cli.parser import Parser
    from holdfast.manage.runs import Run
    from holdfast.run.spec import RunSpec

_NOTED_SECONDS = 30.0
_EPILOG = """\
The log is the workload's own file: no times are written into it. -t shows the time at which a
line came while you follow (-f); for what was there before, `<=` and the time of the first sample
that counts it (every 5 s, --sample-interval), or `-`. --since begins where the log ended at the
last sample before that time: up to one interval more is shown, never less.

--json prints {"at_byte":N,"text":...} for each line, or "base64" where it is not UTF-8."""


def add_arguments(parser: Parser) -> None:
    """Which runs, from where, and how."""
    parser.add_argument("run", metavar="RUN", nargs="*", help="names or ids; several get a prefix")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the end")
    parser.add_argument("-t", "--timestamps", action="store_true", help="when, as far as is known")
    parser.add_argument("--since-byte", metavar="N", help="from this byte on, counted from 0")
    parser.add_argument("--since", metavar="D", help="written within this time, such as 10m")
    parser.add_argument("--tail", metavar="N", help="the last N lines")
    parser.add_argument("--stderr", action="store_true", help="stderr of a --split-stderr run")
    parser.add_argument(
        "--pretty", action="store_true", help="make an agent's stream readable, and harmless"
    )
    add_selectors(parser, "every active run", since=False)
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print it, and go on printing with -f."""
    start = Start(args)
    args.since = None  # of the output, not of the runs
    runs = chosen_runs(args, Runs())
    look = Look(args.json, args.timestamps, args.pretty, len(runs) > 1)
    if args.json and args.pretty:
        raise WrongUse("--pretty is for people, --json for programs", hint="leave one out")
    if start.byte is not None and len(runs) > 1:
        raise WrongUse("--since-byte counts in one run's output", hint="name one run")
    sources = [Source(run, args, start) for run in runs]
    width = max((len(source.name) for source in sources), default=0)
    if args.follow:
        _follow(sources, look, width)
    else:
        for source in sources:
            printer = source.printer(look, width)
            source.print_all(printer)
            printer.end()
    return 0


def _follow(sources: list[Source], look: Look, width: int) -> None:
    printers = [source.printer(look, width) for source in sources]
    for source, printer in zip(sources, printers, strict=True):
        source.print_all(printer)
        printer.follow()
    watch = Watch(is_shared=len(sources) > 1)
    operations = [
        consume(source.stream(watch), printer.take)
        for source, printer in zip(sources, printers, strict=True)
    ]
    try:
        for error in run_together(operations):
            if isinstance(error, HoldfastError):
                raise error
    finally:
        watch.close()
    for printer in printers:
        printer.end()


class Start:
    """Where to begin: at a byte, some lines before the end, or at a time."""

    def __init__(self, args: Namespace) -> None:
        self.byte = _number(args.since_byte, "--since-byte")
        self.tail = _number(args.tail, "--tail")
        since = args.since
        self.at = None if since is None else time.time() - parse_duration(since, "--since")
        if sum(one is not None for one in (self.byte, self.tail, self.at)) > 1:
            raise WrongUse(
                "--since-byte, --since and --tail each say where to begin", hint="use one of them"
            )


def _number(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidOption(f"{option}: {text!r} is not a number from 0 up", option=option)
    return int(text)


class Source:
    """The output of one run, and how far it was printed."""

    def __init__(self, run: Run, args: Namespace, start: Start) -> None:
        self._directory = run.directory
        spec = _readable_spec(run)
        self.name = run.id if spec is None else spec.name
        self._agent = spec.agent if spec is not None and args.pretty else None
        self._path = _stderr_of(run, spec) if args.stderr else run.directory.output_path
        self._first_kept = run.directory.first_kept_byte(self._path)
        self._times: LogTimes | None = None
        if args.timestamps or start.at is not None:
            self._times = LogTimes(run.directory, self._path)
        if args.pretty and self._agent is None:
            streams.complain(
                f"note: {self.name} is of no known agent: its lines are shown as they are"
            )
        self._at_byte = self._begin(start)

    def _begin(self, start: Start) -> int:
        """The byte to begin at; bytes that come later are printed all the same."""
        if start.at is not None and self._times is not None:
            return self._byte_at(start.at, self._times)
        reader = OutputReader(self._path, start.byte or 0, first_kept=self._first_kept)
        try:
            if start.tail is not None:
                reader.seek_tail(start.tail)
            return reader.at_byte
        finally:
            reader.close()

    def _byte_at(self, at: float, times: LogTimes) -> int:
        at_byte, seen = times.byte_at(at)
        if seen is not None and at - seen > _NOTED_SECONDS:
            streams.complain(
                f"note: {self.name}: shown from {clock(iso_time(seen), time.time())} on, the"
                " last time before that of which it is known how long the output was"
            )
        return at_byte

    def printer(self, look: Look, width: int) -> Printer:
        """Prints it from where it begins."""
        return Printer(
            look,
            self.name,
            width=width,
            at_byte=self._at_byte,
            times=self._times,
            pretty=self._pretty(),
        )

    def _pretty(self) -> PrettyPrinter | None:
        if self._agent is None:
            return None
        from holdfast.agents.loader import load_profile
        from holdfast.agents.pretty import PrettyPrinter

        wants_colour = paint(" ", "dim") != " "
        profile = load_profile(self._agent)
        return PrettyPrinter(profile, colour=wants_colour, plain=printable_lines)

    def print_all(self, printer: Printer) -> None:
        """All that there is now."""
        for chunk in read_from(self._path, self._at_byte, first_kept=self._first_kept):
            self._at_byte = chunk.at_byte + len(chunk.data)
            printer.take(chunk)

    def stream(self, watch: Watch) -> OutputStream:
        """What comes after that."""
        return OutputStream(self._directory, self._at_byte, path=self._path, watch=watch)


def _readable_spec(run: Run) -> RunSpec | None:
    """The spec; None for one of a later version or a damaged one: its output can be shown."""
    try:
        return run.directory.read_spec()
    except (LaterVersion, DamagedRecord) as error:
        streams.complain(f"note: {error}")
        return None


def _stderr_of(run: Run, spec: RunSpec | None) -> str:
    if spec is not None and not spec.wanted.split_stderr:
        raise WrongUse(
            f"{spec.name} has its stderr and stdout in one log",
            hint=f"holdfast logs {spec.name}; `run --split-stderr` keeps them apart",
        )
    return run.directory.stderr_path
