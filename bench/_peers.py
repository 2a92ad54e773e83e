"""Other supervisors to measure beside Holdfast: installed into .cache, started in a directory.

Each peer is started once as its own documentation says, and then asked to start a command. What
can't be installed here is left out, and said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "peers"
PACKAGES = ("supervisor==4.3.0", "circus==0.19.0", "setuptools<81")
PM2 = "pm2@7.0.4"


class Missing(Exception):
    """The peer can't be had on this machine."""


class Peer:
    """A manager under way. `start` is the call that starts the script, `remove` undoes it."""

    def __init__(self, directory: Path, script: Path) -> None:
        self.directory = directory
        self.script = script
        self.manager: subprocess.Popen[bytes] | None = None
        self.environment = dict(os.environ)
        self.number = 0

    def start(self) -> list[str]:
        raise NotImplementedError

    def remove(self) -> list[str]:
        raise NotImplementedError

    def close(self) -> None:
        if self.manager is not None:
            self.manager.terminate()
            self.manager.wait(20)

    def start_manager(self, *command: object) -> None:
        self.manager = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.environment,
        )


class Supervisor(Peer):
    """`supervisorctl start`: the cheapest way that it has, with the program configured before."""

    def __init__(self, directory: Path, script: Path) -> None:
        super().__init__(directory, script)
        self.config = directory / "supervisord.conf"
        socket = directory / "supervisor.sock"
        self.config.write_text(
            f"[unix_http_server]\nfile={socket}\n"
            f"[supervisord]\nnodaemon=true\nlogfile={directory}/log\npidfile={directory}/pid\n"
            "[rpcinterface:supervisor]\n"
            "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n"
            f"[supervisorctl]\nserverurl=unix://{socket}\n"
            f"[program:job]\ncommand={script}\nautostart=false\nautorestart=false\nstartsecs=0\n"
        )
        self.start_manager(_python_program("supervisord"), "-c", self.config)
        _wait(socket.exists)

    def start(self) -> list[str]:
        return [str(_python_program("supervisorctl")), "-c", str(self.config), "start", "job"]

    def remove(self) -> list[str]:
        return [str(_python_program("supervisorctl")), "-c", str(self.config), "stop", "job"]


class Circus(Peer):
    """`circusctl add --start`."""

    def __init__(self, directory: Path, script: Path) -> None:
        super().__init__(directory, script)
        self.endpoint = f"ipc://{directory}/c"
        config = directory / "circus.ini"
        config.write_text(
            f"[circus]\nendpoint={self.endpoint}\npubsub_endpoint=ipc://{directory}/p\n"
            "statsd=False\n"
        )
        self.start_manager(_python_program("circusd"), config)
        _wait((directory / "c").exists)

    def start(self) -> list[str]:
        self.number += 1
        return [*self._control(), "add", "--start", f"job{self.number}", str(self.script)]

    def remove(self) -> list[str]:
        return [*self._control(), "rm", f"job{self.number}"]

    def _control(self) -> list[str]:
        return [str(_python_program("circusctl")), "--endpoint", self.endpoint]


class Pm2(Peer):
    """`pm2 start`."""

    def __init__(self, directory: Path, script: Path) -> None:
        super().__init__(directory, script)
        self.environment["PM2_HOME"] = str(directory)
        subprocess.run(
            [_pm2(), "ping"], env=self.environment, check=True, capture_output=True, timeout=120
        )

    def start(self) -> list[str]:
        self.number += 1
        options = ["--name", f"job{self.number}", "--interpreter", "none", "--no-autorestart"]
        return [str(_pm2()), "start", str(self.script), *options]

    def remove(self) -> list[str]:
        return [str(_pm2()), "delete", f"job{self.number}"]

    def close(self) -> None:
        kill = [_pm2(), "kill"]
        subprocess.run(kill, env=self.environment, check=False, capture_output=True, timeout=60)


PEERS: dict[str, Callable[[Path, Path], Peer]] = {
    "supervisor": Supervisor,
    "circus": Circus,
    "pm2": Pm2,
}


def _python_program(name: str) -> Path:
    place = CACHE / "python"
    program = place / "bin" / name
    if not program.exists():
        _install([sys.executable, "-m", "venv", str(place)])
        _install([str(place / "bin" / "pip"), "install", "--quiet", *PACKAGES])
    return program


def _pm2() -> Path:
    program = CACHE / "node" / "node_modules" / ".bin" / "pm2"
    if not program.exists():
        if shutil.which("npm") is None:
            raise Missing("no npm")
        _install(["npm", "install", "--silent", "--prefix", str(CACHE / "node"), PM2])
    return program


def _install(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"{' '.join(command[:3])}: {error}") from None


def _wait(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Missing("its manager did not start")
        time.sleep(0.05)
