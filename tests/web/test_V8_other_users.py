"""V8: another user of the machine reads neither token nor data, and a connection is of no use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from holdfast.pytest_plugin import stop_all
from tests.support.features import needs
from tests.support.serving import serving

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
# What another user tries; of each what came of it.
TRIES = """
import http.client, json, os, socket, sys
home, sock, token, port, pid = sys.argv[1:]
def attempt(do):
    try:
        return do()
    except OSError as error:
        return type(error).__name__
def ask(path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return [answer.status, answer.read().decode()]
def dial():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(sock)
print(json.dumps({
    "uid": os.getuid(),
    "token": attempt(lambda: open(home + "/serve.token").read()),
    "token file": attempt(lambda: open(token).read()),
    "home": attempt(lambda: os.listdir(home)),
    "runs": attempt(lambda: os.listdir(home + "/runs")),
    "socket": attempt(dial),
    "remove": attempt(lambda: os.unlink(sock)),
    "environment": attempt(lambda: open(f"/proc/{pid}/environ").read()),
    "descriptors": attempt(lambda: os.listdir(f"/proc/{pid}/fd")),
    "command line": attempt(lambda: open(f"/proc/{pid}/cmdline").read()),
    "data": ask("/api/v1/runs"),
    "guessed": ask("/api/v1/runs", Authorization="Bearer " + "x" * 43),
    "metrics": ask("/metrics"),
    "page": ask("/"),
}))
"""


@pytest.fixture
def theirs(shared: Path, monkeypatch: pytest.MonkeyPatch):
    """A home below a directory that everybody may enter."""
    home = shared / "home"
    home.mkdir(0o700)
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    library = Runs(home)
    yield library
    assert stop_all(library) == []


def test_V8_another_user_gets_at_nothing(theirs, shared):
    needs("root")
    theirs.start(["sleep", "300"], name="secret-name", tags={"key": "secret-tag"})
    token, sock = shared / "token", shared / "web.sock"
    token.write_text("t" * 40)
    token.chmod(0o600)
    with serving() as served, serving("--socket", str(sock), "--token-file", str(token)):
        assert stat_of(sock) == stat_of(Path(theirs.home.path, "serve.token")) == "600"
        words = [theirs.home.path, sock, token, served.port, served.pid]
        done = subprocess.run(
            [*NOBODY, sys.executable, "-I", "-c", TRIES, *map(str, words)],
            capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found.pop("uid") == 65534
        for what in ("token", "token file", "home", "runs", "socket", "remove", "environment",
                     "descriptors"):  # fmt: skip
            assert found.pop(what) == "PermissionError", what
        for what in ("data", "guessed", "metrics"):
            assert found[what][0] == 401
        assert found["page"][0] == 200
        for what, said in found.items():
            assert "secret" not in str(said), what
            assert served.token not in str(said), what


def stat_of(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"
