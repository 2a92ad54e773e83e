"""How a run stands: its recorded facts, the lock, and a look at the processes that it names.

Takes no lock and writes nothing. What can't be proven is `unknown`; what is derived and not yet
recorded says so.
"""

from __future__ import annotations

import time

from holdfast.errors import DamagedRecord, HoldfastError, LaterVersion
from holdfast.process import here
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.record import Record
from holdfast.run.doubts import doubt_length, doubt_origin, has_summary
from holdfast.run.facts import RunFacts, State
from holdfast.run.lifecycle import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.run.directory import RunDirectory
    from holdfast.run.outcomes import Outcome
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_DYING_SECONDS = 0.2  # a dying process lets go of its locks just before it is seen to have ended


class Standing(Record):
    """A run's state, and why that is believed."""

    state: State
    outcome: Outcome | None
    evidence: str
    looks: dict[str, Look]  # by token: what was looked at on the way
    hint: str | None = None  # what to do about a record that is not believed
    ending: Json | None = None  # the `ended` event; as recorded, or as it would be
    is_recorded: bool = True  # False: it is over, but no ending is recorded


def stand(
    directory: RunDirectory, spec: RunSpec, *, closely: bool = True
) -> tuple[RunFacts, Standing]:
    """The recorded facts, and what looking at lock and processes adds to them.

    `closely=False`: of a run whose lock is held the processes are not looked at as well, and of
    no run it is read who was ever seen in its tree.
    """
    facts = read_facts(directory, members=closely)
    doubt = doubt_origin(directory, spec)
    if doubt is not None and (doubt.of_ending_too or not facts.has_ended):
        hint = f"holdfast status {directory.id}; act on it where it was recorded"
        return facts, unknown(f"{doubt.why}: not believed, kept and not touched", hint=hint)
    if facts.has_ended:
        return facts, _ended(facts)
    if directory.lock_is_held():
        # An adopter may have become the shim meanwhile; the newest facts name it.
        return facts, _supervised(facts) if closely else _locked(facts)
    # The shim may have recorded the ending and let go since we read: read again.
    had_summary = has_summary(directory)
    facts = read_facts(directory, members=closely)
    if facts.has_ended:
        return facts, _ended(facts)
    if not facts.last_seq and not directory.exists():
        raise directory.not_found()  # somebody has removed it since
    cut = doubt_length(directory, facts, had_summary)
    if cut is not None:
        raise DamagedRecord(f"the events of run {directory.id} are not whole: {cut}")
    if is_restart_due(facts):
        return facts, _restart_due(facts)
    if facts.root is None:
        return facts, _never_started(directory, spec, facts)
    return facts, _unsupervised(directory, spec, facts)


def read_facts(directory: RunDirectory, *, members: bool = True) -> RunFacts:
    """The fold of the recorded events; DamagedRecord when they can't be read to their end, or
    LaterVersion."""
    read = directory.read_events(members=members)
    if read.is_later:
        raise LaterVersion(
            f"the events of run {directory.id} are of a later version: {read.damage}",
            hint="use the Holdfast that wrote them, or a newer one",
        )
    if read.damage is not None:
        raise DamagedRecord(f"the events of run {directory.id} are damaged: {read.damage}")
    return fold(read.events)


def unknown(
    evidence: str, looks: dict[str, Look] | None = None, hint: str | None = None
) -> Standing:
    """Nobody can tell."""
    return Standing(State.UNKNOWN, None, evidence, looks or {}, hint)


def is_restart_due(facts: RunFacts) -> bool:
    """Whether a restart was promised, in this boot, that nobody but an adopter can do now."""
    if facts.restart is None or facts.stop_cause is not None or facts.shim is None:
        return False
    return bool(facts.shim.get("boot_id") == here.place().boot_id)


def _ended(facts: RunFacts) -> Standing:
    ending = {
        **(facts.ending or {}),
        "loss": facts.loss,
        "vouched": facts.vouched,
        "stop_reason": facts.stop_reason,
    }
    evidence = str(ending.get("evidence") or "")
    return Standing(State.ENDED, facts.outcome, evidence, {}, ending=ending)


def _locked(facts: RunFacts) -> Standing:
    return Standing(State(facts.phase.value), None, "its shim holds the lock", {})


def _supervised(facts: RunFacts) -> Standing:
    state = State(facts.phase.value)
    if facts.shim is None:
        return Standing(state, None, "a shim holds the lock and is starting", {})
    looks = look_at(facts.shim, facts.workload or facts.root)
    shim, *rest = _say(facts, looks)
    if looks[facts.shim["token"]].is_gone:
        said = ["somebody is taking the run over and holds the lock", shim, *rest]
        return Standing(state, None, "; ".join(said), looks)
    return Standing(state, None, "; ".join([f"{shim} holds the lock", *rest]), looks)


