"""`holdfast attach RUN`: the terminal of a --pty run, until the detach keys or the run's end.

The run does not depend on an attachment: whatever happens here, it continues.
"""

from __future__ import annotations

import os

from holdfast.cli.arguments.detach_keys import DEFAULT, parse_keys
from holdfast.cli.attached import Parting, Session
from holdfast.cli.text import streams
from holdfast.cli.text.ending_text import describe
from holdfast.errors import Refused, Unavailable, WrongUse
from holdfast.manage.operations import run_steps
from holdfast.manage.plaintext import printable
from holdfast.manage.run import Run
from holdfast.manage.runs import Runs
from holdfast.manage.shim_client import ShimLink, open_link
from holdfast.manage.starting.request import window
from holdfast.manage.stopping import refuse_unproven
from holdfast.process.this_host import STAMP
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.info import RunInfo

JSON = False
_EPILOG = """\
Several terminals may be attached at once: each shows the output and accepts input; the window
resized last sets the size. Recent output is shown first. When the run ends, attach exits with 0."""


def add_arguments(parser: Parser) -> None:
    """RUN and how to detach."""
    parser.add_argument("run", metavar="RUN", help="a run that was started with --pty")
    parser.add_argument(
        "--read-only", action="store_true", help="only watch: no input, no resize; ctrl-c detaches"
    )
    parser.add_argument(
        "--detach-keys",
        metavar="K",
        default=DEFAULT,
        help="keys to detach, such as ctrl-p,ctrl-q (default: ctrl-\\)",
    )
    parser.epilog = _EPILOG


def run(args: Namespace) -> int:
    """Attach until detached, or the run has ended."""
    keys = parse_keys(args.detach_keys)
    attached = Runs().get(args.run)
    if not args.read_only and not os.isatty(0):
        hint = "--read-only watches without typing; holdfast send types without watching"
        raise WrongUse("attach needs a terminal on stdin", hint=hint)
    name = attached.directory.read_spec().name
    with _connect(attached, args.read_only) as link:
        if not args.quiet and os.isatty(1):
            streams.complain(f"attached to {name}; press {args.detach_keys} to detach")
        session = Session(link, keys, read_only=args.read_only)
        parting = session.run()
    return _part(attached, name, parting, session.signal_number, args.quiet)


def _part(
    attached: Run, name: str, parting: Parting, signal_number: int | None, quiet: bool
) -> int:
    if parting is Parting.SIGNALLED:
        return 128 + (signal_number or 1)
    if parting is Parting.DETACHED:
        if not quiet:
            streams.complain(f"detached from {name}; it goes on")
        return 0
    info = attached.info()
    if info.state is State.ENDED:
        if not quiet:
            streams.complain(printable(f"{name} has ended: {describe(info)}"))
        return 0
    if attached.directory.lock_is_held():
        raise Unavailable(
            f"{name} goes on, but its output was not read fast enough here",
            hint=f"holdfast attach {name} again; holdfast logs {name} has all of it",
        )
    raise Unavailable(
        f"the shim of {name} is gone: {info.evidence}",
        hint=f"holdfast status {name}; holdfast recover",
    )


def _connect(attached: Run, read_only: bool) -> ShimLink:
    info = attached.info()
    _refuse_what_cannot_be(info)
    refuse_unproven(attached.directory)
    link = open_link(attached.directory.path)
    if link is None:
        raise Unavailable(
            f"{info.name} has no shim to attach to now: {info.evidence}",
            hint=f"try again; holdfast status {info.name}",
        )
    answer = run_steps(link.ask({"do": "attach", "read_only": read_only, **window()}))
    if answer is not None and answer.get("ok"):
        return link
    link.__exit__()
    if answer is not None and answer.get("code") == "no-terminal":
        raise _without_terminal(info)
    error = (answer or {}).get("error", "its shim does not answer")
    raise Unavailable(f"{info.name} can't be attached to now: {error}", hint="try again")


def _without_terminal(info: RunInfo) -> Refused:
    return Refused(
        f"{info.name} has lost its terminal: that went with the shim that died",
        hint=f"holdfast logs {info.name} has what it wrote before; holdfast stop {info.name}",
    )


def _refuse_what_cannot_be(info: RunInfo) -> None:
    name = info.name or info.id
    if info.pty is False:
        raise Refused(
            f"{name} has no terminal: it was started without --pty",
            hint=f"holdfast logs -f {name} follows it; holdfast rerun {name} --pty starts it again",
        )
    if not info.is_active:
        raise Refused(
            f"{name} has ended: {describe(info)}", hint=f"holdfast logs {name} has its output"
        )
    if info.state is State.ORPHANED:
        raise _without_terminal(info)
    if os.environ.get(STAMP) == info.id:
        raise Refused(
            f"{name} is the run that this command was typed in",
            hint="a terminal can't show itself",
        )
