"""What this machine's set-up does to runs: the state directory, logout, control groups."""

from __future__ import annotations

import os

from holdfast.cli.findings import Finding, failed, missing, works
from holdfast.cli.terminal import home_path
from holdfast.errors import HomeUnusable, ProcessGone, ProcessUnreadable
from holdfast.manage.logout import survival
from holdfast.manage.units import size
from holdfast.process import libc, procfs
from holdfast.run.home import Home, file_system_type
from holdfast.run.locks import take_lock

_LITTLE_ROOM_BYTES = 64 << 20
_RESERVE_BYTES = 64 << 10
_CGROUP_ROOT = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60  # v1 shows "no limit" as a number near 2**63


def state() -> Finding:
    """The state directory: whose, on what, with how much room, and whether its locks work."""
    try:
        home = Home.locate()
        shown = home_path(home.path)
        exists = home.check()
        place = home.path if exists else _nearest_existing(home.path)
        if not os.access(place, os.W_OK | os.X_OK):
            fix = "set HOLDFAST_HOME to a directory of your own"
            return failed("state", f"{shown} can't be written to", fix)
        if not _second_lock_is_refused(place):
            fix = "set HOLDFAST_HOME to a directory on a local disk"
            return failed("state", f"{shown}: two processes can hold the same lock", fix)
    except HomeUnusable as error:
        return failed("state", error.message, error.hint)
    room = os.statvfs(place)
    free = room.f_bavail * room.f_frsize
    kind = file_system_type(place, os.stat(place).st_dev) or "local disk"
    says = f"{shown}: {kind}, locks work, {size(free)} free" + ("" if exists else " (not made yet)")
    if free < _LITTLE_ROOM_BYTES:
        return failed("state", says, "make room: holdfast clean")
    return works("state", says)


def _nearest_existing(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _second_lock_is_refused(directory: str) -> bool:
    path = _probe_path(directory)
    try:
        with take_lock(path) or open(os.devnull):
            second = take_lock(path)
            if second is not None:
                second.release()
            return second is None
    finally:
        os.unlink(path)


def _probe_path(directory: str) -> str:
    return os.path.join(directory, f".doctor-{os.getpid()}-{os.urandom(4).hex()}")


def abandoned() -> Finding:
    """Processes of runs that were removed by force: whom nothing but this list names."""
    from holdfast.manage.abandoned import look_at_abandoned

    living = [one for one, look in look_at_abandoned(Home.locate()) if not look.is_gone]
    if not living:
        return works("abandoned", "nobody that no stop could end is left of a removed run")
    named = "; ".join(f"{one} of {one.name or one.run}" for one in living)
    fix = "end them; `holdfast recover` forgets whoever has gone. Until then the name is taken"
    return missing("abandoned", f"alive, of runs that were removed by force: {named}", fix)


def vanished() -> Finding:
    """Runs that may be alive and whose directory was deleted."""
    from holdfast.manage.vanished import find_vanished

    home = Home.locate()
    found = find_vanished(home) if home.check() else []
    if not found:
        return works("vanished", "no run that may be alive has lost its directory")
    named = "; ".join(f"{one.run_id}: {one.evidence}" for one in found)
    return failed("vanished", named, found[0].hint)


def reserve() -> Finding:
    """Room for an ending is kept on the state directory's disk."""
    path = _probe_path(_nearest_existing(Home.locate().path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        libc.reserve_room(fd, 0, _RESERVE_BYTES)
        status = os.fstat(fd)
    except OSError as error:
        without = f"no room can be reserved ({error.strerror}): an ending may not fit a full disk"
        return missing("reserve", without)
    finally:
        os.close(fd)
        os.unlink(path)
    if status.st_size or status.st_blocks * 512 < _RESERVE_BYTES:
        return missing("reserve", "reserved room is not kept: an ending may not fit a full disk")
    return works("reserve", "room for the ending is reserved: it fits a full disk")


def logout() -> Finding:
    """Whether runs outlive the session."""
    fate = survival()
    if fate.survives is None:
        return missing("logout", fate.why, fate.fix)
    return works("logout", fate.why) if fate.survives else failed("logout", fate.why, fate.fix)


def control_groups() -> Finding:
    """Limits that hold for everything started here."""
    try:
        lines = procfs.read("self", "cgroup").decode(errors="replace").splitlines()
    except (ProcessGone, ProcessUnreadable):
        return missing("cgroup", "no control groups here")
    groups = dict(line.split(":", 2)[1:] for line in lines if line.count(":") >= 2)
    kinds = sorted({"v2" if not names else "v1" for names in groups})
    limits = [*_limit(groups, "memory", "memory.max", "memory.limit_in_bytes")]
    limits += [f"{text} processes" for text in _limit(groups, "pids", "pids.max", "pids.max")]
    shown = ", ".join(limits) if limits else "no limit on memory or processes"
    return works("cgroup", f"{' and '.join(kinds)}: {shown}")


def _limit(groups: dict[str, str], controller: str, v2_name: str, v1_name: str) -> list[str]:
    """The limit that is set for our own group, as text; empty when there is none."""
    v1_path = next((groups[names] for names in groups if controller in names.split(",")), None)
    if v1_path is not None:
        path = f"{_CGROUP_ROOT}/{controller}{v1_path}/{v1_name}"
    else:
        path = f"{_CGROUP_ROOT}{groups.get('', '')}/{v2_name}"
    try:
        with open(path) as file:
            number = int(file.read())
    except (OSError, ValueError):  # not there, hidden by a namespace, or "max"
        return []
    if number >= _UNLIMITED:
        return []
    return [f"at most {size(number)} memory" if controller == "memory" else f"at most {number}"]
