"""A real sshd on loopback, with keys, a config and a Holdfast home of its own: one node.

It runs as root or as an ordinary user, and lets in only the user that it runs as. Everything lies
in one directory; `Node.stop` ends the daemon and its sessions, as a cut link would; runs go on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.support.kernel_lab import BOOT_ID, ROOT, python_for
from tests.support.waiting import eventually

SSHD = "/usr/sbin/sshd"
_CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
LogLevel ERROR
MaxStartups 100
MaxSessions {sessions}
SetEnv {environment}
"""
_PROGRAM = """\
#!{python}
import sys
sys.path[:0] = {paths!r}
from holdfast.cli import program
program()
"""
# An ordinary user of this machine may have no shell: the daemon sees another /etc/passwd. And other
# groups: it would give a terminal to the group `tty`, which only root can.
_IN_FOLDER = (
    'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'
)
_AFTER_POWER_CUT = f'mount --bind "$0/boot_id" {BOOT_ID} && exec "$@"'


def as_user(uid: int) -> list[str]:
    """What makes a command run as that user."""
    if uid == os.geteuid():
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


def write_program(path: Path, uid: int) -> None:
    """The `holdfast` of this checkout, as a program that the user can run."""
    paths = [str(ROOT / "src"), *(p for p in sys.path if p.endswith("site-packages"))]
    path.write_text(_PROGRAM.format(python=python_for(uid), paths=paths))
    path.chmod(0o755)


class Node:
    """One sshd and what a submitter needs to get there."""

    def __init__(
        self,
        folder: Path,
        *,
        uid: int,
        sessions: int = 10,
        env: dict[str, str] | None = None,
        address: str = "127.0.0.1",
        inside: Sequence[str] = (),
    ) -> None:
        """`inside`: what makes a command run on another machine, which has that address."""
        self.folder = folder
        self.uid = uid
        self.home = folder / "home"
        self.program = folder / "holdfast"
        self.user_home = folder / "user"
        self.port = _free_port()
        self.address = address
        self._inside = inside
        self._sessions = sessions
        self._sshd: subprocess.Popen[bytes] | None = None
        self._lay_out(env or {})

    def _lay_out(self, env: dict[str, str]) -> None:
        folder = self.folder
        folder.mkdir(parents=True)
        self.user_home.mkdir()
        self.home.mkdir(mode=0o700)
        for name in ("host_key", "user_key"):
            made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(made, check=True)
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        kind, key = (folder / "host_key.pub").read_text().split()[:2]
        (folder / "known_hosts").write_text(f"[{self.address}]:{self.port} {kind} {key}\n")
        entry = f"tester:x:{self.uid}:{self.uid}::{self.user_home}:/bin/sh\n"
        (folder / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\n{entry}")
        (folder / "group").write_text(f"root:x:0:\ntester:x:{self.uid}:\n")
        write_program(self.program, self.uid)
        self.set_environment(env)
        if self.uid != os.geteuid():
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.uid)

    def set_environment(self, env: dict[str, str]) -> None:
        """What a session has, from the next start of the daemon on."""
        environment = {
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_TEST_TAG": os.environ.get("HOLDFAST_TEST_TAG", ""),
            "HOME": str(self.user_home),
            **env,
        }
        shown = " ".join(f'{name}="{value}"' for name, value in environment.items())
        config = _CONFIG.format(
            port=self.port,
            address=self.address,
            folder=self.folder,
            environment=shown,
            sessions=self._sessions,
        )
        (self.folder / "sshd_config").write_text(config)

    def start(self) -> None:
        """Let it listen."""
        command = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
            if self.uid != 0:
                unshared = ["unshare", "--mount", "sh", "-c", _IN_FOLDER, str(self.folder)]
                command = [*unshared, *as_user(self.uid), *command]
            if (self.folder / "boot_id").exists():
                booted = ["unshare", "--mount", "sh", "-c", _AFTER_POWER_CUT, str(self.folder)]
                command = [*booted, *command]
        with open(self.folder / "sshd.log", "ab") as log:
            self._sshd = subprocess.Popen([*self._inside, *command], stderr=log)
        eventually(self._listens, 60, "sshd listens")

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1):
            return True
        return False

    def commands(self) -> list[str]:
        """The command lines of what submitters have under way here."""
        found = [] if self._sshd is None else _descendants(self._sshd.pid)
        return [line for _, line in found if str(self.program) in line]

    def stop(self) -> None:
        """End the daemon and every session."""
        if self._sshd is None:
            return
        self._sshd.send_signal(signal.SIGSTOP)  # no session comes after the look
        sessions = self._session_pids()
        self._sshd.kill()
        _kill(sessions)
        self._sshd.wait()
        self._sshd = None

    def kill_sessions(self) -> None:
        """End every session; the daemon listens on."""
        _kill(self._session_pids())

    def _session_pids(self) -> list[int]:
        found = [] if self._sshd is None else _descendants(self._sshd.pid)
        return [pid for pid, line in found if line.startswith("sshd")]

    def cut_power(self) -> None:
        """End the daemon, every session and every run; at the next start it is another boot."""
        self.stop()
        tag = f"HOLDFAST_HOME={self.home}".encode()
        found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        _kill([pid for pid in found if tag in _environment_of(pid)])
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")

    @property
    def ssh_options(self) -> list[str]:
        """For `options` of [fleet.engine.NAME]."""
        return [
            *("-F", "none", "-p", str(self.port), "-i", str(self.folder / "user_key")),
            *("-l", "root" if self.uid == 0 else "tester"),
            *("-o", f"UserKnownHostsFile={self.folder / 'known_hosts'}"),
        ]

    def table(self, name: str, **more: str) -> str:
        """Its table of config.toml."""
        options = ", ".join(f'"{word}"' for word in self.ssh_options)
        rows = {"host": self.address, "command": str(self.program), "answer": "60s", **more}
        lines = [f"[fleet.engine.{name}]", 'kind = "ssh"', f"options = [{options}]"]
        lines += [f'{key} = "{value}"' for key, value in rows.items()]
        return "\n".join(lines) + "\n"


def end_shared_connections(folder: Path) -> None:
    """End the ssh processes that keep connections for a minute."""
    for path in folder.iterdir() if folder.is_dir() else ():
        command = ["ssh", "-F", "none", "-o", f"ControlPath={path}", "-O", "exit", "nowhere"]
        subprocess.run(command, check=False, capture_output=True, timeout=30)


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _environment_of(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _descendants(pid: int) -> list[tuple[int, str]]:
    """Each process below, with its command line."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        for child in map(int, children.split()):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                found += [(child, line.decode(errors="replace")), *_descendants(child)]
    return found


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
