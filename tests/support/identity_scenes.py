"""What is done to identities inside the kernel lab's places. Each scene returns plain facts.

The scenes assert nothing: the tests that play them do.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
from typing import Any

from holdfast.errors import HoldfastError, ProcessGone
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal, signal_held
from tests.support import recycling
from tests.support.kernel_lab import Place, announce, run_in
from tests.support.recycling import Child

Facts = dict[str, Any]

CLONE_NEWPID = 0x20000000
PR_SET_NAME = 15
LOUD_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGSTOP, signal.SIGUSR1, signal.SIGKILL)


def facts_of(identity: ProcessIdentity, *signals: int) -> Facts:
    """The look at an identity, and the fate of each signal sent to it."""
    look = identity.look()
    deliveries = [send_signal(identity, number) for number in signals]
    return {
        "verdict": str(look.verdict),
        "proof": None if look.proof is None else str(look.proof),
        "evidence": look.evidence,
        "fates": [str(delivery.fate) for delivery in deliveries],
        "proofs": [None if d.proof is None else str(d.proof) for d in deliveries],
    }


def look_at(token: str, signals: tuple[int, ...] = ()) -> Facts:
    """Look at a token from here, and send those signals."""
    return facts_of(ProcessIdentity.parse(token), *signals)


def token_of(pid: int) -> str:
    """The token as it is captured from here."""
    return ProcessIdentity.of(pid).token


def look_at_as(uid: int, token: str, signals: tuple[int, ...] = ()) -> Facts:
    """The same, seen by another user of this place."""
    answer: Facts = run_in(
        Place(pid_namespace=False, uid=uid), look_at, token=token, signals=signals
    )
    return answer


def token_as(uid: int, pid: int) -> str:
    """The token that another user of this place captures."""
    return str(run_in(Place(pid_namespace=False, uid=uid), token_of, pid=pid))


def recycled() -> Facts:
    """A stranger has the recorded PID."""
    victim = recycling.spawn()
    ours = ProcessIdentity.of(victim.pid)
    before = str(ours.verdict())
    return {"before": before, **_met_by(ours, recycling.recycle(victim))}


def recycled_in_the_same_tick() -> Facts:
    """A stranger has the recorded PID and the recorded start tick."""
    seen, stranger, attempts = recycling.recycle_in_the_same_tick(
        lambda victim: ProcessIdentity.of(victim.pid)
    )
    assert isinstance(seen, ProcessIdentity)
    facts = _met_by(seen, stranger)
    return {"attempts": attempts, "same_tick": seen.start_ticks == stranger.ticks, **facts}


def _met_by(ours: ProcessIdentity, stranger: Child) -> Facts:
    facts = facts_of(ours, *LOUD_SIGNALS)
    facts["parsed"] = str(ProcessIdentity.parse(ours.token).verdict())
    facts["same_pid"] = stranger.pid == ours.pid
    facts["waited"] = ours.wait(timeout=0)
    facts["hold"] = _hold(ours)
    facts["stranger_untouched"] = stranger.untouched()
    stranger.end()
    return facts


def _hold(identity: ProcessIdentity) -> str:
    try:
        with identity.hold():
            return "held"
    except HoldfastError as error:
        return error.code


def recycled_with_ticks_only(same_tick: bool) -> Facts:
    """A record from a kernel without pidfd inodes: the ticks are the only proof."""
    while True:
        victim = recycling.spawn()
        ours = ProcessIdentity.of(victim.pid).replace(pidfd_inode=None)
        stranger = recycling.recycle(victim)
        if (stranger.ticks == victim.ticks) is same_tick:
            break
        stranger.end()
    facts = facts_of(ours)
    facts["fate"] = None if same_tick else str(send_signal(ours, signal.SIGTERM).fate)
    facts["stranger_untouched"] = stranger.untouched()
    stranger.end()
    return facts


def recycled_as_a_thread() -> Facts:
    """The number is now that of a thread which does not lead its process."""
    victim = recycling.spawn()
    ours = ProcessIdentity.of(victim.pid)
    victim.end()
    tids: list[int] = []
    started, done = threading.Event(), threading.Event()

    def body() -> None:
        tids.append(threading.get_native_id())
        started.set()
        done.wait()

    with open(recycling.LAST_PID, "w") as file:
        file.write(str(victim.pid - 1))
    thread = threading.Thread(target=body)
    thread.start()
    started.wait()
    facts = facts_of(ours, signal.SIGTERM, signal.SIGKILL)
    facts["same_number"] = tids == [ours.pid]
    done.set()
    thread.join()
    return facts


def recycled_between_proof_and_signal(rounds: int) -> Facts:
    """The worst moment: proven, then recycled, then signalled through the same descriptor."""
    fates, hits, collisions = set(), 0, 0
    for _ in range(rounds):
        victim = recycling.spawn()
        with ProcessIdentity.of(victim.pid).hold() as held:
            stranger = recycling.recycle(victim)
            fates.add(str(signal_held(held, signal.SIGTERM).fate))
        hits += not stranger.untouched()
        collisions += stranger.ticks == victim.ticks
        stranger.end()
    return {"fates": sorted(fates), "hits": hits, "collisions": collisions}


def zombie() -> Facts:
    """Ended, not yet reaped: its PID is still taken, but the process is over."""
    victim = recycling.spawn()
    ours = ProcessIdentity.of(victim.pid)
    os.kill(victim.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)
    facts = facts_of(ours, signal.SIGTERM)
    facts["ticks_only"] = str(ours.replace(pidfd_inode=None).verdict())
    facts["capture"] = _capture(victim.pid)
    victim.wait_status = os.waitpid(victim.pid, 0)[1]
    facts["reaped"] = facts_of(ours, signal.SIGTERM)
    return facts


def _capture(pid: int) -> str:
    try:
        return ProcessIdentity.of(pid).token
    except ProcessGone as error:
        return error.code


def leader_has_exited() -> Facts:
    """The first thread has ended and shows as Z, but another thread goes on: it is alive."""
    child = recycling.spawn(action=_leave_a_thread_behind)
    state = recycling.await_state(child.pid, "Z")
    ours = ProcessIdentity.of(child.pid)
    facts = facts_of(ours)
    facts["ticks_only"] = facts_of(ours.replace(pidfd_inode=None))
    facts["shown_as"] = state
    facts["fate"] = str(send_signal(ours, signal.SIGTERM).fate)
    facts["ended_by"] = os.WTERMSIG(os.waitpid(child.pid, 0)[1])
    return facts


def _leave_a_thread_behind() -> None:
    threading.Thread(target=threading.Event().wait).start()
    ctypes.CDLL(None).syscall(60, 0)  # exit(2) of this thread alone


def forked_into_a_new_namespace() -> Facts:
    """What a process knows of its place is not true of a child in another PID namespace."""
    parent = ProcessIdentity.current()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWPID):
        raise OSError(ctypes.get_errno(), "unshare")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # PID 1 of the new namespace; /proc still shows the old one
        ours = ProcessIdentity.current()
        os.write(writer, f"{ours.token} {ours.verdict()} {parent.verdict()}".encode())
        os.kill(os.getpid(), signal.SIGSTOP)  # has no effect on PID 1 from inside
        os.read(0, 1)
        signal.pause()
    token, verdict, parents_verdict = os.read(reader, 1000).decode().split()
    facts = {
        "child": token,
        "child_seen_by_itself": verdict,
        "parent_seen_by_child": parents_verdict,
        "child_seen_by_parent": look_at(token),
        "parent_ns": parent.pid_ns,
    }
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    facts["child_gone_seen_by_parent"] = look_at(token)
    return facts


def status_of_a_strangers_zombie(code: int) -> Facts:
    """PID 1 never reaps: a process that is nobody's of ours ends, and stays a zombie."""
    reader, writer = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    middle = os.fork()
    if middle == 0:
        orphan = os.fork()
        if orphan == 0:
            os.close(writer)
            signal.sigwait({signal.SIGUSR1})
            os._exit(code)
        os.write(writer, str(orphan).encode())
        os._exit(0)
    os.waitpid(middle, 0)
    pid = int(os.read(reader, 20))
    with ProcessIdentity.of(pid).hold() as held:
        alive = held.exit_status()
        signal_held(held, signal.SIGUSR1)
        recycling.await_state(pid, "Z")
        return {
            "alive": alive,
            "status": held.exit_status(),
            "verdict": str(held.identity.verdict()),
        }


