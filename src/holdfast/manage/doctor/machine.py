"""What the set-up of this machine means for runs: state directory, logout, control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.errors import HomeUnusable, UnsafeFile, is_shortage, out_of_room
from holdfast.manage.doctor.findings import DoctorFinding, failed, missing, works
from holdfast.manage.plaintext import home_path
from holdfast.manage.starting.logout import survival
from holdfast.process import cgroups, libc
from holdfast.run.atomic_files import write_all
from holdfast.run.home import Home, file_system_type
from holdfast.run.locks import take_lock
from holdfast.run.units import size

_LITTLE_ROOM_BYTES = 64 << 20
_RESERVE_BYTES = 64 << 10


def state() -> DoctorFinding:
    """The state directory: owner, file system, free space, and whether its locks work."""
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
        _write_something(place)
    except HomeUnusable as error:
        return failed("state", error.message, error.hint)
    except OSError as error:
        hint = out_of_room(error).hint if is_shortage(error) else None
        return failed("state", f"{shown} can't be written to: {error.strerror}", hint)
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


def _write_something(directory: str) -> None:
    path = _probe_path(directory)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, b".")
    finally:
        os.close(fd)
        os.unlink(path)


def _probe_path(directory: str) -> str:
    return os.path.join(directory, f".doctor-{os.getpid()}-{os.urandom(4).hex()}")


def abandoned() -> DoctorFinding:
    """Processes of runs that were removed by force: only this list names them."""
    from holdfast.manage.removal.abandoned import look_at_abandoned

    try:
        living = [one for one, look in look_at_abandoned(Home.locate()) if not look.is_gone]
    except UnsafeFile as error:
        return failed("abandoned", error.message, error.hint)
    if not living:
        return works("abandoned", "no process is left of a run that was removed by force")
    named = "; ".join(f"{one} of {one.name or one.run}" for one in living)
    fix = "end them; `holdfast recover` forgets those that have gone. Until then the name is taken"
    return missing("abandoned", f"alive, of runs that were removed by force: {named}", fix)


def vanished() -> DoctorFinding:
    """Runs that may be alive and whose directory was deleted."""
    from holdfast.manage.vanished import find_vanished

    home = Home.locate()
    found = find_vanished(home) if home.check() else []
    if not found:
        return works("vanished", "every run that may be alive has its directory")
    named = "; ".join(f"{one.run_id}: {one.evidence}" for one in found)
    return failed("vanished", named, found[0].hint)


def reserve() -> DoctorFinding:
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


def logout() -> DoctorFinding:
    """Whether runs outlive the session."""
    fate = survival()
    if fate.survives is None:
        return missing("logout", fate.why, fate.fix)
    return works("logout", fate.why) if fate.survives else failed("logout", fate.why, fate.fix)


def control_groups() -> DoctorFinding:
    """Limits that hold for everything started here."""
    text = cgroups.text_of("self")
    if not text:
        return missing("cgroup", "no control groups here")
    kinds = sorted({"v2" if name == cgroups.V2 else "v1" for name in cgroups.paths_of(text)})
    shown = ", ".join(_limits(text)) or "no limit on memory or processes"
    return works("cgroup", f"{' and '.join(kinds)}: {shown}")


def _limits(text: bytes) -> Iterator[str]:
    """Those that are set for our own group."""
    group = cgroups.ControlGroup.of(text)
    if group is None:
        return
    memory, processes = group.memory_max_bytes(), group.processes_max()
    if memory is not None:
        yield f"at most {size(memory)} memory"
    if processes is not None:
        yield f"at most {processes} processes"
