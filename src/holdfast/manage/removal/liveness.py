"""Whether anything of a run may be alive: its record, and a look at each process that it names.

Proven alive is always refused. What is unknown is refused without the user's word (`force`). A
record of a later version is not ours to judge.
"""

from __future__ import annotations

from holdfast.errors import (
    DamagedRecord,
    HoldfastError,
    IdentityUnproven,
    LaterVersion,
    StillAlive,
    called,
)
from holdfast.manage.state import read_facts
from holdfast.manage.survivors import living_survivors, refusal
from holdfast.manage.suspects import may_have_missed_a_fork, stamped_of
from holdfast.manage.unreadable import living_named, say_how_to_reach, tokens_in_record
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.record import Record
from holdfast.run.claims import find_name
from holdfast.run.facts import RunFacts
from holdfast.run.spec import RunSpec
from holdfast.run.trust import doubt_length, doubt_origin, has_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.manage.removal.abandoned import Abandoned
    from holdfast.manage.suspects import Suspects
    from holdfast.process.tree_stop import Survivor
    from holdfast.process.verdict import Look
    from holdfast.run.directory import RunDirectory

    Json = dict[str, Any]

_DYING_SECONDS = 0.5  # a process that has released the run is about to end


class ReadableRun(Record):
    """As much of a run as can be read, at one look."""

    directory: RunDirectory
    spec: RunSpec | None  # None: it is damaged
    facts: RunFacts | None
    trouble: HoldfastError | OSError | None  # why there are no facts
    had_summary: bool

    @property
    def name(self) -> str | None:
        if self.spec is not None:
            return self.spec.name
        return find_name(self.directory.home, self.directory.id)

    @property
    def key(self) -> str | None:
        return None if self.spec is None else self.spec.key

    @property
    def has_ended(self) -> bool:
        return self.facts is not None and self.facts.has_ended

    def survivors(self) -> list[Survivor]:
        """Those that a stop could not end, and that may be alive."""
        return [] if self.facts is None else living_survivors(self.facts.cleanup)

    def tokens(self) -> set[str]:
        """Every process that the run's files name, also where they can't be read as a whole."""
        if self.facts is None or self.spec is None:
            return tokens_in_record(self.directory)
        tokens = self.facts.named_tokens()
        if self.facts.attempt.root is None and not self.facts.has_ended:
            tokens.add(str(self.spec.launcher.get("token")))  # it may be about to start the command
        return tokens

    def doubts(self) -> list[str]:
        """Why its record is not believed; LaterVersion when that is not ours to judge."""
        doubt = None if self.spec is None else doubt_origin(self.directory, self.spec)
        told = [] if doubt is None else [doubt.why]
        if self.spec is None:
            told = ["its spec can't be read"]
        if isinstance(self.trouble, LaterVersion):
            raise self.trouble
        if self.facts is None:
            return [*told, str(self.trouble)]
        if told:
            return told
        cut = doubt_length(self.directory, self.facts, self.had_summary)
        return [] if cut is None or self.facts.has_ended else [cut]


def read_readable(directory: RunDirectory, spec: RunSpec | None) -> ReadableRun:
    """The run now. `spec` does not change once it is written."""
    had_summary = has_summary(directory)
    try:
        return ReadableRun(directory, spec, read_facts(directory), None, had_summary)
    except (HoldfastError, OSError) as error:
        return ReadableRun(directory, spec, None, error, had_summary)


def read_spec(directory: RunDirectory, *, force: bool) -> RunSpec | None:
    """What was asked; None for one that can't be read and that the user gives up."""
    try:
        return directory.read_spec()
    except DamagedRecord as error:
        if not force:
            raise IdentityUnproven(
                f"{error.message}: what is alive is not known", hint=_force_hint(directory)
            ) from None
        return None


def prove_over(
    run: ReadableRun, force: bool, suspects: Sequence[Json], left: Sequence[Abandoned]
) -> str:
    """Why nothing can be alive; raises where something is or may be."""
    if run.facts is not None and run.facts.waits_to_begin and not force:
        raise _waits(run, "; its shim is gone, and `recover` sets it waiting again")
    unclear = run.doubts()
    named = {one.identity.token for one in left}
    for token in sorted(run.tokens() - named):
        identity = ProcessIdentity.parse(token)
        look = identity.look()
        if look.verdict is Verdict.SAME and not identity.wait(_DYING_SECONDS):
            raise _alive(run, identity, look)
        if look.verdict is Verdict.UNKNOWN:
            unclear.append(look.evidence)
    unclear += [
        f"{one['pid']} {one['comm']} carries its stamp and may be its own" for one in suspects
    ]
    unclear += [f"{one} can't be ended, and lives on" for one in left]
    if not unclear:
        return "every process that it ever recorded is gone"
    if not force:
        raise IdentityUnproven(
            f"run {run.directory.id} may be alive: {'; '.join(unclear)}",
            hint=_force_hint(run.directory),
            run=run.directory.id,
            evidence="; ".join(unclear),
        )
    return f"removed by force, though {'; '.join(unclear)}"


def _waits(run: ReadableRun, more: str = "") -> StillAlive:
    """The refusal of a queued run: it is not over."""
    return StillAlive(
        f"run {run.directory.id} is queued{more}",
        hint=f"holdfast rm --stop {run.name or run.directory.id} cancels it first",
        run=run.directory.id,
    )


def stamped(run: ReadableRun, suspects: Suspects | None) -> Sequence[Json]:
    """Processes with its stamp; looked for again under the lock where the record may lack some."""
    directory = run.directory
    if run.facts is not None and may_have_missed_a_fork(run.facts):
        return stamped_of(directory.home, directory.id)
    return () if suspects is None else suspects.of(directory.id)


def supervised(run: ReadableRun) -> StillAlive:
    """The refusal while the lock is held: what a stop could not end, if one was tried."""
    left, run_id = run.survivors(), run.directory.id
    if left:
        return refusal(run_id, left)
    if run.facts is not None and run.facts.waits_to_begin:
        return _waits(run)
    hint = f"holdfast stop {run_id}; or {called('rm', 'stop')}"
    return StillAlive(
        f"run {run_id} is still running: its supervisor is alive",
        hint=hint if run.spec is not None else say_how_to_reach(living_named(run.directory)),
        run=run_id,
    )


def _alive(run: ReadableRun, identity: ProcessIdentity, look: Look) -> StillAlive:
    """The refusal for a process that is proven to live: a stop may have failed to end it."""
    left, run_id = run.survivors(), run.directory.id
    if identity in [one.identity for one in left]:
        return refusal(run_id, left)
    return StillAlive(
        f"run {run_id} is still running: process {identity.pid} is alive ({look.evidence})",
        hint=f"holdfast stop {run_id}; or {called('rm', 'stop')}",
        run=run_id,
        identity=identity,
    )


def _force_hint(directory: RunDirectory) -> str:
    force = called("rm", "force")
    return f"look at it: holdfast status {directory.id}; {force} removes it all the same"
