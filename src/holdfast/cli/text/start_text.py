"""The report of a start: the run's name, its processes, what failed, and warnings."""

from __future__ import annotations

import sys

from holdfast.cli.text import streams
from holdfast.errors import Failed, RunNotFound
from holdfast.manage.state import read_facts
from holdfast.run.outcomes import Outcome, run_exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.manage.info import RunInfo
    from holdfast.manage.run import Run
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

_NOT_FOUND = 127
_OF_A_SHELL = frozenset(" \t\n|&;<>()$`*?")
_LONGEST_LINE = 200  # of a command line that is worth saying again


def report(run: Run, args: Namespace) -> int:
    """The name alone on stdout, or the document; the rest on stderr. Raises if it did not start.

    With `-q` nothing: who starts it from cron gave it a name, and wants no mail.
    """
    if run.is_elsewhere:
        from holdfast.cli.fleet.texts import report_start

        return report_start(run, args)  # type: ignore[arg-type]
    spec = run.directory.known_spec()
    if not args.json and not args.quiet:
        streams.say(spec.name)
        streams.flush()  # before the diagnostics, also where both are one stream
    try:
        facts = read_facts(run.directory)
        if did_not_start(run, spec, facts):
            raise never_started(run, spec, facts)
        if args.json:
            streams.say_json(run.info().to_json())
        announce(run, args, spec)
    except RunNotFound:
        if args.json or run.directory.exists():
            raise
        say_it_was_removed(args)
    return 0


def say_it_was_removed(args: Namespace) -> None:
    """By another command, before we had looked: it was over, since nothing else is removed."""
    if not args.quiet:
        streams.complain("it has ended, and was removed meanwhile: how it ended is not known here")


def did_not_start(run: Run, spec: RunSpec, facts: RunFacts) -> bool:
    """Whether its command never ran, and never will."""
    if facts.has_ended or facts.attempt.is_exec_confirmed:
        return facts.outcome is Outcome.NEVER_STARTED
    # A live shim waits for the exec; a dead one could not report its failure.
    return not run.directory.lock_is_held() and is_ours(spec)


def announce(run: Run, args: Namespace, spec: RunSpec) -> None:
    """The processes, if a person reads this; and warnings in any case."""
    if args.key is not None and not args.quiet and not is_ours(spec):
        _say_it_was_before(spec, args)
    if not args.quiet and spec.waits is not None:
        _say_it_waits(run)
    elif wants_details(args):
        streams.complain(who(run.info()))
    if not args.quiet:
        warn_of_logout()
        warn_of_terminal(spec)
        warn_of_silence(spec)


def _say_it_waits(run: Run) -> None:
    from holdfast.manage.plaintext import printable
    from holdfast.manage.words.notes import waits_note
    from holdfast.run.facts import State

    info = run.info()
    if info.state is State.QUEUED and info.queue is not None:
        streams.complain(printable(f"queued {waits_note(info.queue)}"))


def _say_it_was_before(spec: RunSpec, args: Namespace) -> None:
    """A key never expires: with a used one, say that nothing was started."""
    from holdfast.manage.plaintext import printable

    asked = getattr(args, "command", None)  # `rerun` has none of its own
    is_another = asked is not None and tuple(asked) != spec.command
    but = f"; its command is another: holdfast status {spec.id}" if is_another else ""
    said = f"key {args.key}: {spec.name} ({spec.id}) was started before, and is the one given"
    streams.complain(printable(said + but))


def wants_details(args: Namespace) -> bool:
    """Whether stderr is a terminal, or -v was given."""
    if args.verbose or args.quiet:
        return bool(args.verbose)
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def never_started(run: Run, spec: RunSpec, facts: RunFacts) -> Failed:
    """The error of a run whose command could not be started; the code is a shell's."""
    ending, info = facts.ending or {}, run.info()
    what = str(ending.get("evidence") or f"the run's shim died: {info.evidence}")
    code = run_exit_code(Outcome.NEVER_STARTED, ending.get("exit_code"), None)
    hint = hint_at_word(run, spec, code)
    error = Failed(what, hint=hint or f"holdfast status {info.name}", document=info.to_json())
    error.code = "never-started"
    error.exit_code = code
    return error


def is_ours(spec: RunSpec) -> bool:
    """Whether it was started by this call."""
    from holdfast.process.identity import ProcessIdentity

    return bool(spec.launcher == ProcessIdentity.current().to_json())


def who(info: RunInfo) -> str:
    """The run's processes, in a line for people."""
    from holdfast.manage.plaintext import printable

    workload, shim = info.workload, info.shim or {}
    # None: a wrapper was started, and its workload has not appeared yet.
    what = f"{workload.comm} {workload.pid}" if workload else (info.command or ["?"])[0]
    ended = f"; ended: {info.outcome}" if info.outcome is not None else ""
    return printable(f"started {info.id}: {what}, shim {shim.get('pid')}{ended}")


def warn_of_terminal(spec: RunSpec) -> None:
    """Warn of an interactive agent that was given neither a terminal nor input."""
    if spec.agent is None or spec.pty or spec.wanted.stdin != "null":
        return
    from holdfast.agents.recognition import needs_terminal

    needed = needs_terminal(spec.command)
    if needed is not None:
        agent, words = needed
        flag = f"{agent} {words[0]}"
        fix = f"add --pty and use holdfast attach; or {flag}, which needs none"
        streams.warn(f"{agent} expects a terminal, and this run has none", fix)


def warn_of_silence(spec: RunSpec) -> None:
    """An agent of which nothing will be known: neither its output nor hooks tell."""
    if spec.agent is None or ((spec.added or {}).get("hooks") or {}).get("handed"):
        return
    from holdfast.agents.recognition import missing_readable_words

    missing = missing_readable_words(spec.command)
    if missing is not None:
        agent, words = missing
        flags = " ".join(word.replace("=", " ") for word in words)
        why_not = ((spec.added or {}).get("hooks") or {}).get("why_not")
        said = f"{agent} will not say its session, result or tokens"
        streams.warn(f"{said}{f': {why_not}' if why_not else ''}", f"add {flags}")


def warn_of_logout() -> None:
    """A run that ends with the login session is not what was asked for."""
    from holdfast.manage.starting.logout import survival

    fate = survival()
    if fate.survives is False:
        streams.warn(f"this run ends at logout: {fate.why}", fate.fix)


def hint_at_word(run: Run, spec: RunSpec, code: int) -> str | None:
    """For one word that was not found: it was meant as a command line, or as the name of a run."""
    command = spec.command if code == _NOT_FOUND else ()
    if len(command) != 1 or len(command[0]) > _LONGEST_LINE:
        return None
    from holdfast.run.names import valid_name
    from holdfast.run.references import find_by_name

    word = command[0]
    if not set(word) & _OF_A_SHELL:
        home = run.directory.home
        is_run = valid_name(word) and find_by_name(home, word) not in (None, run.id)
        return f"a run has that name: holdfast status {word}" if is_run else None
    from holdfast.shell_words import quote

    return f"a shell runs such a line: holdfast run sh -c {quote(word)}"
