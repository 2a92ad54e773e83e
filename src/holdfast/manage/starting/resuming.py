"""The same command again, or an agent's session continued: a new run made from an old one.

A session is continued only when nothing of the old tree can be alive, and by one run at a time:
two processes that write one session would ruin it. Nothing is signalled here.
"""

from __future__ import annotations

from holdfast.errors import (
    HoldfastError,
    IdentityUnproven,
    Refused,
    StillAlive,
    WrongUse,
    argument,
)
from holdfast.manage.info import examine_run
from holdfast.manage.process_info import look_at_process
from holdfast.manage.starting.elsewhere import is_placed
from holdfast.manage.starting.launch import start_shim
from holdfast.manage.state import RunView, read_facts, view_run
from holdfast.manage.worktrees.reused_worktree import place_again
from holdfast.options import wanted_options
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict
from holdfast.run.claims import was_given
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.inner_runs import InnerRuns
from holdfast.run.outcomes import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.runs import Runs
    from holdfast.manage.starting.request import GivenId
    from holdfast.run.facts import RunFacts
    from holdfast.run.spec import RunSpec

    Options = dict[str, Any]


_MOST_RESUMED = 100  # runs in a row that said nothing of their session


def rerun_steps(runs: Runs, directory: RunDirectory, changes: Options) -> Steps[RunDirectory]:
    """Start the run's command again as it was asked for, with changes; under the same name."""
    spec = _as_adjusted(directory)
    if is_placed(changes):
        raise WrongUse(
            f"{spec.name} ran here, with the environment of this machine",
            hint=f"start its command there: holdfast run {argument('on')} WHERE CMD",
        )
    if "preset" in changes:
        from holdfast.manage.starting.config import layered, preset_names

        presets = preset_names(changes.pop("preset"))
        changes = layered(changes, presets)
    placed = place_again(directory.home, spec, changes)
    options = {**_options_of(spec), "stdin": _stdin_of(directory, spec), **changes, **placed}
    origins = {name: by for name, by in (spec.given_by or {}).items() if name not in changes}
    options["given_by"] = {**origins, **changes.get("given_by", {})}
    for table in ("env", "tags"):
        options[table] = {**_options_of(spec)[table], **(changes.get(table) or {})}
    argv = options.pop("argv", spec.command)
    return (yield from runs._start_here(argv, **options))


def resume_steps(
    runs: Runs,
    directory: RunDirectory,
    prompt: str | None,
    given: GivenId | None = None,
    more: Options | None = None,
) -> Steps[RunDirectory]:
    """Go on with the agent's session in a new run, once the old tree is proven gone.

    `more`: options of the new run beside those of the old one.
    """
    if given is not None and was_given(directory.home, given.id):
        return directory.sibling(given.id)  # an earlier call has
    spec = directory.read_spec()
    if spec.agent is None:
        raise Refused(
            f"{spec.name} ({spec.id}) is not the run of an agent: there is no session to resume",
            hint=f"holdfast rerun {spec.name} starts its command again",
            run=spec.id,
        )
    view = yield from _with_recorded_end(view_run(directory, spec=spec))
    spec = view.spec
    _refuse_while_alive(view)
    session = _session(view.facts) or _resumed_session(directory, spec)
    command = _command(spec, session, prompt)
    _refuse_second_resume(view, session)
    place_again(directory.home, spec, {})  # refused where its worktree is gone
    options = {**_options_of(spec), "resumed_from": spec.id}
    options["stdin"] = "pipe" if spec.wanted.stdin == "pipe" else None
    options["given"] = given
    return (yield from runs._start_here(command, **{**options, **(more or {})}))


def _as_adjusted(directory: RunDirectory) -> RunSpec:
    """What was asked for, with the limits as they are now; if unknown, as at the start."""
    spec = directory.read_spec()
    try:
        return spec.adjusted(read_facts(directory).adjusted)
    except (HoldfastError, OSError):
        return spec


