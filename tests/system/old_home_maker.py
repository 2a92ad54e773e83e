"""Makes data/home-0.1.0: `python -m tests.system.old_home_maker`, as root, with the git history.

The real code of that version runs in namespaces with a machine id, a boot id, a home and paths that
belong to nobody. Then it says what it knows of the home that is stored, as a test will lay it out.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.process import procfs
from tests.support import pretend_claude
from tests.support.kernel_lab import BOOT_ID, MACHINE_ID, Place, run_in
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually
from tests.system.old_home import (
    DATA,
    EXPECTED,
    HOST,
    MACHINE,
    MADE_AT,
    STORED,
    Json,
    OldCommandLine,
    lay_out,
    old_source,
    this_host,
)

EARLIER_BOOT = "0b007000-0000-4000-8000-000000000001"
UNENDED = ("orphaned", "running")

# What is played inside the namespaces.


def make(source: str, claude: str, made: str) -> None:
    """Runs of every kind; a copy of their home goes to `made`."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/home"], check=True)
    shutil.copytree(source, "/home/user/holdfast")
    os.makedirs("/home/user/project")
    os.makedirs("/home/user/bin")
    program = Path("/home/user/bin/claude")
    program.write_text(f"#!/usr/bin/python3\n{claude}")
    program.chmod(0o755)
    os.chdir("/home/user/project")
    old = OldCommandLine("/home/user/holdfast", "/usr/bin/python3", *_BARE)
    _ended(old)
    _stopped(old)
    _recovered(old)
    _agents(old)
    _start(old, "orphaned", "--tag", "team=red", "sh", "-c", "echo going; sleep 600; true")
    os.kill(_known(old, "orphaned")["shim"]["pid"], 9)
    eventually(lambda: old.status("orphaned")["state"] == "orphaned")
    slow = ("sh", "-c", "echo begun; sleep 600; true")
    _start(old, "running", "--sample-interval", "0.2", "--timeout", "1h", *slow)
    _known(old, "running")
    shutil.copytree(
        "/home/user/.local/state/holdfast", made, ignore=shutil.ignore_patterns("control")
    )


