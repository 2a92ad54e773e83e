"""Which process is at a control connection: one of the run's own tree, or one outside of it.

Reports of hooks are taken from members alone; answers and input only from outside, so that an agent
can't answer itself by mistake. What can't be proven is neither. It is no protection from a hostile
process of the same user, which could do as it likes without Holdfast.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, IdentityUnproven
from holdfast.process import procfs
from holdfast.process.ancestry import climb, hold_peer
from holdfast.process.identity import ProcessIdentity, hold_pid
from holdfast.process.this_host import STAMP
from holdfast.run.inner_runs import NOTICE_STAMP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.process.identity import HeldProcess
    from holdfast.shim.control import Client
    from holdfast.shim.supervisor import Supervisor


class Peers:
    """Judges the peers of one run."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def hold_member(self, client: Client) -> HeldProcess:
        """A peer that is proven to be of the run's tree; IdentityUnproven otherwise."""
        held = self._hold(client)
        try:
            if self._is_member(held):
                return held
        except BaseException:
            held.close()
            raise
        held.close()
        raise IdentityUnproven("it is taken from the run's own processes alone")

    def _is_member(self, held: HeldProcess) -> bool:
        tree, inner = self._supervisor.tree, self._supervisor.inner
        for one in climb(held):
            if tree.reaper is not None and one.identity == tree.reaper:
                return True
            if tree.held_as(one.identity) is not None:
                return True
            if inner.owns(one.identity):
                return False
        return False

    def refuse_inside(self, client: Client, asked_by: object = None) -> dict[str, str | int]:
        """The process that asks, proven to stand outside of the run; IdentityUnproven otherwise.

        `asked_by`: from a server that passes a request on, the tokens of the processes behind it.
        """
        for token in asked_by if isinstance(asked_by, list) else ():
            with _hold_named(token) as behind:
                self._refuse_member(behind)
        with self._hold(client) as held:
            self._refuse_member(held)
            stat = held.read_stat()
            comm = "?" if stat is None else stat.comm
            return {**client.peer, "comm": comm, "token": held.identity.token}

    def _refuse_member(self, held: HeldProcess) -> None:
        where = self._found_inside(held)
        if where is not None:
            raise IdentityUnproven(
                f"refused: it came from inside the run ({where}); only others may do that"
            )

    def _found_inside(self, held: HeldProcess) -> str | None:
        """How it belongs to the run, or to one inside it; None: it does not."""
        facts = self._supervisor.journal.facts
        recorded = set(facts.named_tree())
        us = self._supervisor.directory
        inside = {one.id for one in us.inner_runs()}
        environment: dict[str, str] = {}
        for number, one in enumerate(climb(held)):
            if one.identity.pid == os.getpid():  # below the shim stand its tree, and its notices
                # The run's own notice was chosen from outside; those of runs inside it were not.
                is_notice = environment.get(NOTICE_STAMP) == us.id
                return None if is_notice else f"process {held.identity.pid} is below its shim"
            if self._is_known(one.identity, recorded):
                return f"process {held.identity.pid} is of its tree"
            try:
                environment = procfs.environment(one.identity.pid)
            except HoldfastError:
                if number == 0:
                    raise  # whether it carries the stamp can't be told
                environment = {}  # above it: another user's
            if environment.get(STAMP) in {us.id, *inside}:
                return f"process {one.identity.pid} carries its stamp"
            if environment.get(NOTICE_STAMP) in inside:
                return f"process {one.identity.pid} is a notice of a run inside it"
        return None

    def _is_known(self, identity: ProcessIdentity, recorded: set[str]) -> bool:
        return self._supervisor.tree.held_as(identity) is not None or identity.token in recorded

    def _hold(self, client: Client) -> HeldProcess:
        peer_fd = client.peer_pidfd()
        try:
            return hold_peer(client.peer["pid"], peer_fd)
        except HoldfastError as error:
            raise IdentityUnproven(f"who asks can't be proven: {error}") from error
        finally:
            if peer_fd is not None:
                os.close(peer_fd)


def _hold_named(token: object) -> HeldProcess:
    """The process that a server names; IdentityUnproven when it is another one, or has ended."""
    try:
        named = ProcessIdentity.parse(str(token))
        held = hold_pid(named.pid)
    except HoldfastError as error:
        raise IdentityUnproven(f"who asks can't be proven: {error}") from error
    if held.identity != named:
        held.close()
        raise IdentityUnproven("the process that asked has ended")
    return held