def _options_of(spec: RunSpec) -> Options:
    """What the run was asked for, as keywords of `start`; its key stays its own."""
    options: Options = {one.name: getattr(spec.wanted, one.field) for one in wanted_options()}
    return {
        **options,
        "name": spec.name,
        "cwd": spec.cwd,
        "env": _environment_of(spec),
        "tags": dict(spec.tags),
        "agent": spec.agent or "none",
        "pty": spec.pty,
        "given_by": spec.given_by,
        **_queue_of(spec),
    }


def _queue_of(spec: RunSpec) -> Options:
    """The queue, its priority and the memory that was asked for are kept; conditions are not."""
    waits = spec.waits or {}
    kept: Options = {name: waits[name] for name in ("queue", "priority") if name in waits}
    need = waits.get("needs_memory") or {}
    return {**kept, "needs_memory": need["asked"]} if need.get("by") == "run" else kept


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


def _with_recorded_end(view: RunView) -> Steps[RunView]:
    """A run that is over without a recorded ending: have that recorded first."""
    if view.standing.state is not State.ENDED or view.standing.is_recorded:
        return view
    yield from start_shim("adopt", view.directory.path)
    return view_run(view.directory, since=view)


def _refuse_while_alive(view: RunView) -> None:
    spec, facts, standing = view.spec, view.facts, view.standing
    name = f"{spec.name} ({spec.id})"
    if standing.state is State.UNKNOWN:
        raise IdentityUnproven(
            f"{name} is unknown: {standing.evidence}",
            hint=f"holdfast status {spec.id}; holdfast recover",
            run=spec.id,
        )
    if not facts.has_ended:
        hint = f"holdfast stop {spec.id}; or holdfast wait {spec.id}"
        raise StillAlive(f"{name} is {standing.state}: {standing.evidence}", hint=hint, run=spec.id)
    inner = InnerRuns(view.directory, spec)
    for token, comm in facts.named_tree().items():
        identity = ProcessIdentity.parse(token)
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
    every fork, found nothing left; or the user vouched for it.
    """
    cleanup = facts.cleanup or {"complete": True}  # None: there was nothing left to stop
    if not facts.adopted and facts.outcome is not Outcome.LOST and cleanup["complete"] is True:
        return spec.wanted.leftovers == "stop"
    return facts.vouched


def _refuse_second_resume(view: RunView, session: str | None) -> None:
    """One run at a time goes on with a session, however often it was resumed."""
    directory, spec = view.directory, view.spec
    origin = _origin(directory, spec)
    for run_id in directory.home.run_ids(active=True):
        try:
            _, other = examine_run(directory.sibling(run_id), closely=False)
            if run_id == spec.id or other is None or not other.standing.state.is_active:
                continue
            is_kin = _origin(other.directory, other.spec) == origin or (
                other.spec.agent == spec.agent and _session(other.facts) == session
            )
        except (HoldfastError, OSError):
            continue  # what can't be read names no session of ours
        if not is_kin:
            continue
        raise StillAlive(
            f"{spec.name} ({spec.id}) goes on as {other.spec.name} ({run_id}), which has not ended",
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


def _command(spec: RunSpec, session: str | None, prompt: str | None) -> list[str]:
    from holdfast.agents.loader import load_profile
    from holdfast.agents.resume import resume_command

    if session is None:
        raise Refused(
            f"no session of {spec.agent} was seen in {spec.name} ({spec.id})",
            hint=f"holdfast rerun {spec.name} starts its command again",
            run=spec.id,
        )
    return resume_command(load_profile(str(spec.agent)), spec.command, session, prompt)


def _resumed_session(directory: RunDirectory, spec: RunSpec) -> str | None:
    """The session that a run was to go on with, and said nothing of: it could not even start."""
    before: RunSpec = spec
    for _ in range(_MOST_RESUMED):
        if before.resumed_from is None:
            return None
        directory = directory.sibling(before.resumed_from)
        try:
            before, session = directory.read_spec(), _session(read_facts(directory))
        except (HoldfastError, OSError):  # it was removed
            return None
        if session is not None:
            return session if before.agent == spec.agent else None
    return None


def _session(facts: RunFacts) -> str | None:
    found = (facts.session or {}).get("id")
    return str(found) if found else None
