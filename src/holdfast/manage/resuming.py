"""The same command again, or an agent's session continued: a new run made from an old one.

A session is continued only when nothing of the old tree can be alive, and by one run at a time:
two processes that write one session would ruin it. Nothing is signalled here.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, IdentityUnproven, Refused, StillAlive
from holdfast.manage.info import look_at_process, read_run
from holdfast.manage.launch import start_shim
from holdfast.manage.request import OPTIONS
from holdfast.manage.standing import read_facts
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.outcomes import Outcome
from holdfast.shim.inner import InnerRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.runs import Runs
    from holdfast.manage.steps import Steps
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

    Options = dict[str, Any]


def rerun_steps(runs: Runs, directory: RunDirectory, changes: Options) -> Steps[RunDirectory]:
    """Start the run's command again as it was asked for, with changes; under the same name."""
    spec = directory.read_spec()
    options = {**_options_of(spec), "stdin": _stdin_of(directory, spec), **changes}
    for table in ("env", "tags"):
        options[table] = {**_options_of(spec)[table], **(changes.get(table) or {})}
    argv = options.pop("argv", spec.command)
    return (yield from runs.start_steps(argv, **options))


def resume_steps(runs: Runs, directory: RunDirectory, prompt: str | None) -> Steps[RunDirectory]:
    """Go on with the agent's session in a new run, once the old tree is proven gone."""
    spec = directory.read_spec()
    if spec.agent is None:
        raise Refused(
            f"{spec.name} ({spec.id}) is not the run of an agent: there is no session to resume",
            hint=f"holdfast rerun {spec.name} starts its command again",
            run=spec.id,
        )
    yield from _record_the_end(directory)
    facts = read_facts(directory)
    _refuse_while_alive(directory, spec, read_run(directory), facts)
    command = _command(spec, facts, prompt)
    _refuse_second_resume(directory, spec, facts)
    options = {**_options_of(spec), "resumed_from": spec.id}
    options["stdin"] = "pipe" if spec.wanted.stdin == "pipe" else None
    return (yield from runs.start_steps(command, **options))


def _options_of(spec: RunSpec) -> Options:
    """What the run was asked for, as keywords of `start`; its key stays its own."""
    options: Options = {name: getattr(spec.wanted, field) for name, (field, _) in OPTIONS.items()}
    return {
        **options,
        "name": spec.name,
        "cwd": spec.cwd,
        "env": _environment_of(spec),
        "tags": dict(spec.tags),
        "agent": spec.agent or "none",
        "pty": spec.pty,
    }


def _environment_of(spec: RunSpec) -> dict[str, str | None]:
    """The environment as it was then: variables that only we have are taken out."""
    import os

    return {**dict.fromkeys(os.environ), **spec.env}


def _stdin_of(directory: RunDirectory, spec: RunSpec) -> str | bytes | None:
    if spec.wanted.stdin != "file":
        return "pipe" if spec.wanted.stdin == "pipe" else None
    if spec.stdin_path != directory.stdin_path:
        return spec.stdin_path
    # It was copied in; the new run gets a copy of its own, since the old one may be removed.
    with open(directory.stdin_path, "rb") as file:
        return file.read()


def _record_the_end(directory: RunDirectory) -> Steps[None]:
    """A run that is over and whose shim could not say so: have that recorded first."""
    if read_facts(directory).has_ended or directory.lock_is_held():
        return
    if read_run(directory).state is State.ENDED:
        yield from start_shim("adopt", directory.path)


