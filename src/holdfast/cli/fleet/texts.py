"""What people read about runs elsewhere: a start, a run whose node does not answer."""

from __future__ import annotations

from holdfast.cli.text import streams
from holdfast.cli.text.start_text import wants_details
from holdfast.errors import Failed
from holdfast.fleet.remote_page import unreached_rows
from holdfast.manage.plaintext import printable
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome, run_exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from holdfast.fleet.placement import Placement
    from holdfast.fleet.remote import RemoteRun
    from holdfast.manage.info import RunInfo

_INDENT = 10


def report_start(run: RemoteRun, args: Namespace, line: int | None = None) -> int:
    """The name alone on stdout, or the document; the rest on stderr, as of a local start.

    `line`: of a batch, which says of all keys at once that they were used before.
    """
    info = run.started_info()
    has_failed = info.outcome is Outcome.NEVER_STARTED
    if args.json and not has_failed:
        streams.say_json({**info.to_json(), **({} if line is None else {"line": line})})
    elif not args.json and not args.quiet:
        streams.say(run.placement.name)
        streams.flush()
    if has_failed:
        raise _never_started(info)
    if not run.is_ours and (args.quiet or line is not None):
        return 0
    if not run.is_ours:
        said = f"key {run.placement.key}: {run.placement.name} ({run.id}) was placed before on"
        streams.complain(printable(f"{said} {run.placement.where}, and is the one given"))
    elif wants_details(args) or (info.state is State.QUEUED and not args.quiet):
        streams.complain(who(run, info))
    return 0


def who(run: RemoteRun, info: RunInfo) -> str:
    """Where it runs, in a line for people."""
    where = f"on {run.placement.where} ({run.placement.engine})"
    if info.state is State.QUEUED:
        return printable(f"queued {info.id} {where}: {info.evidence}")
    workload, shim = info.workload, info.shim or {}
    what = f"{workload.comm} {workload.pid}" if workload else (info.command or ["?"])[0]
    ended = f"; ended: {info.outcome}" if info.outcome is not None else ""
    return printable(f"started {info.id} {where}: {what}, shim {shim.get('pid')}{ended}")


def _never_started(info: RunInfo) -> Failed:
    error = Failed(info.evidence, hint=f"holdfast status {info.name}", document=info.to_json())
    error.code = "never-started"
    error.exit_code = run_exit_code(Outcome.NEVER_STARTED, info.exit_code, None)
    return error


def lines_of_unreached(info: RunInfo, placement: Placement) -> Iterator[str]:
    """`status` of a run whose node does not say how it stands now."""
    yield printable(f"{info.name} ({info.id}): {info.outcome or info.state}")
    for label, text in unreached_rows(info, placement):
        yield f"{label:<{_INDENT}}{printable(text)}"
