"""A PostgreSQL of a test's own, in a directory, as an ordinary user, by its socket alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from tests.support.kernel_lab import OTHER_UID
from tests.support.sshd import as_user
from tests.support.waiting import eventually


def program(name: str) -> str:
    """Debian has those of the server outside PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name) or name


class Database:
    """A server: `url` is for `ledger`. `stop` is as sudden as a power cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = os.geteuid() or OTHER_UID
        folder.mkdir()
        folder.chmod(0o755)
        os.chown(folder, self.uid, self.uid)
        self._server: subprocess.Popen[bytes] | None = None
        made = [program("initdb"), "-D", str(folder / "data"), "-U", "hf", "-A", "trust", "-N"]
        subprocess.run([*as_user(self.uid), *made], check=True, capture_output=True, cwd="/")

    @property
    def url(self) -> str:
        return f"postgresql://hf@/postgres?host={self.folder}"

    def start(self) -> None:
        """Until it answers."""
        options = {"listen_addresses": "", "unix_socket_directories": str(self.folder)}
        options |= {"fsync": "off", "shared_buffers": "8MB", "unix_socket_permissions": "0777"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [*as_user(self.uid), program("postgres"), "-D", str(self.folder / "data"), *words]
        with open(self.folder / "log", "ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        ready = [program("pg_isready"), "-q", "-h", str(self.folder)]
        eventually(lambda: subprocess.run(ready, check=False).returncode == 0, 60, "it answers")

    def stop(self) -> None:
        """At once: its clients are cut off in the middle, and it recovers at its next start."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(60)
            self._server = None

    def pause(self) -> None:
        """Nothing of it answers, and no connection is cut."""
        for pid in self._pids():
            self._signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in reversed(self._pids()):  # the server last: until then it reaps none of them
            self._signal(pid, signal.SIGCONT)

    def _signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # a backend whose client has left meanwhile
            os.kill(pid, number)

    def _pids(self) -> list[int]:
        """The server, first, and what it forked."""
        assert self._server is not None
        server = self._server.pid
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return [server, *map(int, children)]

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.url, autocommit=True)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query gives."""
        with self.connect() as connection:
            return connection.execute(query, values).fetchall()
