"""`--worktree-setup`: a supervised first step of the run, before its command; or there is none."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.repositories import Repository
from tests.support.running import ended, info_of, output_of
from tests.support.waiting import eventually


@pytest.fixture
def repository(tmp_path):
    return Repository.with_commit(tmp_path / "repo")


def words(repository: Repository, setup: str, *command: str, name: str = "a") -> list[object]:
    where = ["--worktree", f"b-{name}", "-C", repository.path / "sub"]
    return ["run", "-n", name, *where, "--worktree-setup", setup, *command]


def log_of(name: str) -> str:
    home = Path(os.environ["HOLDFAST_HOME"])
    return (home / "runs" / info_of(name).id / "setup.log").read_text()


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def pid_in(path: Path) -> int:
    return int(eventually(lambda: path.read_text().strip() if path.exists() else ""))


def test_it_is_done_at_the_top_of_the_worktree_before_the_command(holdfast, repository):
    setup = 'pwd; echo "$PWD"; echo warn >&2; printf made >made; sleep 0.2; cat'
    command = ["sh", "-c", "cat ../made; exit 7"]
    holdfast(*words(repository, setup, *command), expect=0)
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("failed", 7)
    assert output_of("a") == b"made", "the setup's output is not the command's"
    top = info.worktree["path"]
    assert log_of("a") == f"{top}\n{top}\nwarn\n"
    assert info.worktree["setup"] == setup
    assert info.cwd == f"{top}/sub"
    assert "set up by: pwd" in holdfast("status", "a").stdout
    # Once, in a fresh worktree: not for the same command again in it.
    holdfast("rerun", "a", expect=0)
    assert ended("a").worktree is None


def test_one_that_fails_is_a_failed_start_and_the_command_never_runs(holdfast, repository):
    setup = "echo no such package >&2; exit 3"
    said = holdfast(*words(repository, setup, "touch", "ran"), expect=125).stderr
    assert "the setup of its worktree exited 3" in said
    assert "setup.log" in said
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("never_started", 125)
    assert info.workload is None
    assert log_of("a") == "no such package\n"
    assert not (Path(info.worktree["path"]) / "sub" / "ran").exists()
    # It is kept to be looked at, as that of any failed start, and goes with the run.
    assert repository.worktrees() == [info.worktree["path"]]
    holdfast("rm", "a", expect=0)
    assert repository.worktrees() == []


def test_one_that_takes_longer_than_the_run_may_is_stopped(holdfast, repository, tmp_path):
    setup = f"echo $$ >{tmp_path}/pid; exec sleep 600"
    command = words(repository, setup, "touch", "ran")
    said = holdfast(command[0], "--timeout", "1s", *command[1:], expect=125).stderr
    assert "the setup of its worktree took over 1 s" in said
    assert ended("a").outcome == "never_started"
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_what_a_failed_setup_leaves_is_stopped(holdfast, repository, tmp_path):
    setup = f"setsid sleep 600 & echo $! >{tmp_path}/pid; sleep 0.1; exit 1"
    holdfast(*words(repository, setup, "true"), expect=125)
    assert ended("a").outcome == "never_started"
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_what_a_setup_starts_serves_the_command_and_is_stopped_with_it(
    holdfast, repository, tmp_path
):
    setup = f"sleep 600 & echo $! >{tmp_path}/pid"
    alive = f"kill -0 $(cat {tmp_path}/pid) && echo alive"
    holdfast(*words(repository, setup, "sh", "-c", alive), expect=0)
    assert ended("a").outcome == "succeeded"
    assert output_of("a") == b"alive\n"
    assert not is_alive(pid_in(tmp_path / "pid"))


def started(
    holdfast, repository: Repository, tmp_path: Path, *command: str
) -> tuple[subprocess.Popen[bytes], int]:
    """A start whose setup goes on, and the setup's PID."""
    setup = f"echo $$ >{tmp_path}/pid; exec sleep 600"
    asked = holdfast.argv(*words(repository, setup, *(command or ("true",))))
    launcher = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return launcher, pid_in(tmp_path / "pid")


def test_a_stop_ends_it_and_the_command_never_runs(holdfast, repository, tmp_path):
    launcher, pid = started(holdfast, repository, tmp_path, "touch", "ran")
    assert info_of("a").state == "starting"
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert (info.outcome, info.stop_reason) == ("stopped", "user")
    assert not is_alive(pid)
    assert not (Path(info.worktree["path"]) / "sub" / "ran").exists()
    launcher.wait()


