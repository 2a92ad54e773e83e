"""Starting a run: claim the key and the name, write the spec, start the shim, see what became.

A death at any point leaves a supervised run or nothing, and never a record that blocks the name.
Only the shim writes events.
"""

from __future__ import annotations

import os

from holdfast.errors import AlreadyRunning, HoldfastError, Refused
from holdfast.manage.claiming import wait_for_key, wait_for_name
from holdfast.manage.info import RunInfo, read_run, stand
from holdfast.manage.launch import start_shim
from holdfast.manage.stopping import stop_run
from holdfast.manage.tidying import tidy_when_due
from holdfast.run.claims import Claim
from holdfast.run.crashpoints import crash_point, set_role
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.names import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.manage.request import StartRequest
    from holdfast.manage.steps import Steps
    from holdfast.run.home import Home

_HOLDS_THE_NAME = (State.STARTING, State.RUNNING, State.STOPPING, State.ORPHANED)


def start_run(
    home: Home, request: StartRequest, notice: Callable[[str], None]
) -> Steps[RunDirectory]:
    """Start a run, or find the one that the key already has. `notice` gets what people should
    know: what was replaced, what could not be looked at."""
    set_role("launcher")
    home.prepare()
    key_claim: Claim | None = None
    if request.key is not None:
        key_claim = yield from wait_for_key(home, request.key)
    try:
        if key_claim is not None:
            known = key_claim.read()
            if known is not None and RunDirectory(home, known).exists():
                return RunDirectory(home, known)
        name_claim = yield from wait_for_name(home, request.name, _refusal(request))
        with name_claim:
            crash_point("launcher.claimed")
            yield from _free_the_name(home, name_claim, request, notice)
            directory = _make(home, request, key_claim, name_claim)
            yield from start_shim("launch", directory.path)
            yield from _settle(directory)
            yield from tidy_when_due(home)
            return directory
    finally:
        if key_claim is not None:
            key_claim.release()


def _refusal(request: StartRequest) -> Callable[[RunInfo], None]:
    def refuse(info: RunInfo) -> None:
        if not request.replace:
            raise already_running(info)

    return refuse


def _free_the_name(
    home: Home, claim: Claim, request: StartRequest, notice: Callable[[str], None]
) -> Steps[None]:
    """See that the name's latest run is over; we hold the claim, so nobody is starting one."""
    latest = claim.read()
    if latest is None or not RunDirectory(home, latest).exists():
        return
    directory = RunDirectory(home, latest)
    info = read_run(directory)
    if info.state is State.UNKNOWN:
        notice(f"an earlier run {request.name} ({latest}) is unknown: {info.evidence}")
        return
    over = info.state is State.ENDED and directory.is_marked_active()
    if over or (info.state is State.STARTING and not directory.lock_is_held()):
        # Over, but nobody recorded it yet; or its launcher gave up; or a restart is due.
        yield from start_shim("adopt", directory.path)
        info = read_run(directory)
    if info.state in _HOLDS_THE_NAME:
        if not request.replace:
            raise already_running(info)
        yield from _replace(directory, info, request, notice)


def _replace(
    directory: RunDirectory,
    info: RunInfo,
    request: StartRequest,
    notice: Callable[[str], None],
) -> Steps[None]:
    pid = info.workload["pid"] if info.workload else None
    stopped = yield from stop_run(
        directory, grace_seconds=request.wanted.grace_seconds, cause="replaced"
    )
    now = read_run(directory)
    if now.state is not State.ENDED or stopped.cleanup is None or stopped.cleanup.survivors:
        raise Refused(
            f"{request.name} ({info.id}) can't be proven stopped: {now.evidence}",
            hint=f"holdfast status {info.id}; then holdfast stop {info.id}",
            run=info.id,
        )
    notice(f"replaced {request.name} ({info.id}): {pid} {now.outcome}, {now.evidence}")


def already_running(info: RunInfo) -> AlreadyRunning:
    """The refusal that names the winner."""
    import time

    from holdfast.manage.info import seconds_of
    from holdfast.manage.views import duration

    who = info.workload or {}
    age = duration(time.time() - seconds_of(info.created_at)) if info.created_at else "?"
    state = "already running" if info.state is not State.ORPHANED else "orphaned, and still alive"
    hint = f"holdfast logs -f {info.name}; or run --replace to stop it first"
    if info.state is State.ORPHANED:
        hint = f"holdfast recover adopts it; or run --replace to stop it first ({info.name})"
    what = (
        " ".join(str(who[part]) for part in ("comm", "pid") if who.get(part)) or "no workload yet"
    )
    return AlreadyRunning(
        f"{info.name} is {state} ({info.id}, {what}, {age})",
        hint=hint,
        run=info.id,
        pid=who.get("pid"),
    )


def _make(
    home: Home, request: StartRequest, key_claim: Claim | None, name_claim: Claim
) -> RunDirectory:
    """The record of what was asked; the name leads to it last."""
    directory = RunDirectory(home, new_id())
    directory.make()
    crash_point("launcher.directory-made")
    try:
        spec = request.spec(home, directory.id, _keep_stdin(directory, request))
    except HoldfastError:
        os.rmdir(directory.path)  # nothing was started: leave nothing behind
        raise
    directory.write_spec(spec)
    crash_point("launcher.spec-written")
    directory.mark_active()
    crash_point("launcher.marked-active")
    if spec.started_in is not None and directory.sibling(spec.started_in).exists():
        directory.sibling(spec.started_in).add_inner(spec.id)
    if key_claim is not None:
        key_claim.write(spec.id)
        crash_point("launcher.key-written")
    name_claim.write(spec.id)
    crash_point("launcher.name-written")
    return directory


def _keep_stdin(directory: RunDirectory, request: StartRequest) -> str | None:
    """A file is opened by the shim; bytes are copied in."""
    if request.wanted.stdin != "file":
        return None
    if not isinstance(request.stdin, bytes):
        return os.path.abspath(os.fspath(request.stdin or ""))
    with open(directory.stdin_path, "xb", opener=_private) as file:
        file.write(request.stdin)
    return directory.stdin_path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _settle(directory: RunDirectory) -> Steps[None]:
    """A shim that died on the way has recorded no ending: then that is recorded now."""
    facts, _standing = stand(directory, directory.read_spec())
    if not facts.has_ended and not directory.lock_is_held() and facts.root is None:
        yield from start_shim("adopt", directory.path)
