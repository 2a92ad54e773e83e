"""A proven process under the number that it has in *our* PID namespace.

An identity that was recorded in a container names its PID there. Proven by its inode it is the
same process, but that number is a stranger's here: whoever reads /proc by it, or walks down from
it, looks at the stranger (tests/system/test_other_namespaces.py). Nothing here sends a signal.
"""

from __future__ import annotations

from holdfast.errors import IdentityUnproven
from holdfast.process import here, pidfd
from holdfast.process.identity import HeldProcess, ProcessIdentity, hold_pid


def hold_here(identity: ProcessIdentity) -> HeldProcess:
    """Like `identity.hold()`; the identity of what is held is as it would be captured here."""
    return seen_from_here(identity.hold())


def seen_from_here(held: HeldProcess) -> HeldProcess:
    """The same process, named for this namespace. Takes the descriptor over, also if it raises."""
    recorded = held.identity
    if recorded.pid_ns is None or recorded.pid_ns == here.place().pid_ns:
        return held
    with held:
        number = pidfd.number_here(held.fd)
        if number is None:
            raise IdentityUnproven(
                f"process {recorded.pid} of another PID namespace has no number here",
                hint="look at it from the namespace that it runs in",
            )
        local = hold_pid(number)
        # Held all the while: had it ended and been reaped, the number could be anybody's.
        if local.identity.pidfd_inode != recorded.pidfd_inode or held.has_exited():
            local.close()
            raise IdentityUnproven(f"process {recorded.pid} ended while it was looked at")
    return local
