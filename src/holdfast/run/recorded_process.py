"""Looks at a process that a run's record names, for an adopter.

Alive: held. Ended: held while its remains can still tell how. What can't be told stays unknown,
unless the user has said that the PID namespaces of old are gone, and nothing proves otherwise.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError, ProcessGone
from holdfast.lean import StrEnum
from holdfast.process import this_host
from holdfast.process.held import has_execed, hold_remains, seen_from_here
from holdfast.process.identity import HeldProcess, ProcessIdentity
from holdfast.process.verdict import Look, Verdict
from holdfast.record import Record

EXEC_SECONDS = 2.0  # a child that is released, or abandoned, needs milliseconds


class RecordedFate(StrEnum):
    """What a look at a recorded process showed."""

    ALIVE = "alive"
    ENDED = "ended"
    UNKNOWN = "unknown"


class FoundProcess(Record):
    """One recorded process: alive or a zombie (held), gone, or unknown."""

    finding: RecordedFate
    held: HeldProcess | None
    look: Look
    vouched: bool = False  # gone on the user's word alone


def find(identity: ProcessIdentity, *, other_namespaces_gone: bool = False) -> FoundProcess:
    """Look at one recorded process. An inode that is found alive outweighs the user's word."""
    look, fd = identity.examine()
    if fd is not None:
        try:
            held = seen_from_here(HeldProcess(identity, fd, look))
        except ProcessGone:
            return find(identity, other_namespaces_gone=other_namespaces_gone)
        except HoldfastError as error:
            return FoundProcess(RecordedFate.UNKNOWN, None, Look(Verdict.UNKNOWN, None, str(error)))
        return FoundProcess(RecordedFate.ALIVE, held, look)
    if look.is_gone:
        return FoundProcess(RecordedFate.ENDED, hold_remains(identity), look)
    is_unknown = look.verdict is Verdict.UNKNOWN
    if is_unknown and other_namespaces_gone and this_host.is_elsewhere(identity):
        evidence = f"{look.evidence}; the user says that earlier PID namespaces are gone"
        return FoundProcess(
            RecordedFate.ENDED, None, Look(Verdict.GONE, None, evidence), vouched=True
        )
    return FoundProcess(RecordedFate.UNKNOWN, None, look)


def became_command(held: HeldProcess, seconds: float = EXEC_SECONDS) -> bool | None:
    """Whether a child that was forked to become a command did so; None: not known.

    Its shim died at about that moment: either it was released, or it is about to exit.
    """
    deadline = time.monotonic() + seconds
    while True:
        execed, had_exited = has_execed(held), held.has_exited()
        if execed is not False or had_exited or time.monotonic() > deadline:
            return execed if execed is not False or had_exited else None
        time.sleep(0.002)
