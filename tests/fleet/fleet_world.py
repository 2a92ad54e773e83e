"""A submitter and the nodes that it places runs on, as one user of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.cli import Finished
from tests.support.sshd import Node, as_user, end_shared_connections, write_program


class Submitter:
    """A home, a config and the command line of one user: `submitter("ls", "--fleet")`."""

    def __init__(self, folder: Path, uid: int, name: str = "submitter") -> None:
        self.folder = folder / name
        self.uid = uid
        self.home = self.folder / "home"
        self.config = self.folder / "config" / "holdfast" / "config.toml"
        self.runtime = self.folder / "run"
        self.program = self.folder / "holdfast"
        for path in (self.home, self.config.parent, self.runtime):
            path.mkdir(parents=True, mode=0o700)
        write_program(self.program, uid)
        if uid != os.geteuid():
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, uid, uid)

    def env(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
        return {
            **kept,
            "HOLDFAST_HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "HOME": str(self.folder),
            **more,
        }

    def argv(self, *args: object) -> list[str]:
        """The command, for tests that start it in their own way."""
        return [*as_user(self.uid), str(self.program), *map(str, args)]

    def start(self, *args: object, **more: str) -> subprocess.Popen[bytes]:
        """The command, under way."""
        return subprocess.Popen(
            self.argv(*args),
            env=self.env(**more),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def __call__(
        self,
        *args: object,
        expect: int | None = None,
        env: dict[str, str] | None = None,
        stdin: bytes = b"",
        timeout: float = 100,
    ) -> Finished:
        """Runs it to its end."""
        done = subprocess.run(
            self.argv(*args),
            check=False,
            capture_output=True,
            env=self.env(**(env or {})),
            cwd="/",
            input=stdin,
            timeout=timeout,
        )
        finished = Finished(done.args, done.returncode, done.stdout, done.stderr)
        if expect is not None and finished.returncode != expect:
            raise AssertionError(f"exit {finished.returncode}, not {expect}: {finished!r}")
        return finished

    def info(self, reference: str) -> dict[str, Any]:
        """`status --json`."""
        document: dict[str, Any] = self("status", reference, "--json", expect=0).json
        return document


class World:
    """Nodes by name, and those who use them; all end together."""

    def __init__(self, folder: Path, uid: int) -> None:
        self.folder = folder
        self.uid = uid
        self.nodes: dict[str, Node] = {}
        self.submitters: list[Submitter] = []
        os.chmod(folder, 0o755)

    def submitter(self, name: str = "submitter") -> Submitter:
        made = Submitter(self.folder, self.uid, name)
        self.submitters.append(made)
        return made

    def node(self, name: str, **more: Any) -> Node:
        """One that listens."""
        made = self.nodes[name] = Node(self.folder / name, uid=self.uid, **more)
        made.start()
        return made

    def configure(self, text: str = "", **more: str) -> None:
        """Every submitter knows every node."""
        tables = text + "".join(node.table(name, **more) for name, node in self.nodes.items())
        for one in self.submitters:
            one.config.write_text(tables)
            os.chmod(one.config, 0o644)

    def on(self, node: Node, *args: object, timeout: float = 60) -> Finished:
        """A command of the node's own holdfast, without ssh."""
        env = {**os.environ, "HOLDFAST_HOME": str(node.home), "HOME": str(node.user_home)}
        argv = [*as_user(self.uid), str(node.program), *map(str, args)]
        done = subprocess.run(argv, check=False, capture_output=True, env=env, timeout=timeout)
        return Finished(done.args, done.returncode, done.stdout, done.stderr)

    def run_ids(self, node: Node) -> list[str]:
        """The runs that the node has a record of."""
        path = node.home / "runs"
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []

    def close(self) -> None:
        """End every run, daemon and shared connection."""
        for node in self.nodes.values():
            if (node.home / "runs").is_dir():
                self.on(node, "stop", "--all", "--grace", "0")
            node.stop()
        for one in self.submitters:
            end_shared_connections(one.runtime / "holdfast-ssh")
