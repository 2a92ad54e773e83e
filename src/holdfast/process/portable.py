"""Asks about processes through psutil: macOS, and Linux when HOLDFAST_PROCESS_BACKEND=portable.

There is no pidfd here. A process is named by its PID and creation time; a PID reused within the
clock's grain looks the same, and between the last look and a signal there is a gap that nothing
closes. Evidence says so. The only file that uses psutil, which is installed where the system is
not Linux. A creation time in a pid file is compared on Linux as well, with what /proc says.
"""

from __future__ import annotations

import os
import re
import time

from holdfast.errors import (
    IdentityUnproven,
    InvalidToken,
    ProcessGone,
    ProcessUnreadable,
    Unavailable,
)
from holdfast.process import pidfd, procfs, this_host
from holdfast.process.identity import ProcessIdentity, valid_pid
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from holdfast.process.signals import Delivery

_TOKEN = re.compile(
    r"hp1\.([1-9][0-9]{0,9})\.([1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,11})\.([0-9a-f]{8})"
)
_NO_HOST = "0" * 8
_LARGEST_PID = 2**31 - 1
_GRAIN_MICROSECONDS = 10_000  # Linux shows creation times in ticks of 10 ms
_LONGEST_NAP_SECONDS = 0.1
_QUARTER_HOUR = 900
_WIDEST_ZONES = 27 * 3600  # no two time zones are further apart


class _Seen(Record):
    """A process as the system shows it now."""

    process: Any  # psutil's; None where it was seen in /proc
    create_time: int  # microseconds since the epoch
    name: str


def capture(pid: int) -> ProcessIdentity:
    """Name a live process. ProcessGone when there is none."""
    seen = _see(pid)
    return ProcessIdentity(
        pid, boot_id=str(_boot_time()), host=this_host.place().host, create_time=seen.create_time
    )


def token(identity: ProcessIdentity) -> str:
    """The one-line form of a portable identity."""
    boot = identity.boot_id or "0"
    return f"hp1.{identity.pid}.{identity.create_time}.{boot}.{identity.host or _NO_HOST}"


def parse(text: str) -> ProcessIdentity:
    """Read a token back. InvalidToken for anything that `token` did not write."""
    match = _TOKEN.fullmatch(text)
    if match is None or int(match[1]) > _LARGEST_PID:
        raise InvalidToken(
            f"not an identity token: {text[:120]!r}",
            hint="a token is one line; `holdfast who PID` prints one",
        )
    return ProcessIdentity(
        int(match[1]),
        boot_id=None if match[3] == "0" else match[3],
        host=None if match[4] == _NO_HOST else match[4],
        create_time=int(match[2]),
    )


def look(identity: ProcessIdentity) -> Look:
    """Look at the process now."""
    return _examine(identity)[0]


def examine(identity: ProcessIdentity) -> tuple[Look, int | None]:
    """The look; where it is SAME and the system has pidfds, one that was open all the while."""
    if this_host.is_portable():
        return look(identity), None
    try:
        fd = os.pidfd_open(valid_pid(identity.pid))
    except OSError:  # the look says why
        return look(identity), None
    seen = look(identity)
    if seen.verdict is Verdict.SAME and pidfd.has_exited(fd):
        seen = Look(Verdict.GONE, Proof.NO_SUCH_PID, f"process {identity.pid} has exited")
    if seen.verdict is Verdict.SAME:
        return seen, fd
    os.close(fd)
    return seen, None


