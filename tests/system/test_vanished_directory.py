"""A live run's directory is deleted: it is told, its name is kept, and no second copy starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import AlreadyRunning, IdentityUnproven, RunNotFound, StillAlive
from holdfast.manage.removal.remove import remove_run, sweep
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from tests.support.running import delete_below_its_shim, is_alive, run_of, shim_pid, workload_pid
from tests.support.waiting import eventually


class Lost:
    """A run whose directory is gone, and who is alive of it."""

    def __init__(self, holdfast, *options: str, command: tuple[str, ...] = ("sleep", "600")):
        holdfast("run", "-n", "a", *options, *command, expect=0)
        self.run = run_of("a")
        # A reader may tell the workload before its shim has, which notes it in the marker later.
        noted = self.run.directory.noted_tokens
        eventually(lambda: len(noted()) == 3, 60, "shim, root and workload are noted")
        self.shim = ProcessIdentity.of(shim_pid("a"))
        self.workload = ProcessIdentity.of(workload_pid("a"))
        self.path = Path(self.run.directory.path)
        self.marker = Path(self.run.directory.home.active_path) / self.run.id

    def delete(self) -> None:
        delete_below_its_shim(self.path)

    def end(self) -> None:
        """Its shim stops it, as the hint says."""
        send_signal(self.shim, signal.SIGTERM)
        assert self.shim.wait(30)
        assert not is_alive(self.workload.pid)


@pytest.fixture
def lost(holdfast):
    lost = Lost(holdfast)
    lost.delete()
    yield lost
    for identity in (lost.shim, lost.workload):
        send_signal(identity, signal.SIGKILL)


def test_it_is_told_by_every_command_that_looks(holdfast, lost):
    (listed,) = holdfast("ls", "--json", expect=0).json["runs"]
    assert (listed["id"], listed["name"], listed["state"]) == (lost.run.id, "a", "unknown")
    assert listed["evidence"].startswith(f"directory deleted; alive: {lost.shim.pid}")
    assert len(listed["evidence"]) < 60, "it is the note in a list"
    (every,) = holdfast("ls", "--all", "--json", expect=0).json["runs"]
    assert every["state"] == "unknown"
    for reference in ("a", lost.run.id, lost.run.id[:12]):
        shown = holdfast("status", "--json", reference, expect=0).json
        assert (shown["id"], shown["state"]) == (lost.run.id, "unknown")
    assert "deleted" in holdfast("status", "a", expect=0).stdout
    told = holdfast("doctor", "--json", expect=1).json["findings"]
    (finding,) = [one for one in told if one["name"] == "vanished"]
    assert lost.run.id in str(finding)
    (recovered,) = holdfast("recover", "--json", "--dry-run").json["runs"]
    assert (recovered["id"], recovered["action"]) == (lost.run.id, "unknown")
    holdfast("recover")
    assert lost.marker.exists()
    lost.end()


@pytest.mark.parametrize("how", ["wait", "run -F"])
def test_who_waits_for_it_does_not_exit_as_if_the_run_had(holdfast, how):
    """A run's own exit code may be 3 or 4; that it is not known is 125."""
    run = ["-n", "a", "sh", "-c", "echo on; exec sleep 600"]
    if how == "wait":
        holdfast("run", *run, expect=0)
    words = holdfast.argv(*(["wait", "a"] if how == "wait" else ["run", "-F", *run]))
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        if how == "run -F":
            assert process.stdout.readline() == "on\n"  # it follows
        eventually(lambda: run_of("a").info().workload, 30)
        alive = [ProcessIdentity.of(shim_pid("a")), ProcessIdentity.of(workload_pid("a"))]
        delete_below_its_shim(Path(run_of("a").directory.path))
        said = process.communicate(timeout=60)[1]
    for identity in alive:
        send_signal(identity, signal.SIGKILL)
    assert process.returncode == 125
    assert "directory deleted" in said


def test_no_second_copy_starts_while_it_lives_and_then_the_name_is_free(holdfast, lost, tmp_path):
    for words in ([], ["--replace"]):
        done = holdfast("run", "-n", "a", *words, "touch", tmp_path / "second", expect=4)
        assert str(lost.shim.pid) in done.stderr
        assert f"holdfast signal TERM {lost.shim.token}" in done.stderr
    assert not (tmp_path / "second").exists()
    holdfast("signal", "TERM", lost.shim.token, expect=0)
    assert lost.shim.wait(30)
    assert not is_alive(lost.workload.pid)
    holdfast("run", "-n", "a", "touch", tmp_path / "second", expect=0)
    eventually((tmp_path / "second").exists, 30)


