"""Starting a run: claim the key and the name, write the spec, start the shim, see what became.

A death at any point leaves a supervised run or nothing, and never a record that blocks the name.
Only the shim writes events.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, RunNotFound, Unavailable
from holdfast.manage.starting.claiming import wait_for_given_id, wait_for_key, wait_for_name
from holdfast.manage.starting.launch import start_shim
from holdfast.process.this_host import STAMP_HOME, absolute
from holdfast.run.claims import Claim
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from holdfast.run.names import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.manage.info import RunInfo
    from holdfast.manage.operations import Steps
    from holdfast.manage.starting.request import StartRequest
    from holdfast.run.spec import RunSpec

    Json = dict[str, Any]

_LAST_MOMENT_SECONDS = 2.0  # from a shim's last word to its end


def start_run(
    home: Home, request: StartRequest, notice: Callable[[str], None]
) -> Steps[RunDirectory]:
    """Start a run, or find the one that the key already has. `notice` gets what people should
    know: what was replaced, what could not be looked at."""
    set_role("launcher")
    if request.warning:
        notice(request.warning)
    home.prepare()
    key_claim = yield from _claim(home, request)
    try:
        if key_claim is not None:
            known = yield from _known_run(home, key_claim, request, notice)
            if known is not None:
                return known
        name_claim = yield from wait_for_name(home, request.name, _refusal(request))
        with name_claim:
            crash_point("launcher.claimed")
            waits = _waits(home, request, notice)  # refused before anything is replaced
            yield from _free_the_name(home, name_claim, request, notice)
            claims = (key_claim, name_claim)
            directory = yield from _make(home, request, waits, claims, notice)
            failure = yield from start_shim("launch", directory.path, meanwhile=_load_what_follows)
            yield from _settle(home, directory, failure)
            return directory
    finally:
        if key_claim is not None:
            key_claim.release()


def _claim(home: Home, request: StartRequest) -> Steps[Claim | None]:
    """What makes sure that it is started once: its key, or the id that it was given."""
    if request.given is not None:
        return (yield from wait_for_given_id(home, request.given.id))
    if request.key is not None:
        return (yield from wait_for_key(home, request.key))
    return None


def _known_run(
    home: Home, claim: Claim, request: StartRequest, notice: Callable[[str], None]
) -> Steps[RunDirectory | None]:
    """The run that an earlier call has started; None: there is none."""
    known = claim.read()
    if request.given is not None:
        directory = RunDirectory(home, request.given.id)
        if known is not None or _had_shim(directory):
            yield from _go_on(directory, claim, request, notice)
            return directory
        if os.path.exists(directory.path):
            _unmake(directory, request)  # its launcher died before anything led to it
        return None
    if known is not None and (yield from _has_begun(RunDirectory(home, known), notice)):
        return RunDirectory(home, known)
    return None


def _go_on(
    directory: RunDirectory, claim: Claim, request: StartRequest, notice: Callable[[str], None]
) -> Steps[None]:
    """A run under an id that it was given: start it, if its launcher died before it could.

    One that was removed since, or that any shim ever had, is not started again.
    """
    home = directory.home
    if not directory.exists() or _had_shim(directory):
        return
    name_claim = yield from wait_for_name(home, request.name, _refusal(request))
    with name_claim:
        if name_claim.read() != directory.id:
            try:
                yield from _free_the_name(home, name_claim, request, notice)
            except HoldfastError:
                _unmake(directory, request)
                claim.remove()
                raise
            name_claim.write(directory.id)
        failure = yield from start_shim("launch", directory.path)
        yield from _settle(home, directory, failure)


def _had_shim(directory: RunDirectory) -> bool:
    """Whether a shim ever had it: then its record says what became of it."""
    from holdfast.manage.state import read_facts

    return bool(read_facts(directory).last_seq) or directory.lock_is_held()


def _has_begun(directory: RunDirectory, notice: Callable[[str], None]) -> Steps[bool]:
    """Whether the key's run came as far as its command. We hold the key: only we start it."""
    from holdfast.manage.state import read_facts

    if not directory.exists():
        from holdfast.manage.vanished import refuse_start_beside

        refuse_start_beside(directory, "the key's run", notice)
        return False
    try:
        if read_facts(directory).last_seq == 0 and not directory.lock_is_held():
            yield from start_shim("adopt", directory.path)  # its launcher died
        facts = read_facts(directory)
        has_begun = facts.attempt.root is not None or facts.queued is not None
        return has_begun or (not facts.has_ended and directory.lock_is_held())
    except HoldfastError:  # not known: what may have begun is not begun again
        return True


def _free_the_name(
    home: Home, claim: Claim, request: StartRequest, notice: Callable[[str], None]
) -> Steps[None]:
    """See that the name's latest run is over; we hold the claim, so no other launcher is."""
    latest = claim.read()
    if latest is not None and not RunDirectory(home, latest).exists():
        from holdfast.manage.vanished import refuse_start_beside

        refuse_start_beside(RunDirectory(home, latest), request.name, notice)
    elif latest is not None:
        from holdfast.manage.starting.name_conflict import free_the_name

        try:
            yield from free_the_name(RunDirectory(home, latest), request, notice)
        except (RunNotFound, FileNotFoundError):
            from holdfast.manage.stopping import is_removed

            if not (yield from is_removed(RunDirectory(home, latest))):
                raise
    if os.path.exists(home.abandoned_path):  # looked at last: a removal by force writes it first
        from holdfast.manage.removal.abandoned import refuse_beside_abandoned

        refuse_beside_abandoned(home, request.name, notice)