_BARE = ("env", "-i", "PATH=/usr/bin:/bin:/home/user/bin", "HOME=/home/user", "LANG=C.UTF-8")
_STUBBORN_TREE = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "600"], start_new_session=True)
subprocess.Popen(["sleep", "600"])
print("up", flush=True)
time.sleep(600)
"""


def _start(old: OldCommandLine, name: str, *words: str) -> None:
    old("run", "-n", name, *words, expect=127 if name == "not-found" else 0)


def _known(old: OldCommandLine, name: str) -> Json:
    """The run once its workload is known and a sample was taken."""

    def look() -> Json | None:
        status = old.status(name)
        return status if status["workload"] and status["usage"] else None

    return eventually(look)


def _processes(old: OldCommandLine, name: str, count: int) -> Json | None:
    """The run, if so many processes were sampled in it."""
    status = old.status(name)
    return status if (status["usage"] or {}).get("peak_processes") == count else None


def _ended(old: OldCommandLine) -> None:
    both = ["sh", "-c", "echo hello; echo oops >&2"]
    _start(old, "succeeded", "--tag", "team=blue", "--key", "build-7", "--split-stderr", *both)
    _start(old, "failed", "sh", "-c", "echo no; exit 3")
    _start(old, "restarted", "--restart", "on-failure:2", "sh", "-c", "echo again; exit 5")
    _start(old, "killed", "sh", "-c", "kill -9 $$")
    _start(old, "not-found", "no-such-program")
    _start(old, "timed-out", "--timeout", "1s", "--grace", "1s", "sleep", "600")
    done = "echo working; echo all done; sleep 600"
    _start(old, "completed", "--done-when", "all done", "--drain", "0.2s", "sh", "-c", done)
    _start(old, "terminal", "--pty", "sh", "-c", "stty size; echo bye")
    inner = "python3 -m holdfast run -n inner sh -c 'echo inside'; python3 -m holdfast wait inner"
    _start(old, "outer", "sh", "-c", inner)
    names = ("succeeded", "failed", "restarted", "killed", "timed-out", "completed", "terminal")
    old("wait", *names, "outer", "inner")


def _stopped(old: OldCommandLine) -> None:
    _start(old, "stopped", "--sample-interval", "0.2", "python3", "-c", _STUBBORN_TREE)
    eventually(lambda: _processes(old, "stopped", 3))
    old("stop", "--grace", "0.3s", "stopped")
    _start(old, "survived", "--sample-interval", "0.2", "python3", "-c", _STUBBORN_TREE)
    root = eventually(lambda: _processes(old, "survived", 3))["workload"]["pid"]
    with held_at_exit((procfs.children(root) or [])[0]):
        old("stop", "--grace", "0", "survived")


def _recovered(old: OldCommandLine) -> None:
    _start(old, "adopted", "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 7")
    os.kill(_known(old, "adopted")["shim"]["pid"], 9)
    eventually(lambda: old.status("adopted")["state"] == "orphaned")
    old("recover", expect=0)
    Path("go").touch()
    old("wait", "adopted")
    _start(old, "lost", "sleep", "600")
    both = _known(old, "lost")
    for process in (both["shim"], both["workload"]):
        os.kill(process["pid"], 9)
    eventually(lambda: old.status("lost")["state"] == "ended")
    old("recover", expect=0)


def _agents(old: OldCommandLine) -> None:
    stream = ("--output-format", "stream-json", "--verbose")
    _start(old, "agent", "--", "claude", *stream, "-p", "one")
    old("wait", "agent")
    first = old.status("agent")["id"]
    old("resume", "agent", "two", expect=0)
    old("wait", "agent")
    assert old.status("agent")["resumed_from"] == first
    _start(old, "agent-limit", "--", "claude", *stream, "-p", "limit")
    old("wait", "agent-limit")


# What makes the data.


def main() -> None:
    from tests.system.old_home_maker import make  # a scene is imported by its module's name

    with tempfile.TemporaryDirectory() as scratch:
        source = str(old_source(Path(scratch, "old")))
        made = f"{scratch}/made"
        place = Place(covers={MACHINE_ID: f"{MACHINE}\n", BOOT_ID: f"{EARLIER_BOOT}\n"})
        claude = Path(pretend_claude.__file__).read_text()
        run_in(place, make, timeout=120, source=source, claude=claude, made=made)
        _store(Path(made))
        document = _said_by(source)
    text = json.dumps(document).replace(this_host(), HOST)
    EXPECTED.write_text(text.replace(', "0', ',\n"0') + "\n")  # a line for each run


def _store(made: Path) -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    shutil.copytree(made, STORED)
    MADE_AT.write_text(f"{int(time.time())}\n")
    for path in [STORED, *STORED.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    (STORED / "index.sqlite3").unlink(missing_ok=True)  # can be deleted at any time


@contextlib.contextmanager
def _laid_out(source: str) -> Iterator[OldCommandLine]:
    with tempfile.TemporaryDirectory() as home:
        lay_out(Path(home))
        os.environ["HOLDFAST_HOME"] = home
        yield OldCommandLine(source)


def _said_by(source: str) -> Json:
    """What that version says of the stored home: at first, of a wait, and after a recovery."""
    with _laid_out(source) as old:
        at_first = {run["id"]: run for run in _runs(old)}
    with _laid_out(source) as old:
        waited = {run_id: old("wait", run_id).returncode for run_id in at_first}
    with _laid_out(source) as old:
        told = old("recover", "--json", expect=0).json["runs"]
        after = {run["id"]: run for run in _runs(old) if run["name"] in UNENDED}
        for run in after.values():
            del run["shim"]  # the adopter is a process of the machine that made the data
    return {"status": at_first, "wait": waited, "recover": told, "recovered": after}


def _runs(old: OldCommandLine) -> list[Json]:
    listed = old("ls", "--all", "--json", expect=0).json["runs"]
    return [old.status(run["id"]) for run in listed]


if __name__ == "__main__":
    main()
