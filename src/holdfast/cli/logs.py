"""`holdfast logs RUN...`: what runs have written, byte for byte unless asked otherwise."""

from __future__ import annotations

import os
import signal
import sys
import time

from holdfast.cli.arguments.selectors import RUNS, add_selectors, chosen_runs
from holdfast.cli.text import streams
from holdfast.cli.text.log_text import LinePrinter, LineText, LogFormat, Printer, ScreenPrinter
from holdfast.cli.text.terminal import is_terminal, paint
from holdfast.errors import (
    DamagedRecord,
    Failed,
    HoldfastError,
    InvalidOption,
    LaterVersion,
    WrongUse,
)
from holdfast.manage.plaintext import printable_lines
from holdfast.manage.reading.inotify import FileWatch
from holdfast.manage.reading.log_search import BLOCK_BYTES, last_hits
from holdfast.manage.reading.log_times import LogTimes
from holdfast.manage.reading.output_stream import OutputStream, consume
from holdfast.manage.runs import Runs
from holdfast.manage.together import run_together
from holdfast.process.clock import iso_time
from holdfast.run.output import OutputReader, read_from
from holdfast.run.units import clock, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.agents.pretty import PrettyPrinter
    from holdfast.cli.arguments.parser import Parser
    from holdfast.cli.text.hit_text import Grep
    from holdfast.manage.run import Run
    from holdfast.run.spec import RunSpec

_PIPE_BYTES = 256 * 1024  # of the 64 MiB that all pipes of an ordinary user may have
_NOTED_SECONDS = 30.0
_EPILOG = """\
The workload writes the log itself, without times. With -f, -t shows when a line arrived; for
earlier lines, `<=` and the time of the first sample that counts the line (every 5 s,
--sample-interval), or `-`. --since begins where the log ended at the last sample before that
time: up to one interval more is shown, never less.

On a terminal a line that was redrawn, such as a progress bar, is shown in its last state, and one
run that is followed is redrawn in place. --raw passes every byte on, as do --json and a pipe.

--grep prints the lines that match RE (Python's `re`, in UTF-8), each after the byte at which it
begins: `:` marks a hit, `-` the context that -C asks for. With --tail N the last N hits. Exit code
0 when a line matched, 1 when none did. A line over 16 MiB is searched in pieces: a note says so.

--json prints {"at_byte":N,"text":...} for each line, or "base64" where it is not UTF-8; what is
context of a hit has "context":true."""


def add_arguments(parser: Parser) -> None:
    """Which runs, from where, and how."""
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="*",
        help=f"{RUNS}; lines of several runs get the name as prefix",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the run ends")
    parser.add_argument(
        "-t",
        "--timestamps",
        action="store_true",
        help="prefix each line with its time, as far as it is known",
    )
    parser.add_argument("--since-byte", metavar="N", help="from this byte on, counted from 0")
    parser.add_argument("--since", metavar="D", help="written within this time, such as 10m")
    parser.add_argument("-n", "--tail", metavar="N", help="only the last N lines, or hits")
    parser.add_argument("--grep", metavar="RE", help="only lines that match this expression")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="with --grep: a is A too")
    parser.add_argument("-C", "--context", metavar="N", help="with --grep: N lines around it")
    parser.add_argument("--stderr", action="store_true", help="stderr of a --split-stderr run")
    parser.add_argument(
        "--pretty",
        action="store_true",
        help="render an agent's stream as text; control sequences are escaped",
    )
    parser.add_argument("--raw", action="store_true", help="every byte, on a terminal too")
    add_selectors(parser, "every active run; with --grep every run", since=False)
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Print the output, and follow it with -f."""
    start, grep = Start(args), _grep(args)
    args.since = None  # of the output, not of the runs
    _refuse_contradictions(args)
    # A search is for what has happened; what is shown whole is what is going on.
    runs = chosen_runs(args, Runs(), active=None if grep is not None else True)
    if start.byte is not None and len(runs) > 1:
        raise WrongUse("--since-byte counts in one run's output", hint="name one run")
    on_screen = is_terminal(sys.stdout) and not (args.json or args.pretty or args.raw)
    # With runs on other machines, whose lines are shown beside these, one here may be alone.
    names = len(runs) > 1 or getattr(args, "is_one_of_several", False)
    look = LogFormat(args.json, args.timestamps, args.pretty, names, on_screen)
    sources = [Source(run, args, start, grep) for run in runs]
    width = max((len(source.name) for source in sources), default=0)
    if len(runs) == 1 and not (args.quiet or args.json):
        _explain_silence(runs[0])
    _print(sources, look, width, follow=args.follow)
    return 0 if grep is None or grep.has_hit else Failed.exit_code


def _explain_silence(run: Run) -> None:
    """Before nothing is shown, or for as long as nothing comes: why that may be."""
    try:
        if os.stat(run.directory.output_path).st_size:
            return
        from holdfast.manage.reading.buffering import buffering_hint

        spec = run.directory.read_spec()
        hint = buffering_hint(run.info(), spec.env)
    except (OSError, HoldfastError):  # the reader reports what can't be read
        return
    if hint:
        streams.complain(f"{spec.name} has printed nothing yet. {hint}")


def _refuse_contradictions(args: Namespace) -> None:
    if args.json and args.pretty:
        raise WrongUse("--pretty is for people, --json for programs", hint="leave one out")
    if args.raw and args.pretty:
        raise WrongUse("--pretty changes what --raw keeps", hint="leave one out")
    if args.grep is not None and args.pretty:
        raise WrongUse(
            "--grep searches what was written, --pretty shows something else",
            hint="holdfast logs --pretty RUN | grep RE",
        )


def _let_ctrl_c_end_us() -> None:
    """`re` may search one line for hours and ask for no signal: the kernel must end us then."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _grep(args: Namespace) -> Grep | None:
    context = _number(args.context, "--context")
    if args.grep is None:
        if args.ignore_case or context is not None:
            raise WrongUse("-i and -C are about --grep", hint="add --grep RE, or leave them out")
        return None
    from holdfast.cli.text.hit_text import Grep

    _let_ctrl_c_end_us()
    return Grep(args.grep, ignore_case=args.ignore_case, context=context or 0)