def test_killed_from_outside_it_is_a_failed_start(holdfast, repository, tmp_path):
    launcher, pid = started(holdfast, repository, tmp_path)
    os.kill(pid, signal.SIGKILL)
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("never_started", 125)
    assert "was ended by signal 9" in info.evidence
    assert launcher.wait() == 125


def test_nothing_goes_on_when_the_shim_dies_meanwhile(holdfast, repository, tmp_path):
    launcher, pid = started(holdfast, repository, tmp_path, "touch", "ran")
    shim = info_of("a").shim
    assert shim is not None
    os.kill(shim["pid"], signal.SIGKILL)
    launcher.wait()
    eventually(lambda: not is_alive(pid))
    holdfast("recover")
    info = ended("a")
    # An adopter that still meets the child, or its zombie, sees that it never was the command.
    assert info.outcome in ("never_started", "lost")
    assert info.exit_code in (125, None)
    assert not (Path(info.worktree["path"]) / "sub" / "ran").exists()


def test_a_command_that_cannot_be_started_after_it_says_so(holdfast, repository):
    said = holdfast(*words(repository, "true", "no-such-command"), expect=127).stderr
    assert "no-such-command" in said
    assert ended("a").outcome == "never_started"


def test_it_has_the_runs_environment_and_a_pty_run_has_one_too(holdfast, repository):
    first = words(repository, 'echo "$COLOUR"', "sh", "-c", "tty >/dev/null && echo on a terminal")
    holdfast(*first[:3], "--pty", "-e", "COLOUR=blue", *first[3:], expect=0)
    assert ended("a").outcome == "succeeded"
    assert log_of("a") == "blue\n"
    assert output_of("a") == b"on a terminal\r\n"


def test_a_queued_run_is_set_up_when_it_starts(holdfast, repository, tmp_path):
    holdfast("queue", "set", "q", "--limit", "1")
    holdfast("run", "-Q", "q", "-n", "first", "sleep", "600", expect=0)
    first = words(repository, f"touch {tmp_path}/set-up", "true")
    holdfast(*first[:3], "-Q", "q", *first[3:], expect=0)
    assert info_of("a").state == "queued"
    assert not (tmp_path / "set-up").exists()
    holdfast("stop", "first", expect=0)
    assert ended("a").outcome == "succeeded"
    assert (tmp_path / "set-up").exists()


# --- from the configuration, never from the repository --------------------------------------


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "holdfast" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_users_configuration_names_one_for_every_worktree(holdfast, repository, config):
    config.write_text('[worktree]\nsetup = "echo mine"\n')
    (repository.path / "config.toml").write_text('[worktree]\nsetup = "echo theirs"\n')
    where = ["-C", repository.path]
    holdfast("run", "-n", "a", "--worktree", "x", *where, "true", expect=0)
    assert ended("a").outcome == "succeeded"
    assert log_of("a") == "mine\n"
    holdfast("run", "-n", "b", *where, "true", expect=0)  # without a worktree there is none
    assert ended("b").outcome == "succeeded"
    holdfast("run", "-n", "c", "--worktree", "y", "--worktree-setup", "", *where, "true", expect=0)
    assert "setup" not in ended("c").worktree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[worktree]\nsetup = 3\n", "worktree.setup is a int"),
        ('[worktree]\nsteup = "x"\n', "worktree.steup is not known"),
        ("worktree = 1\n", "worktree is not a table"),
    ],
)
def test_a_mistake_in_it_is_told(holdfast, config, text, said):
    config.write_text(text)
    assert said in holdfast("run", "true", expect=2).stderr


def test_without_a_worktree_it_is_a_mistake(holdfast):
    said = holdfast("run", "--worktree-setup", "true", "true", expect=2).stderr
    assert "--worktree-setup is for a new worktree" in said


def test_secrets_in_it_are_not_shown(holdfast, repository):
    setup = "TOKEN=abcdefghijklmnop true"
    holdfast(*words(repository, setup, "true"), expect=0)
    assert "abcdefghijklmnop" not in str(ended("a").worktree)
    assert "abcdefghijklmnop" not in holdfast("status", "--json", "a").stdout
