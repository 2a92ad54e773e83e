"""The workload of a storm. It keeps the ledger itself: one lock per name, held by the whole tree.

The lock is inherited by every process that it starts and goes with the last of them, so whoever
finds it taken has met a second copy of its name: that is what the kernel says, not Holdfast.

    python -S workload.py LEDGER NAME KIND SECONDS
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time


def main() -> None:
    ledger, name, kind, seconds = sys.argv[1:5]
    lock = os.open(f"{ledger}/{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(lock, True)
    me = f"{name} {os.getpid()} {_ticks()} {os.environ.get('HOLDFAST_RUN_ID')}"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _tell(f"{ledger}/two", f"{me} {kind} beside {_holders(f'{ledger}/{name}.lock')}")
    else:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{me} {kind}".encode(), 0)
    _tell(f"{ledger}/ledger", f"{me} {kind} begin")
    _behave(kind, float(seconds))
    _tell(f"{ledger}/ledger", f"{me} {kind} end")


def _behave(kind: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    if kind == "stubborn":  # a grandchild in a session of its own that ignores SIGTERM
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                time.sleep(min(seconds, 3) + 3)
            os._exit(0)
        os.wait()
    elif kind == "forking":  # always a new process, each the child of the one before
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            _relay(time.monotonic() + min(seconds, 3) + 3)
    elif kind == "late":  # forks when it is asked to end
        signal.signal(signal.SIGTERM, lambda *_: _leave_one(seconds))
    while time.monotonic() < end:
        time.sleep(0.05)


def _relay(end: float) -> None:
    """Lives on in one child after the other."""
    while time.monotonic() < end:
        time.sleep(0.02)
        if os.fork():
            os._exit(0)
    os._exit(0)


def _leave_one(seconds: float) -> None:
    if os.fork() == 0:
        os.setsid()
        time.sleep(min(seconds, 3) + 3)
        os._exit(0)
    os._exit(0)


def _holders(path: str) -> str:
    """Who has the lock's file open, and whether the run that each is of has a record of it."""
    with open(path) as file:
        first = file.read()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fds = f"/proc/{pid}/fd"
            if any(os.readlink(f"{fds}/{fd}") == path for fd in os.listdir(fds)):
                found.append(_describe(pid))
        except OSError:
            continue
    return f"{first}: {', '.join(found)}"


def _describe(pid: str) -> str:
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = dict(pair.partition(b"=")[::2] for pair in file.read().split(b"\0"))
    run_id = os.fsdecode(pairs.get(b"HOLDFAST_RUN_ID", b"?"))
    try:
        with open(f"{os.environ['HOLDFAST_HOME']}/runs/{run_id}/events.jsonl") as events:
            text = events.read()
    except OSError:
        return f"{pid} of {run_id}, which is gone"
    is_known = f"hf1.{pid}." in text
    ending = [line for line in text.splitlines() if '"kind":"ended"' in line]
    over = "ended" if ending else "not ended"
    return f"{pid} of {run_id}, {'known' if is_known else 'UNKNOWN'} to it, {over}"


def _ticks() -> str:
    with open("/proc/self/stat") as file:
        return file.read().rpartition(")")[2].split()[19]


def _tell(path: str, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{time.time():.3f} {line}\n".encode())
    os.close(fd)


if __name__ == "__main__":
    main()
