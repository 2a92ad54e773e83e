"""The command line: finds the command, loads only that one, and renders every error in one place.

Each command is a module with `add_arguments(parser)` and `run(args) -> exit code`; it raises
HoldfastError instead of printing errors. What is written here about a command is all that
`holdfast --help` needs, so that nothing else is imported.
"""

import gc
import os
import sys

from holdfast import importing  # noqa: F401 - first: it finds what is imported below
from holdfast.cli.arguments.fast_args import read_quickly
from holdfast.cli.text import streams
from holdfast.errors import (
    AlreadyRunning,
    Bug,
    Failed,
    HoldfastError,
    Unavailable,
    WrongUse,
    as_our_error,
    name_options,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import NoReturn

    from holdfast.cli.arguments.parser import Parser
else:
    import _signal as signal  # without the enums, which every command would pay for

INTERRUPTED = 130  # 128 + SIGINT
OWN_FAILURE = 125  # Holdfast's own failures, where the exit code is a run's
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python makes of the C locale
BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell shows it for any other program

GROUPS = {
    "runs": "Start runs and look at them",
    "acting": "Act on runs",
    "upkeep": "Maintenance",
    "live": "Live views",
    "identity": "Processes and pid files, without a run",
    "machine": "This machine",
    "fleet": "Other machines",
}

# name: (module in this package, one line of help, group)
COMMANDS: "dict[str, tuple[str, str, str]]" = {
    "run": ("run", "start a command as a supervised run", "runs"),
    "ls": ("ls", "list runs: the active ones and those of the last 24 hours", "runs"),
    "status": ("status", "everything known about a run, with evidence", "runs"),
    "tree": ("tree", "a run's processes, each with its verdict", "runs"),
    "logs": ("logs", "a run's output, byte-exact; -f follows it", "runs"),
    "result": ("result", "an agent's final answer", "runs"),
    "diff": ("worktrees.diff", "what a worktree run changed since it began", "runs"),
    "events": ("events", "facts about one or all runs as JSON lines", "runs"),
    "queue": ("waiting.queue", "what waits, in which order and why; limits and pauses", "acting"),
    "pause": ("waiting.pause", "stop a run's processes where they are", "acting"),
    "unpause": ("waiting.unpause", "continue what `pause` stopped", "acting"),
    "adjust": ("changing.adjust", "change the limits of a run that goes on", "acting"),
    "approve": ("changing.approve", "let an agent do what it asks permission for", "acting"),
    "deny": ("changing.deny", "refuse what an agent asks permission for", "acting"),
    "wait": ("wait", "wait for runs to end; exit with their code", "acting"),
    "stop": ("stop", "stop a run's whole tree", "acting"),
    "send": ("send", "write to a run's stdin", "acting"),
    "attach": ("attach", "join the terminal of a --pty run", "acting"),
    "resume": ("resume", "continue an agent's session", "acting"),
    "rerun": ("rerun", "the same command again as a new run", "acting"),
    "discard": ("worktrees.discard", "give up what a worktree run changed", "acting"),
    "recover": ("recover", "look at runs whose shim is gone: adopt or record", "upkeep"),
    "rm": ("rm", "remove ended runs", "upkeep"),
    "archive": ("archive", "pack ended runs into archives", "upkeep"),
    "clean": ("clean", "remove old runs by age, number or size", "upkeep"),
    "report": ("report", "a run's samples and anomalies as text, picture or page", "upkeep"),
    "usage": ("usage", "tokens, cost and CPU time in total", "upkeep"),
    "top": ("live.top", "live terminal screen", "live"),
    "serve": ("live.serve", "live web page and API on loopback", "live"),
    "metrics": ("live.metrics", "figures of all runs as Prometheus text", "live"),
    "mcp": ("live.mcp", "MCP server on stdio: runs for agents", "live"),
    "who": ("identity.who", "the identity token of a process", "identity"),
    "check": (
        "identity.check",
        "whether a token or pid file still names the same process",
        "identity",
    ),
    "signal": (
        "identity.signal",
        "signal a process, only if it is proven to be the same",
        "identity",
    ),
    "guard": ("identity.guard", "run a command as the only instance of a pid file", "identity"),
    "doctor": ("doctor", "test what this machine can prove and enforce", "machine"),
    "completion": ("completion", "shell completion for bash, zsh or fish", "machine"),
    "fleet": ("fleet.fleet", "other machines: nodes, check, recover, export, give-up", "fleet"),
}


class Asked:
    """The options that hold for every command, as far as they are known when something fails."""

    def __init__(self) -> None:
        self.json = False
        self.quiet = False
        self.verbose = False
        self.exits_as_run = False


def program(*, heed_interrupts: bool = False) -> "NoReturn":
    """The program. It leaves at once: taking the interpreter apart is 3 ms of every call.

    Where somebody waits for that, or the output did not arrive, it exits as any program does.
    `heed_interrupts`: SIGINT has its default action so far.
    """
    _heed_children()
    if os.environ.get("LC_CTYPE") in _COERCED:
        from holdfast.cli.given_locale import give_locale_back

        give_locale_back()
    if heed_interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main()
    if streams.are_flushed() and not _is_awaited():
        os._exit(code)
    sys.exit(code)


def _heed_children() -> None:
    """Whoever started us may ignore SIGCHLD, and we inherit that: the exit code of git, which says
    whether there is work to lose, would read as 0."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _is_awaited() -> bool:
    """Whether the interpreter's exit has work to do: handlers, threads, a debugger or profiler."""
    if "threading" in sys.modules or sys.gettrace() or sys.getprofile() or sys.flags.inspect:
        return True
    if "atexit" not in sys.modules:  # coverage and `logging` have it
        return False
    import atexit

    return bool(atexit._ncallbacks())


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command and return its exit code. Never raises."""
    words = list(sys.argv[1:] if argv is None else argv)
    asked = Asked()
    try:
        streams.prepare()
        name_options()
        code = _run_or_render(words, asked)
        streams.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except streams.OutputLost as lost:
        streams.abandon_output()
        if lost.is_quiet:
            return BROKEN_PIPE
        streams.complain(f"holdfast: the output can't be written: {lost}")
        return _code(Failed.exit_code, asked)
    except OSError as error:  # even the error could not be rendered: out of descriptors
        streams.complain(f"holdfast: {error.strerror}")
        return _code(Unavailable.exit_code, asked)


def _run_or_render(words: list[str], asked: Asked) -> int:
    try:
        return _dispatch(words, asked)
    except HoldfastError as error:
        return _render(error, asked)
    except streams.OutputLost:
        raise
    except Exception as error:  # noqa: BLE001 - the last line: a fault becomes exit 70
        hint = "the same command with -v shows where; please report that"
        return _render(as_our_error(error, hint), asked)


def _dispatch(words: list[str], asked: Asked) -> int:
    rest = _take_leading_options(words, asked)
    if not rest and asked.json:
        raise WrongUse("which command?", hint="`holdfast --help` lists them")
    if not rest:
        streams.complain(_overview())
        return WrongUse.exit_code
    verb, *words = rest
    if verb in ("-h", "--help") or (verb == "help" and not words):
        streams.say(_overview())
        return 0
    if verb in ("-V", "--version"):
        return _version(asked)
    if verb == "help":
        verb, words = words[0], ["--help"]
    if verb.startswith("-"):
        from holdfast.cli.arguments.parser import unknown

        asked.json = asked.json or "--json" in words
        raise unknown("option", verb, ("--json", "--quiet", "--verbose", "--help", "--version"))
    if verb == "__complete":
        from holdfast.cli.complete import run

        return run(words)
    if verb not in COMMANDS:
        from holdfast.cli.arguments.parser import unknown_command

        asked.json = asked.json or "--json" in words
        raise unknown_command(verb, available())
    return _run_command(verb, words, asked)


def _take_leading_options(words: list[str], asked: Asked) -> list[str]:
    """Remove the options before the command, such as `--json` or `-qv`."""
    for position, word in enumerate(words):
        letters = set(word[1:]) if word[:1] == "-" and len(word) > 1 else set()
        if word == "--json":
            asked.json = True
        elif word in ("--quiet", "--verbose") or (letters and letters <= {"q", "v"}):
            asked.quiet |= word == "--quiet" or (word[1] != "-" and "q" in letters)
            asked.verbose |= word == "--verbose" or (word[1] != "-" and "v" in letters)
        else:
            return words[position:]
    return []


def _run_command(verb: str, words: list[str], asked: Asked) -> int:
    gc.disable()  # imports make no garbage, and collecting would double their time
    if verb != "run":
        return _read_and_run(verb, words, asked)
    from holdfast.manage.starting.launch import discard_preforked_shim, prefork_shim

    # A fork is safe here: there is one thread. What is not loaded yet and both processes need, each
    # of them loads for itself, at the same time.
    prefork_shim()
    try:
        return _read_and_run(verb, words, asked)
    finally:
        discard_preforked_shim()  # the words were wrong, or it was not needed


def _read_and_run(verb: str, words: list[str], asked: Asked) -> int:
    before = asked.json
    asked.json = before or "--json" in words  # until the command's own words are known
    module = command_module(verb)
    asked.json = before
    args = read_quickly(verb, module.add_arguments, words, asked)
    if args is None:
        asked.json = before or "--json" in words
        parser, module = load(verb)
        options, rest = parser.split(words)
        asked.json = before or "--json" in options
        asked.verbose = asked.verbose or "-v" in options or "--verbose" in options
        try:
            args = parser.read(options, rest, asked)
        except SystemExit:  # --help was printed
            return 0
    asked.json, asked.quiet, asked.verbose = args.json, args.quiet, args.verbose
    asked.exits_as_run = getattr(module, "EXITS_AS_RUN", getattr(args, "foreground", False))
    if args.json and not getattr(module, "JSON", True):
        raise refuse_json(verb)
    if not getattr(module, "IS_BRIEF", False):
        gc.enable()
    if getattr(args, "run", None) and not getattr(module, "KNOWS_FLEET", False):
        code = _pass_on(verb, module, args)
        if code is not None:
            return code
    return module.run(args)


def _pass_on(verb: str, module: "Module", args: "Namespace") -> "int | None":
    """The exit code of a command about runs elsewhere; None: they are here."""
    from holdfast.manage.starting.elsewhere import may_be_elsewhere

    if not may_be_elsewhere([args.run] if isinstance(args.run, str) else args.run):
        return None
    from holdfast.cli.fleet.passing import pass_on

    return pass_on(verb, module, args)


def load(verb: str) -> "tuple[Parser, Module]":
    """A command's parser and module; imports that module alone."""
    from holdfast.cli.arguments.parser import Parser

    module = command_module(verb)
    parser = Parser(verb, COMMANDS[verb][1])
    module.add_arguments(parser)
    parser.add_common_arguments()
    return parser, module


def available() -> list[str]:
    """The commands of this installation, in the table's order."""
    here = os.path.dirname(__file__)
    files = {verb: f"{here}/{name.replace('.', '/')}.py" for verb, (name, *_) in COMMANDS.items()}
    return [verb for verb, file in files.items() if os.path.exists(file)]


def refuse_json(what: str) -> WrongUse:
    """The error for `--json` where a document makes no sense."""
    return WrongUse(
        f"{what} has no JSON form",
        hint="leave out --json; `holdfast status --json` and `logs --json` have one",
    )


def command_module(verb: str) -> "Module":
    """The module of a command; imports that one alone."""
    path = f"{__name__}.{COMMANDS[verb][0]}"
    try:
        module: Module = __import__(path, fromlist=["run"])
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise WrongUse(f"this version of Holdfast has no command {verb}") from None
    return module


def _version(asked: Asked) -> int:
    from holdfast import __version__

    if asked.json:
        streams.say_json({"schema": 1, "version": __version__})
    else:
        streams.say(f"holdfast {__version__}")
    return 0


def _overview() -> str:
    present = available()
    lines = [
        "usage: holdfast [--json] [-q] [-v] COMMAND ...",
        "",
        "Starts long commands, supervises them, and always tells the truth about them.",
    ]
    for group, title in GROUPS.items():
        rows = [(verb, COMMANDS[verb][1]) for verb in present if COMMANDS[verb][2] == group]
        if rows:
            lines += ["", f"{title}:", *(f"  {verb:<11} {text}" for verb, text in rows)]
    lines += [
        "",
        "Everywhere:",
        "  --json      one JSON document on stdout, errors too",
        "  -q, -v      say less; say more",
        "  --version   print the version",
        "",
        "holdfast COMMAND --help says more about one.",
    ]
    return "\n".join(lines)


def tell_error(error: HoldfastError, asked: "Asked | Namespace", line: "int | None" = None) -> None:
    """The one place where an error becomes text or JSON; `line`: of a batch."""
    if asked.json:
        more = {} if line is None else {"line": line}
        streams.say_json({**error.to_json(), **error.fields.get("document", {}), **more})
    elif not (asked.quiet and isinstance(error, AlreadyRunning)):  # its code says all
        streams.complain_of(error, "" if line is None else f"line {line}: ")
    if asked.verbose and isinstance(error, Bug):
        from holdfast.tracebacks import traceback_text

        streams.complain(traceback_text(error.__cause__ or error).rstrip())


def _render(error: HoldfastError, asked: Asked) -> int:
    tell_error(error, asked)
    return _code(error.exit_code, asked)


def _code(code: int, asked: Asked) -> int:
    """Holdfast's own failures must not look like the workload's 1, 6 or 70."""
    own = (Failed.exit_code, Unavailable.exit_code, Bug.exit_code)
    return OWN_FAILURE if asked.exits_as_run and code in own else code


if TYPE_CHECKING:
    from typing import Protocol

    class Module(Protocol):
        """What a command's module has. `JSON = False` refuses `--json`; `IS_BRIEF = True` keeps the
        garbage collector off; `EXITS_AS_RUN = True`: the exit code is a run's; `KNOWS_FLEET`: it
        takes runs on other machines itself, instead of being run there."""

        def add_arguments(self, parser: "Parser") -> None: ...
        def run(self, args: "Namespace") -> int: ...
