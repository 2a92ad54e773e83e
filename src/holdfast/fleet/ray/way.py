"""The way to Ray: hands this program's stdin, stdout and stderr to the bridge, and waits.

A program of its own, as `ssh` is one: whoever asks is not held up by Ray, and loads nothing of it.
The bridge is started by the first that needs it.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any

from holdfast.fleet.ray.words import NOT_REACHED, TAKEN
from holdfast.fleet.sockets import socket_folder
from holdfast.run.locks import wait_for_lock

_TRIES = 5  # a bridge may end just as somebody comes
_LONGEST_ANSWER = 1 << 16


def main(words: list[str]) -> int:
    """Ask the bridge for what the one word says, in JSON."""
    asked: dict[str, Any] = json.loads(words[0])
    is_terminal = asked["do"] == "session" and asked.get("on_terminal", False)
    if is_terminal:
        asked["size"] = _size()
        asked["term"] = os.environ.get("TERM", "")
    for _ in range(_TRIES):
        connection = _join(asked["address"])
        try:
            socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
            is_taken = connection.recv(1) == TAKEN
        except OSError:
            is_taken = False
        if is_taken:
            return _on_terminal(connection) if is_terminal else _wait(connection)
        connection.close()
    print("the bridge to Ray ends again and again", file=sys.stderr)
    return NOT_REACHED


def _wait(connection: socket.socket) -> int:
    try:
        answer = connection.recv(_LONGEST_ANSWER)
    except OSError:
        answer = b""
    if not answer:
        print("the bridge to Ray has ended", file=sys.stderr)
        return NOT_REACHED
    return int(json.loads(answer)["code"])


def _on_terminal(connection: socket.socket) -> int:
    import termios
    import tty

    before = termios.tcgetattr(0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    try:
        tty.setraw(0)
        while True:
            ready, _, _ = select.select([connection.fileno(), woken], [], [])
            if connection.fileno() in ready:
                return _wait(connection)
            os.read(woken, 1)
            connection.send(json.dumps({"size": _size()}).encode())
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _size() -> list[int]:
    size = os.get_terminal_size(0)
    return [size.lines, size.columns]


def _join(address: str) -> socket.socket:
    """A connection to the bridge of this user, which is started if there is none."""
    name = hashlib.sha256(f"{address}\0{sys.path}".encode()).hexdigest()[:16]
    path = f"{socket_folder('ray')}/{name}"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if _connects(connection, path):
        return connection
    with wait_for_lock(f"{path}.lock"):
        if not _connects(connection, path):
            _start(address, path)
            connection.connect(path)
    return connection


def _connects(connection: socket.socket, path: str) -> bool:
    try:
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    return True


def _start(address: str, path: str) -> None:
    """It gets a socket that listens already: whoever comes meanwhile waits."""
    try:
        os.unlink(path)
    except FileNotFoundError:  # the first one ever
        pass
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(128)
    fd = listening.fileno()
    with open(f"{path}.log", "ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "holdfast.fleet.ray.bridge", str(fd), address],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=[fd],
            start_new_session=True,
        )
    listening.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
