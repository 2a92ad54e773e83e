"""The target of `check` and `signal`: a token, the path of a pid file, or a run.

A bare number is refused on purpose: it does not say which process is meant.
"""

from __future__ import annotations

import os
import re
import time

from holdfast.errors import IdentityUnproven, InvalidPid, NotFound
from holdfast.process.identity import ProcessIdentity
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.run import Run

RESOLVED_WITHIN_SECONDS = 5.0  # a wrapper resolves to its program after a second at the latest
_PAUSE_SECONDS = 0.05

_LIKE_A_TOKEN = re.compile(r"h[fp][0-9]+\.")
_LIKE_A_NUMBER = re.compile(r"[+-]?[0-9][0-9_.]*")


def identity_of(text: str) -> ProcessIdentity:
    """The identity that a token or pid file names."""
    if _LIKE_A_TOKEN.match(text):
        return ProcessIdentity.parse(text)
    if is_path(text):
        from holdfast.process.pidfile import PidFile

        return PidFile(text).read()
    if _LIKE_A_NUMBER.fullmatch(text):
        raise InvalidPid(
            f"{text} is a number, which does not say which process is meant",
            hint="use a token (`holdfast who PID` prints one) or a pid file",
        )
    raise NotFound(f"{text} is neither a token nor a pid file", hint="a token starts with hf1.")


class Target(Record):
    """The process, and the run that was named for it, if one was."""

    identity: ProcessIdentity
    run: Run | None


def find_target(text: str) -> Target:
    """What a token, a pid file or a run names; for a run, its workload."""
    try:
        return Target(identity_of(text), None)
    except NotFound:
        if is_path(text):
            raise
    from holdfast.manage.runs import Runs

    run = Runs().get(text)
    return Target(_workload_of(run, text), run)


def _workload_of(run: Run, text: str) -> ProcessIdentity:
    """Never a wrapper: waits a few seconds for the workload."""
    deadline = time.monotonic() + RESOLVED_WITHIN_SECONDS
    while True:
        info = run.info()
        if info.workload is not None:
            return info.workload.identity
        if info.state.is_supervised and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        elif info.is_active:
            raise IdentityUnproven(
                f"the workload of run {text} is not known; no process was signalled",
                hint=f"signal one by its token: `holdfast tree {text} --json` has them;"
                " or stop it and run it again with --workload NAME",
            )
        else:
            raise NotFound(
                f"no process of run {text} is known", hint=f"holdfast status {text} says more"
            )


def is_path(text: str) -> bool:
    """Whether the text means a file: it has a slash, or there is one of that name."""
    return os.sep in text or os.path.lexists(text)