def test_its_shim_goes_on_and_makes_nothing_anew(holdfast, lost, runs):
    assert is_alive(lost.shim.pid)
    holdfast("stop", "a", expect=4)
    holdfast("wait", "a")
    assert not lost.path.exists()
    lost.end()
    assert not lost.path.exists()
    assert not lost.marker.exists(), "its shim saw the end"
    assert runs.list() == []
    with pytest.raises(RunNotFound):
        runs.get("a")


def test_a_workload_without_shim_and_directory_keeps_its_name(holdfast, lost, runs):
    send_signal(lost.shim, signal.SIGKILL)
    assert lost.shim.wait(30)
    with pytest.raises(AlreadyRunning) as caught:
        runs.start(["true"], name="a")
    assert caught.value.pid == lost.workload.pid
    assert f"signal TERM {lost.workload.token}` asks it to end" in str(caught.value.hint)
    assert str(caught.value).count(str(lost.workload.pid)) == 1
    send_signal(lost.workload, signal.SIGKILL)
    assert lost.workload.wait(30)
    assert runs.list() == [], "proven gone"
    assert lost.marker.exists()
    holdfast("recover")
    assert not lost.marker.exists()
    runs.start(["true"], name="a")


def test_a_marker_that_names_nobody_still_keeps_the_name_by_the_stamp(lost, runs):
    """As one of an earlier version, or one that a full disk did not take."""
    lost.marker.write_bytes(b"hf1.12.to")
    with pytest.raises(AlreadyRunning) as caught:
        runs.start(["true"], name="a")
    assert str(lost.workload.pid) in caught.value.message
    lost.marker.unlink()
    with pytest.raises(AlreadyRunning):
        runs.start(["true"], name="a")
    lost.end()
    runs.start(["true"], name="a")


def test_a_run_whose_files_alone_were_deleted_is_the_same(holdfast, runs):
    lost = Lost(holdfast)
    for path in lost.path.iterdir():
        path.unlink()
    assert [info.state for info in runs.list()] == ["unknown"]
    with pytest.raises(AlreadyRunning):
        runs.start(["true"], name="a")
    lost.end()
    runs.start(["true"], name="a")


def test_a_key_starts_no_second_copy_either(holdfast, runs):
    lost = Lost(holdfast, "--key", "k")
    lost.delete()
    with pytest.raises(AlreadyRunning):
        runs.start(["true"], name="b", key="k")
    lost.end()
    assert runs.start(["true"], name="b", key="k").id != lost.run.id


def test_it_is_not_removed_while_it_lives_whoever_says_so(lost):
    with pytest.raises(StillAlive):
        remove_run(lost.run.directory, force=True)
    sweep(lost.run.directory.home)
    assert lost.marker.exists()
    # Nobody is proven: it takes the user's word.
    lost.marker.write_bytes(b"")
    with pytest.raises(IdentityUnproven):
        remove_run(lost.run.directory)
    removed = remove_run(lost.run.directory, force=True)
    assert (removed.name, removed.freed_bytes) == ("a", 0)
    assert not lost.marker.exists()
    lost.end()


@pytest.mark.parametrize(
    "words",
    [
        ["logs", "a"],
        ["logs", "-f", "a"],
        ["tree", "a"],
        ["events", "a"],
        ["result", "a"],
        ["report", "a"],
        ["send", "a", "x"],
        ["signal", "USR1", "a"],
        ["attach", "a"],
        ["resume", "a"],
        ["rerun", "a"],
        ["rm", "a"],
        ["rm", "--stop", "a"],
        ["archive", "a"],
        ["clean", "--keep", "0"],
        ["wait", "a"],
        ["stop", "a"],
        ["usage"],
    ],
    ids=" ".join,
)
def test_no_command_fails_of_it(holdfast, lost, words):
    done = holdfast(*words)
    assert done.returncode in (0, 1, 2, 3, 4, 6, 125), done.stderr
    assert "Traceback" not in done.stderr
    assert is_alive(lost.workload.pid)
    assert not lost.path.exists()
    lost.end()


def test_a_run_that_ends_by_itself_leaves_nothing(holdfast, runs, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    lost = Lost(holdfast, command=("sh", "-c", f"read x <{go}; exit 3"))
    lost.delete()
    with go.open("w") as file:
        file.write("\n")
    assert lost.shim.wait(30)
    assert runs.list() == []
    assert not lost.marker.exists()
    assert not lost.path.exists()