def _print(sources: list[Source], look: LogFormat, width: int, *, follow: bool) -> None:
    if follow:
        _follow(sources, look, width)
        return
    for source in sources:
        printer = source.printer(look, width)
        source.print_all(printer)
        printer.end()


def _follow(sources: list[Source], look: LogFormat, width: int) -> None:
    printers = [source.printer(look, width) for source in sources]
    for source, printer in zip(sources, printers, strict=True):
        source.print_all(printer)
        printer.follow()
    streams.make_room(_PIPE_BYTES)
    watch = FileWatch(is_shared=len(sources) > 1)
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
    """Where to begin: at a byte or a time; of that, some lines before the end."""

    def __init__(self, args: Namespace) -> None:
        self.byte = _number(args.since_byte, "--since-byte")
        self.tail = _number(args.tail, "--tail")
        since = args.since
        self.at = None if since is None else time.time() - parse_duration(since, "--since")
        if self.byte is not None and (self.at is not None or self.tail is not None):
            raise WrongUse(
                "--since-byte says where to begin, as do --since and --tail", hint="use one of them"
            )


def _number(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidOption(f"{option}: {text!r} is not a number from 0 up", option=option)
    return int(text)


class Source:
    """The output of one run, and how far it was printed."""

    def __init__(self, run: Run, args: Namespace, start: Start, grep: Grep | None) -> None:
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
                f"note: {self.name} is not the run of an agent: its output is shown as it is"
            )
        self._grep = grep
        self._first_hit = 0
        self._at_byte = self._begin(start)

    def _begin(self, start: Start) -> int:
        """The byte to begin at; bytes that come later are printed all the same."""
        at_byte = start.byte or 0
        if start.at is not None and self._times is not None:
            at_byte = self._byte_at(start.at, self._times)
        if self._grep is not None:
            if start.at is not None:
                at_byte = self._lines_before(at_byte + 1, 1)  # the whole line of that byte
            return self._begin_hits(self._grep, at_byte, start.tail)
        return at_byte if start.tail is None else max(at_byte, self._lines_before(None, start.tail))

    def _begin_hits(self, grep: Grep, at_byte: int, tail: int | None) -> int:
        if tail is None:
            return at_byte
        kept = self._first_kept
        self._first_hit = last_hits(self._path, grep.pattern, tail, begin=at_byte, first_kept=kept)
        return max(at_byte, self._lines_before(self._first_hit, grep.context))

    def _lines_before(self, end: int | None, count: int) -> int:
        """Where the last lines before a byte, or of all there is, begin."""
        reader = OutputReader(self._path, first_kept=self._first_kept)
        try:
            reader.seek_tail(count, end)
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

    def printer(self, look: LogFormat, width: int) -> Printer:
        """Prints it from where it begins."""
        text = LineText(look, self.name, width=width, times=self._times)
        if self._grep is not None:
            return self._grep.printer(text, self._at_byte, self._first_hit)
        if look.on_screen:
            return ScreenPrinter(text, self._at_byte)
        if look.json or look.timestamps or look.pretty or look.names:
            return LinePrinter(text, self._at_byte, pretty=self._pretty())
        return Printer(text)

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
        found = read_from(
            self._path, self._at_byte, first_kept=self._first_kept, most_bytes=BLOCK_BYTES
        )
        for chunk in found:
            self._at_byte = chunk.at_byte + len(chunk.data)
            printer.take(chunk)

    def stream(self, watch: FileWatch) -> OutputStream:
        """What comes after that."""
        return OutputStream(
            self._directory,
            self._at_byte,
            path=self._path,
            watch=watch,
            most_bytes=BLOCK_BYTES,
        )


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
