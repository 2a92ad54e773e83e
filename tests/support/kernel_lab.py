"""Runs a function in a real place: a fresh PID namespace, another user, another boot id or clock.

`run_in(Place(...), function, **arguments)` starts an interpreter there, imports the function by
name and gives its JSON result back. The function must be importable without pytest, so scenes live
in `tests/support/*_scenes.py`. Everything that a scene started in a PID namespace dies with it.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Self

from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
OTHER_UID = 65534
"""An ordinary user: `nobody`, who owns nothing here."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MACHINE_ID = "/etc/machine-id"
_PLAY = "from tests.support import kernel_lab; kernel_lab.play()"


class SceneFailed(AssertionError):
    """The scene raised, died or printed no result; the message has its traceback."""


class Place(NamedTuple):
    """Where a scene plays. The default is a fresh PID namespace, as the user that we are."""

    pid_namespace: bool = True
    uid: int | None = None
    boottime_offset_seconds: int | None = None
    covers: Mapping[str, str] = {}
    """File path -> content that is bind-mounted over it, in a private mount namespace."""
    hidepid: int | None = None
    env: Mapping[str, str] = {}
    init_reaps: bool = True
    """Whether PID 1 of the namespace reaps orphans."""


class Scene:
    """A scene under way. Leaving the `with` block kills it, and its namespace with it."""

    def __init__(self, place: Place, function: Callable[..., Any], arguments: dict[str, Any]):
        self._result = tempfile.TemporaryFile()
        self._said = tempfile.TemporaryFile()
        request = {
            "module": function.__module__,
            "function": function.__qualname__,
            "arguments": arguments,
            "covers": dict(place.covers),
            "hidepid": place.hidepid,
            "init_reaps": place.init_reaps,
            "result_fd": self._result.fileno(),
        }
        with tempfile.TemporaryFile() as stdin:
            stdin.write(json.dumps(request).encode())
            stdin.seek(0)
            self.process = subprocess.Popen(
                [*_prefix(place), python_for(place.uid), "-c", _PLAY],
                stdin=stdin,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[self._result.fileno()],
                cwd="/",
                env=_environment(place),
            )

    def result(self, timeout: float = 60) -> Any:
        """What the function returned. Raises SceneFailed with all that was said otherwise."""
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.close()
            raise SceneFailed(f"no result within {timeout} s\n{_content(self._said)}") from None
        answers = [answer for answer in self._answers() if "result" in answer]
        if status or not answers:
            raise SceneFailed(f"status {status}\n{_content(self._said)}")
        return answers[0]["result"]

    def announced(self, timeout: float = 30) -> Any:
        """What the scene announced first, as soon as it has; it goes on meanwhile."""

        def look() -> list[Any]:
            is_over = self.process.poll() is not None
            found = [answer["announced"] for answer in self._answers() if "announced" in answer]
            if is_over and not found:
                raise SceneFailed(f"nothing announced\n{_content(self._said)}")
            return found

        told = f"/proc/self/fd/{self._result.fileno()}"
        return eventually(look, timeout, "an announcement", watching=lambda: [told])[0]

    def _answers(self) -> list[dict[str, Any]]:
        whole_lines = _content(self._result).rpartition("\n")[0]
        return [json.loads(line) for line in whole_lines.splitlines()]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
        self._result.close()
        self._said.close()


def start_in(place: Place, function: Callable[..., Any], **arguments: Any) -> Scene:
    """Start `function` in `place` and go on; use as a context manager."""
    return Scene(place, function, arguments)


def run_in(
    place: Place, function: Callable[..., Any], *, timeout: float = 60, **arguments: Any
) -> Any:
    """Run `function` in `place` and give its result back."""
    with start_in(place, function, **arguments) as scene:
        return scene.result(timeout)


@functools.cache
def python_for(uid: int | None) -> str:
    """An interpreter that this user can run: ours may lie below a home that is closed to others."""
    if uid is None or uid == os.geteuid():
        return sys.executable
    check = "import sys, json, ctypes; sys.exit(sys.version_info < (3, 11))"
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        # Through a shell: setpriv keeps root's capabilities until it has done its own exec.
        command = [*_as_user(uid), "sh", "-c", 'exec "$0" -c "$1"', candidate, check]
        if subprocess.run(command, check=False, capture_output=True, cwd="/").returncode == 0:
            return candidate
    raise SceneFailed(f"no interpreter of version 3.11 or later that uid {uid} can run")


def _as_user(uid: int) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def _prefix(place: Place) -> list[str]:
    ordinary = os.geteuid() != 0
    prefix: list[str] = []
    if place.uid is not None and place.uid != os.geteuid():
        prefix += _as_user(place.uid)
        ordinary = place.uid != 0
    options: list[str] = []
    if place.pid_namespace:
        options += ["--pid", "--mount-proc"]
    if place.covers or place.hidepid is not None:
        options += ["--mount"]
    if place.boottime_offset_seconds is not None:
        options += ["--time", "--boottime", str(place.boottime_offset_seconds)]
    if not options:
        return prefix
    if ordinary:
        options = ["--user", "--map-root-user", *options]
    return [*prefix, "unshare", "--fork", "--kill-child", *options, "--"]


def _environment(place: Place) -> dict[str, str]:
    site_packages = [path for path in sys.path if path.endswith("site-packages")]
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *site_packages])
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HOLDFAST_") or name.startswith("HOLDFAST_TEST_")
    }
    return {**kept, "PYTHONPATH": python_path, "PYTHONDONTWRITEBYTECODE": "1", **place.env}


def _content(file: IO[bytes]) -> str:
    # Not by seek: the offset is shared with the scene, which is writing.
    return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")


# The part that runs in the place itself.

_result_fd = -1


def announce(value: Any) -> None:
    """For a scene: tell the test something and go on."""
    os.write(_result_fd, json.dumps({"announced": value}).encode() + b"\n")


def play() -> NoReturn:
    """The interpreter in the place starts here."""
    global _result_fd
    request = json.load(sys.stdin)
    _result_fd = request["result_fd"]
    for path, content in request["covers"].items():
        _cover(path, content)
    if request["hidepid"] is not None:
        _run("mount", "-t", "proc", "-o", f"hidepid={request['hidepid']}", "proc", "/proc")
    if os.getpid() == 1:
        _be_init(request["init_reaps"])
    _act(request)


def _cover(path: str, content: str) -> None:
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o444)
    _run("mount", "--bind", file.name, path)
    os.unlink(file.name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _be_init(reaps: bool) -> None:
    """Fork the scene (which returns); PID 1 stays to reap, and ends the namespace after it."""
    worker = os.fork()
    if worker == 0:
        return
    while True:
        pid, status = os.waitpid(-1 if reaps else worker, 0)
        if pid == worker:
            os._exit(0 if status == 0 else 1)


def _act(request: dict[str, Any]) -> NoReturn:
    try:
        function: Any = importlib.import_module(request["module"])
        for name in request["function"].split("."):
            function = getattr(function, name)
        answer = {"result": function(**request["arguments"])}
        os.write(_result_fd, json.dumps(answer).encode() + b"\n")
    except BaseException:  # noqa: BLE001 - whatever it was, the test has to see it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
