"""What `check` and `signal` are told: a token, the path of a pid file, or a run.

A bare number is refused on purpose: it does not say which process is meant.
"""

from __future__ import annotations

import os
import re

from holdfast.errors import InvalidPid, NotFound, RunNotFound
from holdfast.process.identity import ProcessIdentity

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


def identity_of_any(text: str) -> ProcessIdentity:
    """The identity that a token, a pid file or a run names; for a run, its workload's."""
    try:
        return identity_of(text)
    except NotFound as error:
        if is_path(text):
            raise
        return _workload_of(text, error)


def is_path(text: str) -> bool:
    """Whether the text means a file: it has a slash, or there is one of that name."""
    return os.sep in text or os.path.lexists(text)


def _workload_of(ref: str, error: NotFound) -> ProcessIdentity:
    try:
        from holdfast.manage.runs import Runs
    except ModuleNotFoundError:
        raise RunNotFound(f"{ref} is neither a token, a pid file nor a run") from error
    workload = Runs().get(ref).info().workload
    if workload is None:
        raise NotFound(f"no process of run {ref} is known", hint=f"holdfast status {ref} says more")
    return ProcessIdentity.from_json(workload)
