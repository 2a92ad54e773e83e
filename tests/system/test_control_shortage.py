"""A shim whose descriptors have run out: it rests, it lives on, and it is stopped all the same."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.running import (
    ended,
    info_of,
    is_alive,
    loaded_shim,
    run_of,
    wait_for_events,
    workload_pid,
)
from tests.support.waiting import eventually, wait_for_exit

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SERVED = 4  # clients for whom there are descriptors, whatever the shim itself keeps open
WAITING = 3  # clients that find none left


def _descriptors(pid: int) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{pid}/fd")}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


@contextlib.contextmanager
def _exhausted(pid: int) -> Iterator[list[socket.socket]]:
    """Clients that hold every descriptor that the shim may have, and some that wait for one."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    limit = max(_descriptors(pid)) + 1 + SERVED
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    path = run_of("a").directory.path
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, directory)
        clients = []
        for _ in range(limit + WAITING):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.settimeout(30)
            client.connect(f"/proc/self/fd/{directory}/control")
            clients.append(client)
        eventually(lambda: len(_descriptors(pid)) == limit, why="no descriptor is left")
        yield clients
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _start(holdfast) -> int:
    holdfast("run", "-n", "a", "--sample-interval", "0", "sleep", "600", expect=0)
    wait_for_events("a", "workload_resolved", why="its shim has looked")
    return loaded_shim("a")


def test_a_shim_without_descriptors_rests_and_serves_who_waited(holdfast):
    shim = _start(holdfast)
    with _exhausted(shim) as clients:
        used = _cpu_seconds(shim)
        time.sleep(2)  # the time over which it may not be busy
        assert _cpu_seconds(shim) - used < 0.5
        last = clients[-1]
        last.sendall(b'{"do":"ping"}\n')
        for client in clients[:-1]:
            client.close()
        assert json.loads(last.recv(4096)) == {"ok": True}
    assert info_of("a").state == "running"
    holdfast("stop", "--grace", "0", "a", expect=0)
    assert ended("a").outcome == "stopped"


def test_S0_a_shim_without_descriptors_is_stopped_with_its_tree(holdfast):
    shim = _start(holdfast)
    workload = workload_pid("a")
    with _exhausted(shim):
        holdfast("stop", "--grace", "0", "a", expect=0)
        assert not is_alive(workload)
        assert ended("a").outcome == "stopped"
    wait_for_exit(shim, why="the shim is gone")