def _refusal(request: StartRequest) -> Callable[[RunInfo], None]:
    def refuse(info: RunInfo) -> None:
        if not request.replace:
            from holdfast.manage.starting.name_conflict import already_running

            raise already_running(info)

    return refuse


def _make(
    home: Home,
    request: StartRequest,
    waits: Json | None,
    claims: tuple[Claim | None, Claim],
    notice: Callable[[str], None],
) -> Steps[RunDirectory]:
    """The record of what was asked; the name leads to it last."""
    directory = RunDirectory(home, new_id() if request.given is None else request.given.id)
    directory.make()
    crash_point("launcher.directory-made")
    try:
        spec = yield from _describe(directory, request, waits, notice)
        directory.write_spec(spec)
        crash_point("launcher.spec-written")
        directory.mark_active()
        crash_point("launcher.marked-active")
        if spec.waits is not None and "after" in spec.waits:
            from holdfast.manage.queueing.submission import await_targets

            await_targets(directory, spec)
    except BaseException:  # a bad request, a full disk, a caller that gives up
        _unmake(directory, request)
        raise
    if spec.started_in is not None:
        _tell_outer(directory, spec.started_in, notice)
    key_claim, name_claim = claims
    if key_claim is not None:
        key_claim.write(spec.id, sync=request.given is not None)
        crash_point("launcher.key-written")
    name_claim.write(spec.id)
    crash_point("launcher.name-written")
    return directory


def _tell_outer(directory: RunDirectory, outer_id: str, notice: Callable[[str], None]) -> None:
    """The run that we are started in spares what is ours; it may be in another home than ours."""
    homes = {os.environ.get(STAMP_HOME): None, directory.home.path: None}
    for path in homes:
        outer = RunDirectory(Home(path), outer_id) if path and os.path.isabs(path) else None
        if outer is not None and outer.exists():
            try:
                outer.add_inner(directory)
            except OSError as error:
                why = error.strerror or error
                notice(f"{outer_id} can't be told of this run ({why}): stopping it stops this one")
            return


def _describe(
    directory: RunDirectory,
    request: StartRequest,
    waits: Json | None,
    notice: Callable[[str], None],
) -> Steps[RunSpec]:
    """The spec; a worktree that was asked for is made first."""
    cwd, worktree = request.cwd, None
    if request.worktree is not None:
        from holdfast.manage.worktrees.checkout import add_worktree

        added = yield from add_worktree(directory.home, directory.id, cwd, request.worktree)
        cwd, worktree = added.cwd, added.worktree.to_json()
        if request.worktree_setup is not None:
            worktree["setup"] = request.worktree_setup
        if added.included is not None:
            worktree["included"] = added.included.to_json()
            for line in added.included.told():
                notice(line)
    stdin_path = _keep_stdin(directory, request)
    return request.spec(
        directory.home, directory.id, stdin_path, cwd=cwd, worktree=worktree, waits=waits
    )


def _waits(home: Home, request: StartRequest, notice: Callable[[str], None]) -> Json | None:
    if not request.waiting:
        return None
    from holdfast.manage.queueing.submission import describe_waits

    return describe_waits(home, request, notice)


def _unmake(directory: RunDirectory, request: StartRequest) -> None:
    """Nothing was started: leave nothing behind."""
    if request.worktree is not None:
        from holdfast.manage.worktrees.checkout import undo_worktree

        undo_worktree(directory.home, directory.id)
    directory.drop_marker()
    for name in os.listdir(directory.path):
        os.unlink(f"{directory.path}/{name}")
    os.rmdir(directory.path)


def _keep_stdin(directory: RunDirectory, request: StartRequest) -> str | None:
    """A file is opened by the shim; bytes are copied in."""
    if request.wanted.stdin != "file":
        return None
    if not isinstance(request.stdin, bytes):
        return absolute(os.fspath(request.stdin or ""))
    with open(directory.stdin_path, "xb", opener=_private) as file:
        file.write(request.stdin)
    return directory.stdin_path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _load_what_follows() -> None:
    """What a caller needs when the shim is ready: it waits for that anyway."""
    from holdfast.manage.removal import retention_due  # noqa: F401


def _settle(home: Home, directory: RunDirectory, failure: str | None) -> Steps[None]:
    """The command runs by now, or failed to: see that it is recorded, and keep house.

    `failure`: what the shim said of it, as `start_shim` has it.
    """
    from holdfast.manage.removal.retention_due import tidy_when_due

    yield from _await_last_moment(directory, failure)
    if not directory.lock_is_held() and directory.exists():  # else it is over, and was removed
        from holdfast.manage.state import read_facts

        facts = read_facts(directory)
        if not facts.has_ended and facts.attempt.root is None and facts.queued is None:
            yield from _record_that_it_never_began(directory)
    yield from tidy_when_due(home)


def _await_last_moment(directory: RunDirectory, failure: str | None) -> Steps[None]:
    """A shim that failed says so before it is gone: the lock that it still holds proves nothing."""
    if failure != "":
        from holdfast.manage.stopping import await_release

        yield from await_release(directory, _LAST_MOMENT_SECONDS)


def _record_that_it_never_began(directory: RunDirectory) -> Steps[None]:
    """A shim died on the way. Where another can't even leave a note, its launcher has to say it."""
    reason = yield from start_shim("adopt", directory.path)
    yield from _await_last_moment(directory, reason)
    if not reason:
        return
    from holdfast.run.last_words.crash_note import read_reason

    if read_reason(directory.path) is None:
        raise Unavailable(
            f"the run could not be started, and that could not be recorded: {reason}",
            hint=f"free some and try again; then holdfast recover records it ({directory.id})",
            run=directory.id,
        )