def _refuse_while_alive(
    directory: RunDirectory, spec: RunSpec, info: RunInfo, facts: RunFacts
) -> None:
    name = f"{spec.name} ({spec.id})"
    if info.state is State.UNKNOWN:
        raise IdentityUnproven(
            f"{name} is unknown: {info.evidence}",
            hint=f"holdfast status {spec.id}; holdfast recover",
            run=spec.id,
        )
    if not facts.has_ended:
        hint = f"holdfast stop {spec.id}; or holdfast wait {spec.id}"
        raise StillAlive(f"{name} is {info.state}: {info.evidence}", hint=hint, run=spec.id)
    inner = InnerRuns(directory)
    for identity, comm in _tree_of(facts):
        look = identity.look()
        if look.verdict is Verdict.SAME and not inner.owns(identity):
            raise StillAlive(
                f"{identity.pid} {look_at_process(identity).get('comm', comm)} of {name} "
                f"is alive: {look.evidence}",
                hint=f"holdfast stop {spec.id}; holdfast tree {spec.id}",
                run=spec.id,
            )
        if look.verdict is Verdict.UNKNOWN and not _is_recorded_gone(spec, facts):
            raise IdentityUnproven(
                f"{identity.pid} {comm or ''} of {name} may be alive: {look.evidence}",
                hint=f"holdfast tree {spec.id} shows what can be seen of it",
                run=spec.id,
            )


def _is_recorded_gone(spec: RunSpec, facts: RunFacts) -> bool:
    """Whether the record proves that a tree is gone which can't be looked at from here.

    So it is after a container was started anew: the shim that had started the tree, and so saw
    every fork, found nobody left; or the user gave their word for it.
    """
    cleanup = facts.cleanup or {"complete": True}  # None: there was nobody left to stop
    if not facts.adopted and facts.outcome is not Outcome.LOST and cleanup["complete"] is True:
        return spec.wanted.leftovers == "stop"
    return facts.vouched


def _tree_of(facts: RunFacts) -> Iterator[tuple[ProcessIdentity, str | None]]:
    """Everybody that was ever seen in the tree. The shim is no part of it."""
    survivors = (facts.cleanup or {}).get("survivors") or ()
    recorded = [facts.root, facts.workload, *facts.wrappers, *survivors]
    recorded += [attempt.root for attempt in facts.attempts]
    seen = {one["token"]: one.get("comm") for one in recorded if one}
    for token, comm in {**seen, **facts.members}.items():
        yield ProcessIdentity.parse(token), comm


def _refuse_second_resume(directory: RunDirectory, spec: RunSpec, facts: RunFacts) -> None:
    """One run at a time goes on with a session, however often and by whom it was resumed."""
    origin = _origin(directory, spec)
    for run_id in directory.home.run_ids(active=True):
        other = directory.sibling(run_id)
        try:
            its_spec = other.read_spec()
            is_kin = _origin(other, its_spec) == origin or (
                its_spec.agent == spec.agent and _session(read_facts(other)) == _session(facts)
            )
            if run_id == spec.id or not is_kin or not read_run(other).is_active:
                continue
        except (HoldfastError, OSError):
            continue  # what can't be read names no session of ours
        raise StillAlive(
            f"{spec.name} ({spec.id}) goes on as {its_spec.name} ({run_id}), which has not ended",
            hint=f"holdfast logs -f {run_id}; or holdfast stop {run_id} first",
            run=run_id,
        )


def _origin(directory: RunDirectory, spec: RunSpec) -> str:
    """The first run of a chain of resumed ones."""
    seen = {spec.id}
    while spec.resumed_from is not None and spec.resumed_from not in seen:
        seen.add(spec.resumed_from)
        before = directory.sibling(spec.resumed_from)
        if not before.exists():
            return before.id
        spec = before.read_spec()
    return spec.id


def _command(spec: RunSpec, facts: RunFacts, prompt: str | None) -> list[str]:
    from holdfast.agents.loader import load_profile
    from holdfast.agents.resume import resume_command

    session = _session(facts)
    if session is None:
        raise Refused(
            f"no session of {spec.agent} was seen in {spec.name} ({spec.id})",
            hint=f"holdfast rerun {spec.name} starts its command again",
            run=spec.id,
        )
    return resume_command(load_profile(str(spec.agent)), spec.command, session, prompt)


def _session(facts: RunFacts) -> str | None:
    found = (facts.session or {}).get("id")
    return str(found) if found else None