def _examine(identity: ProcessIdentity) -> tuple[Look, Any]:
    """The look, and the process that it was about, if there is one to signal."""
    pid = valid_pid(identity.pid)
    if identity.host is not None and identity.host != this_host.place().host:
        return _unknown(f"process {pid} was recorded on another host"), None
    if identity.pidfd_inode is not None or identity.pid_ns is not None:
        why = f"process {pid} was recorded by pidfd, which this backend can't compare"
        return _unknown(why), None
    try:
        seen = _see(pid)
    except ProcessUnreadable as error:
        return _unknown(error.message), None
    except ProcessGone as error:
        return Look(Verdict.GONE, Proof.NO_SUCH_PID, error.message), None
    if identity.create_time is None:
        lacks = "without a start time" if identity.start_ticks is None else "by start ticks alone"
        return _unknown(f"{pid} is alive, but was recorded {lacks}: unverified"), seen.process
    if identity.host is None:
        return _compare_with_text(identity, identity.create_time, seen), seen.process
    if identity.boot_id is None:
        return _compare_with_file(identity, identity.create_time, seen), seen.process
    return _compare(identity, identity.create_time, int(identity.boot_id), seen), seen.process


def _compare(identity: ProcessIdentity, recorded: int, boot_time: int, seen: _Seen) -> Look:
    pid = identity.pid
    if abs(recorded - seen.create_time) < _GRAIN_MICROSECONDS:
        evidence = f"process {pid} was created at the recorded time (weaker than a pidfd inode)"
        return Look(Verdict.SAME, Proof.CREATE_TIME, evidence)
    # A step of the wall clock moves creation time and boot time together; so does a reboot in
    # which the same service came up with the same PID at the same moment. They look alike.
    shift = (_boot_time() - boot_time) * 1_000_000
    if shift and abs(seen.create_time - recorded - shift) <= 1_000_000 + _GRAIN_MICROSECONDS:
        return _unknown(f"process {pid}: the clock was set, or this is another boot")
    return _recycled(identity, recorded, seen)


def _compare_with_text(identity: ProcessIdentity, recorded: int, seen: _Seen) -> Look:
    """A time from `ps -o lstart`: local time, whole seconds. It can disprove, never prove."""
    apart = abs(recorded - seen.create_time) / 1_000_000
    # Whole quarter hours may be a time zone or daylight saving; 2 s are rounding and clock slew.
    beyond = min(apart % _QUARTER_HOUR, _QUARTER_HOUR - apart % _QUARTER_HOUR)
    if apart > _WIDEST_ZONES or beyond > 2:
        return _recycled(identity, recorded, seen)
    return _unknown(f"{identity.pid} is alive; its start time in seconds proves nothing")


def _compare_with_file(identity: ProcessIdentity, recorded: int, seen: _Seen) -> Look:
    """A creation time that another program wrote down, without the boot time of then."""
    apart = abs(recorded - seen.create_time)
    if apart < _GRAIN_MICROSECONDS and _proc_is_ours():
        evidence = f"process {identity.pid} was created at the recorded time (weaker than an inode)"
        return Look(Verdict.SAME, Proof.CREATE_TIME, evidence)
    # A boot time in whole seconds is a part of it: the clock being set moves it by whole seconds.
    beyond = min(apart % 1_000_000, 1_000_000 - apart % 1_000_000)
    if apart <= 2_000_000 or beyond < _GRAIN_MICROSECONDS:
        return _unknown(f"{identity.pid} is alive: the clock was set, or it is another process")
    return _recycled(identity, recorded, seen)


def _proc_is_ours() -> bool:
    return this_host.is_portable() or this_host.place().proc_is_ours


def _recycled(identity: ProcessIdentity, recorded: int, seen: _Seen) -> Look:
    found = f"created {_clock(recorded)} as recorded, {_clock(seen.create_time)} found"
    evidence = f"process {identity.pid} is gone: that PID is {seen.name} now ({found})"
    return Look(Verdict.RECYCLED, Proof.CREATE_TIME, evidence)


