"""Faults on the way over ssh: the node is a network namespace with an sshd of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.faults_fleet.alone import Request, count
from bench.faults_fleet.engine import (
    Engine,
    EngineArena,
    Fault,
    database_faults,
    shim_faults,
    submitter_faults,
)
from bench.faults_fleet.trial import Trial
from tests.fleet.fleet_world import Submitter, World
from tests.fleet.net_nodes import NetNodes
from tests.fleet.postgres_cluster import Database
from tests.support.sshd import Node
from tests.support.waiting import eventually

_ANSWER = "15s"  # also on a busy machine
_LAUNCHER_POINTS = (
    *("launcher.claimed", "launcher.directory-made", "launcher.spec-written"),
    *("launcher.key-written", "launcher.name-written", "launcher.shim-spawned", "launcher.ready"),
)


class SshArena(EngineArena):
    """A submitter and one node."""

    engine = "ssh"
    on = "ssh:n1"

    def __init__(self, submitter: Submitter, world: SshEngine, database: Database | None) -> None:
        super().__init__(submitter, database)
        self.world = world
        self.node = world.node
        self.net = world.net.nodes["n1"]
        submitter.config.write_text(self.node.table("n1", answer=_ANSWER))
        self.use_ledger()

    def node_homes(self) -> list[Path]:
        return [self.node.home]

    def heal(self) -> None:
        self.net.heal()

    def mend(self) -> None:
        """Its shim may be gone: the node's own recovery."""
        self.world.nodes.on(self.node, "recover")

    def exported(self, run_id: str) -> list[int] | None:
        if self.database is None:
            return None
        self.submitter("fleet", "export", "--on", self.on, expect=0)
        query = "select seq from holdfast_event where run = %s order by seq"
        return [seq for (seq,) in self.database.rows(query, run_id)]

    def end_ssh(self) -> None:
        """The ssh clients of this submitter."""
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                line = (path / "cmdline").read_bytes() if path.name.isdigit() else b""
                if line.startswith(b"ssh") and os.fsencode(self.submitter.runtime) in line:
                    os.kill(int(path.name), signal.SIGKILL)


class SshEngine(Engine):
    """The node, and two submitters with two ledgers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.net = NetNodes("s", "n1")
        self.nodes = World(folder, os.geteuid())
        machine = self.net.nodes["n1"]
        self.node: Node = self.nodes.node("n1", address=machine.address, inside=machine.inside())
        home, shared = self.nodes.submitter("home"), self.nodes.submitter("shared")
        self.arenas = [SshArena(home, self, None), SshArena(shared, self, self.database)]

    def faults(self, arena: SshArena) -> Iterator[Fault]:
        """What is done to one submitter's runs, each some times."""
        yield from submitter_faults(4)
        yield from [Fault("ssh client killed in a start", client_killed)] * 2
        yield from [Fault("sshd and its sessions killed in a start", session_killed)] * 2
        yield from [Fault("sshd killed under a run", sshd_killed)] * 2
        yield from [Fault("link cut in a start", cut_in_start)] * 2
        yield Fault("link cut under a run", cut_under_run)
        yield from shim_faults(2)
        yield from database_faults(arena, 3)
        yield from [Fault("four submitters at once, two killed", crowd)] * 2
        if arena.database is None:
            for point in _LAUNCHER_POINTS:
                yield Fault(
                    "the node's side killed at each write", lambda t, p=point: node_side(t, p)
                )
        else:
            yield from [Fault("PostgreSQL stopped in an export", stopped_in_export)] * 2

    def alone(self) -> Iterator[dict[str, Any]]:
        """`ssh HOST COMMAND`: its client is killed, and whoever wanted it asks again."""
        requests = [Request(self.folder / "alone", f"r{number}") for number in range(4)]
        clients = []
        for one in requests:
            for number in (1, 2):
                words = ["ssh", *self.node.ssh_options, self.node.address]
                words = [*words, f"sh -c {shlex.quote(one.script)}"]
                client = subprocess.Popen(words, stdout=subprocess.DEVNULL)
                clients.append(client)
                eventually(lambda one=one, n=number: one.starts >= n, 60, "it has begun")
                client.kill()
        yield count("ssh", "client killed, the same command again", requests, 10)
        for client in clients:
            client.wait()

    def close(self) -> None:
        self.nodes.close()
        super().close()
        self.net.close()


def client_killed(trial: Trial[SshArena]) -> None:
    arena = trial.arena
    started = trial.begin()
    trial.pause()
    arena.end_ssh()
    trial.end(started)


def session_killed(trial: Trial[SshArena]) -> None:
    node = trial.arena.node
    started = trial.begin()
    trial.pause()
    node.stop()
    node.start()
    trial.end(started)


def sshd_killed(trial: Trial[SshArena]) -> None:
    node = trial.arena.node
    trial.run()
    trial.follow()
    trial.pause()
    node.stop()
    trial.pause()
    node.start()


def cut_in_start(trial: Trial[SshArena]) -> None:
    net = trial.arena.net
    started = trial.begin()
    trial.pause()
    net.cut()
    trial.end(started)
    net.heal()


def cut_under_run(trial: Trial[SshArena]) -> None:
    arena = trial.arena
    trial.run()
    trial.follow()
    arena.net.cut()
    info = trial.info()
    assert info is not None
    assert (info["state"], info["outcome"]) == ("unknown", None), info["evidence"]
    time.sleep(trial.rng.choice((1, 16)))  # ssh gives up a connection after 15 s
    arena.net.heal()


def crowd(trial: Trial[SshArena]) -> None:
    every = [trial.begin() for _ in range(4)]
    for victim in every[:2]:
        trial.pause(most=0.5)
        victim.kill()
    for one in every:
        trial.end(one)


def node_side(trial: Trial[SshArena], point: str) -> None:
    node = trial.arena.node
    node.stop()
    node.set_environment({"HOLDFAST_CRASH_AT": f"{point}@launcher"})
    node.start()
    try:
        assert trial.start() == 6
    finally:
        node.stop()
        node.set_environment({})
        node.start()


def stopped_in_export(trial: Trial[SshArena]) -> None:
    arena = trial.arena
    assert arena.database is not None
    trial.run()
    export = arena.submitter.start("fleet", "export", "--on", arena.on)
    trial.pause()
    arena.database.stop()
    export.communicate(timeout=90)
    arena.database.start()
    assert export.returncode in (0, 6), export.returncode
