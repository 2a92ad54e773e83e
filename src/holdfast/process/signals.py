"""The gate: the only place in the package where a signal is sent.

Open the process, prove that it is the recorded one, send through that same descriptor. If it is
recycled in between, the descriptor still means the old process and no other is hit. What can't be
proven is refused and said.
"""

from __future__ import annotations

import os

from holdfast.errors import InvalidOption, Unavailable, WrongType
from holdfast.lean import StrEnum, signal
from holdfast.process import this_host
from holdfast.process.identity import HeldProcess, ProcessIdentity, valid_pid
from holdfast.process.verdict import Look, Proof, Verdict
from holdfast.record import Record


class Fate(StrEnum):
    """What became of one signal."""

    DELIVERED = "delivered"
    GONE = "gone"
    RECYCLED = "recycled"
    REFUSED = "refused"
    DENIED = "denied"


class Delivery(Record):
    """One signal: to which process, what became of it, on what proof."""

    identity: ProcessIdentity
    signal: int
    fate: Fate
    proof: Proof | None
    evidence: str

    @property
    def delivered(self) -> bool:
        """Whether the kernel took it for the process that was meant."""
        return self.fate is Fate.DELIVERED


_FATES = {
    Verdict.GONE: Fate.GONE,
    Verdict.RECYCLED: Fate.RECYCLED,
    Verdict.UNKNOWN: Fate.REFUSED,
}


def need_identity(value: object, caller: str) -> None:
    """WrongType for whatever is no identity, above all a bare number."""
    if not isinstance(value, ProcessIdentity):
        raise WrongType(
            f"{caller} takes a ProcessIdentity, not {type(value).__name__}: "
            "a number does not say which process is meant",
            hint="ProcessIdentity.of(pid) for a live process, ProcessIdentity.parse(token) for a"
            " recorded one",
        )


def send_signal(identity: ProcessIdentity, sig: int, *, trust_pid: bool = False) -> Delivery:
    """Signal a process only if it is proven to be the recorded one.

    `trust_pid`: the caller vouches for a record that names nothing but a live PID; it never
    overrides a verdict of RECYCLED, another host or another PID namespace.
    """
    need_identity(identity, "send_signal")
    if sig not in signal.valid_signals():
        raise InvalidOption(f"{sig} is not a signal", option="signal", value=sig)
    sig = int(sig)
    if this_host.is_portable():
        from holdfast.process import portable

        return portable.send(identity, sig, trust_pid=trust_pid)
    look, fd = identity.examine()
    if fd is None and trust_pid and look.verdict is Verdict.UNKNOWN and identity.boot_id is None:
        return _send_on_trust(identity, sig)
    if fd is None:
        return Delivery(identity, sig, _FATES[look.verdict], look.proof, look.evidence)
    with HeldProcess(identity, fd, look) as held:
        return signal_held(held, sig)


def signal_held(held: HeldProcess, sig: int) -> Delivery:
    """Signal the process behind a descriptor that was proven before."""
    return _send(held.fd, held.identity, sig, held.look)


def _send(fd: int, identity: ProcessIdentity, sig: int, look: Look) -> Delivery:
    try:
        signal.pidfd_send_signal(fd, sig)
    except ProcessLookupError:
        evidence = f"process {identity.pid} ended before the signal"
        return Delivery(identity, sig, Fate.GONE, look.proof, evidence)
    except PermissionError:
        evidence = f"process {identity.pid} belongs to another user"
        return Delivery(identity, sig, Fate.DENIED, look.proof, evidence)
    except OSError as error:
        raise Unavailable(f"process {identity.pid} can't be signalled: {error.strerror}") from error
    return Delivery(identity, sig, Fate.DELIVERED, look.proof, look.evidence)


def _send_on_trust(identity: ProcessIdentity, sig: int) -> Delivery:
    evidence = f"the caller vouches that {identity.pid} is meant; nothing proves it"
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return Delivery(identity, sig, Fate.GONE, None, f"there is no process {identity.pid}")
    with HeldProcess(identity, fd, Look(Verdict.UNKNOWN, None, evidence)) as held:
        return signal_held(held, sig)


def signal_number(pid: int, sig: int) -> None:
    """The last step of the portable backend, which has no descriptors. Never 0, never a group."""
    os.kill(valid_pid(pid), sig)


def kill_self() -> None:
    """Die at once, as by `kill -9`: for crash points. Our own PID can't be another's."""
    os.kill(os.getpid(), signal.SIGKILL)


def parse_signal(text: str) -> int:
    """`TERM`, `SIGTERM`, `term` and `15` are one signal."""
    name = text.strip().upper()
    try:
        if name.isascii() and name.isdigit() and int(name) in signal.valid_signals():
            return int(name)
        return _numbers()[name if name.startswith("SIG") else f"SIG{name}"]
    except (ValueError, KeyError):
        raise InvalidOption(
            f"{text!r} is not a signal",
            hint="use a name such as TERM, INT, HUP, USR1, KILL, or its number",
            option="signal",
            value=text,
        ) from None


_named: dict[int, str] = {}  # a wait for many runs asks for each


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; real-time signals by number."""
    if number not in _named:
        named = (name for name, known in _numbers().items() if known == number)
        # An alias (SIGIOT, SIGCLD, SIGPOLL) comes later.
        _named[number] = next(named, f"signal {number}")
    return _named[number]


def _numbers() -> dict[str, int]:
    names = [name for name in dir(signal) if name.startswith("SIG") and "_" not in name]
    return {name: int(getattr(signal, name)) for name in names}
