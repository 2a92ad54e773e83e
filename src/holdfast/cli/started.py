"""What is said once a run was started: its name, who it is, what went wrong, what may go wrong."""

from __future__ import annotations

import sys

from holdfast.cli import streams
from holdfast.errors import Failed
from holdfast.manage.standing import read_facts
from holdfast.run.outcomes import Outcome, run_exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.manage.info import RunInfo
    from holdfast.manage.runs import Run
    from holdfast.run.facts import RunFacts


def report(run: Run, args: Namespace) -> int:
    """The name alone on stdout, or the document; the rest on stderr. Raises if it did not start."""
    facts = read_facts(run.directory)
    spec = run.directory.read_spec()
    has_failed = _did_not_start(run, facts)
    if args.json and not has_failed:
        streams.say_json(run.info().to_json())
    elif not args.json:
        streams.say(spec.name)
        streams.flush()  # before the diagnostics, also where both are one stream
    if has_failed:
        raise never_started(run, facts)
    announce(run, args)
    return 0


def _did_not_start(run: Run, facts: RunFacts) -> bool:
    if facts.has_ended or facts.is_exec_confirmed:
        return facts.outcome is Outcome.NEVER_STARTED
    # A shim that is alive waits for the exec; one that died could not even say so.
    return not run.directory.lock_is_held() and _is_ours(run)


def announce(run: Run, args: Namespace) -> None:
    """Who runs now, for a person; and a warning that everybody should see."""
    if args.key is not None and not args.quiet and not _is_ours(run):
        _say_it_was_before(run, args)
    if wants_details(args):
        streams.complain(_who(run.info()))
    if not args.quiet:
        warn_of_logout()


def _say_it_was_before(run: Run, args: Namespace) -> None:
    """A key is for ever: whoever uses one again should know that nothing was started."""
    from holdfast.manage.plaintext import printable

    spec = run.directory.read_spec()
    asked = getattr(args, "command", None)  # `rerun` has none of its own
    is_another = asked is not None and tuple(asked) != spec.command
    but = f"; its command is another: holdfast status {spec.id}" if is_another else ""
    said = f"key {args.key}: {spec.name} ({spec.id}) was started before, and is the one given"
    streams.complain(printable(said + but))


def wants_details(args: Namespace) -> bool:
    """Whether somebody watches, or asked."""
    if args.verbose or args.quiet:
        return bool(args.verbose)
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False


def never_started(run: Run, facts: RunFacts) -> Failed:
    """The error of a run whose command could not be started; the code is a shell's."""
    ending, info = facts.ending or {}, run.info()
    what = str(ending.get("evidence") or f"the run's shim died: {info.evidence}")
    error = Failed(what, hint=f"holdfast status {info.name}", document=info.to_json())
    error.code = "never-started"
    error.exit_code = run_exit_code(Outcome.NEVER_STARTED, ending.get("exit_code"), None)
    return error


def _is_ours(run: Run) -> bool:
    from holdfast.process.identity import ProcessIdentity

    return bool(run.directory.read_spec().launcher == ProcessIdentity.current().to_json())


def _who(info: RunInfo) -> str:
    from holdfast.manage.plaintext import printable

    workload, shim = info.workload, info.shim or {}
    # Without one, a wrapper was started, and what it is to start is not there yet.
    who = f"{workload.comm} {workload.pid}" if workload else (info.command or ["?"])[0]
    ended = f"; ended: {info.outcome}" if info.outcome is not None else ""
    return printable(f"started {info.id}: {who}, shim {shim.get('pid')}{ended}")


def warn_of_logout() -> None:
    """A run that ends with the login session is not what was asked for."""
    from holdfast.manage.logout import survival

    fate = survival()
    if fate.survives is False:
        streams.warn(f"this run ends at logout: {fate.why}", fate.fix)
