"""Machines of their own, as far as the network and the host's name tell: each a network namespace.

They hang on a bridge of this machine. `cut` takes a node's cable away: nothing gets there, and
nothing is told about it. Their processes are this machine's, and can be seen and ended from here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess


def _run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


class NetNode:
    """One machine, and its cable."""

    def __init__(self, name: str, bridge: str, number: int, subnet: str) -> None:
        self.name = name
        self.address = f"{subnet}.{number + 10}"
        self.link = f"{bridge}{number}"
        script = f"hostname {name} && ip link set lo up && echo ready && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", script], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        with self._holder.stdout as said:
            assert said.readline() == b"ready\n"
        pid = self._holder.pid
        _run(*f"ip link add {self.link} type veth peer name eth0 netns {pid}".split())
        _run("ip", "link", "set", self.link, "master", bridge, "up")
        _run(*self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0"))
        _run(*self.inside("ip", "link", "set", "eth0", "up"))
        _run(*self.inside("ip", "route", "add", "default", "via", f"{subnet}.1"))

    def inside(self, *command: object) -> list[str]:
        """A command on that machine."""
        enter = ["nsenter", "-t", str(self._holder.pid), "--net", "--uts", "--"]
        return [*enter, *map(str, command)]

    def cut(self) -> None:
        """Nothing gets there any more, and nothing is told."""
        _run("ip", "link", "set", self.link, "down")

    def heal(self) -> None:
        _run("ip", "link", "set", self.link, "up")

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        with contextlib.suppress(AssertionError):
            _run("ip", "link", "del", self.link)


class NetNodes:
    """A bridge of this machine, and nodes by name. `letter` keeps two of one process apart."""

    def __init__(self, letter: str, *names: str) -> None:
        pid = os.getpid()
        self.bridge = f"hf{pid % 1000000}{letter}"
        subnet = f"10.{100 + (pid // 250 + ord(letter)) % 100}.{pid % 250}"
        self.address = f"{subnet}.1"
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self.address}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")
        self.nodes = {name: NetNode(name, self.bridge, at, subnet) for at, name in enumerate(names)}

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        with contextlib.suppress(AssertionError):
            _run("ip", "link", "del", self.bridge)
