"""`--secret-env-file`: read at each start of the command, and kept nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import InvalidOption
from tests.support.recovering import kill_shim
from tests.support.running import (
    ended,
    environment_of,
    events_of,
    info_of,
    settled,
    shim_pid,
    stop,
    wait_for,
)

SECRET = "correct-horse-battery-staple"


@pytest.fixture
def secrets(tmp_path) -> Path:
    path = tmp_path / "secrets"
    path.write_text(f"# for the service\nWORD={SECRET}\n")
    path.chmod(0o600)
    return path


def test_the_command_has_it_and_nothing_that_holdfast_keeps_does(holdfast, secrets):
    options = ["--secret-env-file", secrets, "-e", "PLAIN=yes"]
    started = holdfast("run", "-n", "a", *options, "sleep", "600", expect=0)
    assert "secret" not in started.stderr
    found = environment_of("a")
    assert (found["WORD"], found["PLAIN"]) == (SECRET, "yes")
    assert SECRET not in holdfast("status", "a", "--json", expect=0).stdout
    assert SECRET.encode() not in Path(f"/proc/{shim_pid('a')}/environ").read_bytes()
    holdfast("stop", "--grace", "0", "a", expect=0)
    settled("a")
    holdfast("report", "a", expect=0)
    kept = [path for path in Path(os.environ["HOLDFAST_HOME"]).rglob("*") if path.is_file()]
    assert any(path.name == "spec.json" for path in kept)
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == [secrets]


def test_what_a_failed_command_printed_of_it_is_in_its_log_alone(holdfast, secrets):
    holdfast("run", "-n", "a", "--secret-env-file", secrets, "sh", "-c", "echo its $WORD; exit 2")
    assert ended("a").last_output == {"stderr": None, "output": ["its [redacted]"]}
    settled("a")
    for words in (["status", "a"], ["ls", "--all"], ["report", "a"], ["report", "--markdown", "a"]):
        done = holdfast(*words, expect=0)
        assert SECRET not in done.stdout
    kept = [path for path in Path(os.environ["HOLDFAST_HOME"]).rglob("*") if path.is_file()]
    told = {path.name for path in kept if SECRET.encode() in path.read_bytes()}
    assert told == {"output.log", secrets.name}


def test_on_a_terminal_too(holdfast, secrets):
    options = ["--pty", "--secret-env-file", secrets]
    holdfast("run", "-n", "a", *options, "sh", "-c", "test $WORD = correct-horse-battery-staple")
    assert ended("a").outcome == "succeeded"


def test_a_restart_reads_it_anew(holdfast, secrets, tmp_path):
    script = f"echo $WORD >>{tmp_path}/seen; echo WORD=second >{secrets}; exit 1"
    options = ["--secret-env-file", secrets, "--restart", "on-failure:1"]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    ended("a", timeout=60)
    assert (tmp_path / "seen").read_text().split() == [SECRET, "second"]


def test_a_restart_without_it_does_not_start_the_command(holdfast, secrets, tmp_path):
    script = f"echo $WORD >>{tmp_path}/seen; rm {secrets}; exit 1"
    options = ["--secret-env-file", secrets, "--restart", "on-failure:5"]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    info = ended("a", timeout=60)
    assert (tmp_path / "seen").read_text().split() == [SECRET]
    assert (info.outcome, info.exit_code) == ("failed", 125)
    assert f"--secret-env-file: {secrets} can't be read" in info.evidence
    assert "nothing is started without it" in info.evidence


def test_a_rerun_without_it_is_refused(holdfast, secrets):
    holdfast("run", "-n", "a", "--secret-env-file", secrets, "true", expect=0)
    ended("a")
    secrets.unlink()
    done = holdfast("rerun", "a", expect=2)
    assert f"--secret-env-file: {secrets} can't be read" in done.stderr


def test_an_adoption_says_that_it_is_gone(holdfast, secrets):
    holdfast("run", "-n", "a", "--secret-env-file", secrets, "sleep", "600", expect=0)
    secrets.unlink()
    kill_shim("a")
    holdfast("recover", expect=0)
    assert wait_for("a", lambda info: info.state == "running")
    adopted = events_of("a", "supervised")[-1]
    assert f"its --secret-env-file {secrets} can't be read" in adopted["evidence"]
    assert environment_of("a")["WORD"] == SECRET, "what is alive goes on"
    stop(holdfast, "a")
    assert info_of("a").outcome == "stopped"


def test_others_who_may_read_it_are_warned_of(holdfast, secrets):
    secrets.chmod(0o644)
    done = holdfast("run", "-n", "a", "--secret-env-file", secrets, "true", expect=0)
    assert f"chmod 600 {secrets}" in done.stderr
    ended("a")


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "bad line"])
def test_what_is_no_file_of_variables_is_refused_and_shows_no_secret(holdfast, tmp_path, kind):
    path = tmp_path / "secrets"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "bad line":
        path.write_text(f"A=b\n{SECRET}\n")
    done = holdfast("run", "-n", "a", "--secret-env-file", path, "true", expect=2)
    assert f"--secret-env-file: {path}" in done.stderr
    assert SECRET not in done.stderr
    assert holdfast("ls", "-q", "--all", expect=0).stdout == ""


def test_from_a_preset_it_is_beside_the_configuration(holdfast, config):
    file = config('[preset.keys]\nsecret_env_file = "keys"\n').parent / "keys"
    file.write_text(f"WORD={SECRET}\n")
    holdfast("run", "-n", "a", "-P", "keys", "sleep", "600", expect=0)
    assert environment_of("a")["WORD"] == SECRET
    stop(holdfast, "a")


def test_the_library_takes_it_too(runs, secrets):
    assert runs.start(["true"], secret_env_file=secrets).wait().outcome == "succeeded"
    with pytest.raises(InvalidOption, match="secret_env_file"):
        runs.start(["true"], secret_env_file=3)
    wanted = runs.list()[0].wanted
    assert wanted is not None
    assert wanted["secret_env_file"] == str(secrets)