def container_starts(pid: int) -> str:
    """A container whose main process has this low PID; it ends with the scene."""
    return ProcessIdentity.of(recycling.spawn(pid).pid).token


def container_restarts(pid: int, olds: list[str]) -> Facts:
    """The next one: a new PID namespace, and the same low PID again.

    Looks at the old record whose namespace had the number that ours has, else at the last one.
    """
    new = recycling.spawn(pid)
    identity = ProcessIdentity.of(new.pid)
    records = [ProcessIdentity.parse(token) for token in olds]
    same = [record for record in records if record.pid_ns == identity.pid_ns]
    facts = facts_of((same or records)[-1], *LOUD_SIGNALS)
    facts["new_untouched"] = new.untouched()
    facts["new_verdict"] = str(identity.verdict())
    facts["same_namespace_number"] = bool(same)
    facts["token"] = identity.token
    new.end()
    return facts


def container_runs(pid: int) -> None:
    """A container that announces its token and lives until its scene is closed."""
    announce(container_starts(pid))
    signal.pause()


def tokens_under_names(names: list[str]) -> list[Facts]:
    """One process under each of these names (latin-1 text for any byte), one after the other."""
    answers: list[Facts] = []
    for name in names:
        raw = name.encode("latin-1")
        child = recycling.spawn()
        before = ProcessIdentity.of(child.pid).token
        child.end()
        child = recycling.spawn(action=functools.partial(_take_name, raw))
        recycling.await_comm(child.pid, raw)
        ours = ProcessIdentity.of(child.pid)
        facts = facts_of(ours)
        facts["differs"] = ours.token != before
        facts["ticks_right"] = ours.start_ticks == child.ticks
        facts["stat"] = procfs.read_stat(child.pid).as_dict()
        facts["ppid"] = os.getpid()
        facts["fate"] = str(send_signal(ours, signal.SIGTERM).fate)
        facts["ended_by"] = child.ended_by()
        answers.append(facts)
    return answers


def _take_name(name: bytes) -> None:
    if ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0):
        raise OSError("prctl")