def send(identity: ProcessIdentity, sig: int, *, trust_pid: bool = False) -> Delivery:
    """Signal the process after one more look. Between the two a gap remains, and is said."""
    from holdfast.process.signals import Delivery, Fate, signal_number

    seen, process = _examine(identity)
    trusted = trust_pid and seen.verdict is Verdict.UNKNOWN and identity.boot_id is None
    if process is None or not (trusted or seen.verdict is Verdict.SAME):
        fates = {Verdict.GONE: Fate.GONE, Verdict.RECYCLED: Fate.RECYCLED}
        fate = fates.get(seen.verdict, Fate.REFUSED)
        return Delivery(identity, sig, fate, seen.proof, seen.evidence)
    try:
        if not process.is_running():  # psutil compares PID and creation time once more
            raise ProcessLookupError
        signal_number(identity.pid, sig)
    except ProcessLookupError:
        gone = f"process {identity.pid} ended before the signal"
        return Delivery(identity, sig, Fate.GONE, Proof.NO_SUCH_PID, gone)
    except PermissionError:
        denied = f"process {identity.pid} belongs to another user"
        return Delivery(identity, sig, Fate.DENIED, seen.proof, denied)
    evidence = f"{seen.evidence}; without a pidfd, a race with PID reuse remains"
    if trusted:
        evidence = f"the caller vouches that {identity.pid} is meant; nothing proves it"
    return Delivery(identity, sig, Fate.DELIVERED, seen.proof, evidence)


def wait(identity: ProcessIdentity, timeout: float | None) -> bool:
    """Wait until the process has ended: True, or False when the time is up."""
    deadline = None if timeout is None else time.monotonic() + timeout
    nap = 0.001
    while True:
        seen = look(identity)
        if seen.is_gone:
            return True
        if seen.verdict is Verdict.UNKNOWN:
            raise IdentityUnproven(seen.evidence, verdict=seen.verdict, evidence=seen.evidence)
        if deadline is not None and time.monotonic() >= deadline:
            return False
        time.sleep(nap)
        nap = min(nap * 2, _LONGEST_NAP_SECONDS)


def _see(pid: int) -> _Seen:
    """ProcessGone when there is no such process; ProcessUnreadable where nothing shows it."""
    return _see_with_psutil(pid) if this_host.is_portable() else _see_in_proc(pid)


def _see_in_proc(pid: int) -> _Seen:
    try:
        stat = procfs.read_stat(pid)
    except ProcessGone:
        raise _not_seen(pid) from None
    if stat.state in (procfs.ProcessState.ZOMBIE, procfs.ProcessState.DEAD):
        raise ProcessGone(f"process {pid} has exited", pid=pid)
    since_boot = stat.start_ticks * 1_000_000 // procfs.TICKS_PER_SECOND
    return _Seen(None, _boot_time() * 1_000_000 + since_boot, stat.comm)


def _see_with_psutil(pid: int) -> _Seen:
    psutil = _psutil()
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            seen = _Seen(process, round(process.create_time() * 1_000_000), process.name())
            if process.status() != psutil.STATUS_ZOMBIE:
                return seen
    except psutil.ZombieProcess:  # said below
        pass
    except psutil.NoSuchProcess:
        raise _not_seen(pid) from None
    except psutil.AccessDenied:
        raise ProcessUnreadable(f"process {pid} can't be looked at", pid=pid) from None
    # It has ended: the recorded process, or one that had the PID after it.
    raise ProcessGone(f"process {pid} has exited", pid=pid)


def _not_seen(pid: int) -> ProcessGone | ProcessUnreadable:
    if _exists(pid):
        return ProcessUnreadable(f"process {pid} is hidden from us", pid=pid)
    return ProcessGone(f"there is no process {pid}", pid=pid)


def _exists(pid: int) -> bool:
    # The process table can be hidden (hidepid); the kernel still answers for the number.
    try:
        os.getpgid(pid)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _boot_time() -> int:
    if not this_host.is_portable():
        return procfs.boot_time()
    seconds: float = _psutil().boot_time()
    return round(seconds)


def _psutil() -> ModuleType:
    try:
        import psutil
    except ImportError as error:
        raise Unavailable(
            "no process can be looked at: psutil is not installed",
            hint="`pip install psutil`; on Linux, unset HOLDFAST_PROCESS_BACKEND instead",
        ) from error
    return psutil


def _clock(microseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(microseconds // 1_000_000))


def _unknown(evidence: str) -> Look:
    return Look(Verdict.UNKNOWN, None, evidence)