def _restart_due(facts: RunFacts) -> Standing:
    looks = look_at(facts.shim)
    said = ["nobody holds the lock", *_say(facts, looks)]
    due = "a restart was due: `holdfast recover` does it"
    return Standing(State.STARTING, None, "; ".join([*said, due]), looks)


def _never_started(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> Standing:
    from holdfast.run.crashnote import read_reason

    launcher, reason = ProcessIdentity.from_json(spec.launcher), read_reason(directory.path)
    look = launcher.look()
    # A launcher that lives waits for a shim, unless that has failed already.
    if look.verdict is Verdict.SAME and facts.shim is None and reason is None:
        return Standing(State.STARTING, None, f"launcher {launcher.pid} SAME is starting it", {})
    if look.verdict is Verdict.UNKNOWN:
        return unknown(f"nobody holds the lock; {look.evidence}")
    said = ["nobody holds the lock and no command was started"]
    said += [] if reason is None else [f"a shim failed: {reason}"]
    from holdfast.manage.derived import derive_never_started

    return _unrecorded(derive_never_started(spec, facts), said, {})


def _unsupervised(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> Standing:
    """Nobody holds the lock and no ending is recorded: look at whom the events name."""
    root = facts.root if facts.root_exit is None and facts.exec_failure is None else None
    workload = facts.workload if facts.workload_exit is None else None
    looks = look_at(facts.shim, root, workload)
    said = ["nobody holds the lock", *_say(facts, looks)]
    if facts.shim is not None and looks[facts.shim["token"]].verdict is Verdict.SAME:
        if not is_ending(ProcessIdentity.from_json(facts.shim)):
            return _copy(directory, ProcessIdentity.from_json(facts.shim), "; ".join(said), looks)
        return _unsupervised(directory, spec, facts)
    seen = [looks[one["token"]] for one in (root, workload) if one is not None]
    verdicts = [look.verdict for look in seen]
    if Verdict.SAME in verdicts:
        return Standing(State.ORPHANED, None, "; ".join(said), looks)
    if Verdict.UNKNOWN in verdicts:
        return unknown("; ".join(said), looks)
    from holdfast.manage.derived import derive_ending

    ending, why = derive_ending(directory, spec, facts, seen[-1] if seen else None)
    return _unrecorded(ending, [*said, why], looks)


def _unrecorded(ending: Json, said: list[str], looks: dict[str, Look]) -> Standing:
    """It is over as far as anybody can see; whoever takes the run over records that."""
    evidence = "; ".join(text for text in said if text) + " (not yet recorded)"
    return Standing(
        State.ENDED, ending["outcome"], evidence, looks, ending=ending, is_recorded=False
    )


def _copy(
    directory: RunDirectory, shim: ProcessIdentity, said: str, looks: dict[str, Look]
) -> Standing:
    """The run's shim lives, and the lock that it holds is not this directory's."""
    home = _home_of(shim, f"/runs/{directory.id}/lock")
    said += ": its shim lives and holds another lock: a copy"
    if home is None:
        hint = "act on it in the home that this one was copied from"
        return unknown(f"{said}?", looks, hint)
    return unknown(
        f"{said} of the run in {home}",
        looks,
        f"HOLDFAST_HOME={home} holdfast status {directory.id}",
    )


def _home_of(shim: ProcessIdentity, lock: str) -> str | None:
    """The home of the run that a shim has open; None: it can't be seen."""
    from holdfast.process import procfs
    from holdfast.process.local import hold_here

    try:
        with hold_here(shim) as held:
            paths = procfs.open_paths(held.identity.pid)
            found = [] if held.has_exited() else [one for one in paths if one.endswith(lock)]
    except (HoldfastError, OSError):
        return None
    return found[0].removesuffix(lock) if found else None


def is_ending(shim: ProcessIdentity, seconds: float = _DYING_SECONDS) -> bool:
    """Whether a shim that no longer holds its lock is gone within a moment."""
    deadline = time.monotonic() + seconds
    while shim.verdict() is Verdict.SAME:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def look_at(*recorded: Json | None) -> dict[str, Look]:
    """One look at each recorded process, by token."""
    looks: dict[str, Look] = {}
    for one in recorded:
        if one is not None and one["token"] not in looks:
            looks[one["token"]] = ProcessIdentity.from_json(one).look()
    return looks


def _say(facts: RunFacts, looks: dict[str, Look]) -> list[str]:
    said = []
    for word, one in (("shim", facts.shim), ("workload", facts.workload), ("root", facts.root)):
        if one is None or one["token"] not in looks:
            continue
        if word == "root" and facts.workload and facts.workload["token"] == one["token"]:
            continue
        look = looks[one["token"]]
        proof = f" ({look.proof.value})" if look.proof and look.verdict is Verdict.SAME else ""
        is_plain = look.verdict in (Verdict.SAME, Verdict.GONE) and look.proof is not Proof.BOOT
        detail = "" if is_plain else f": {look.evidence}"
        said.append(f"{word} {one['pid']} {look.verdict.value}{proof}{detail}")
    return said
