"""`holdfast guard`: one instance, whoever starts it how often, and the command is left as it is."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from tests.support.places import sleeper
from tests.support.waiting import eventually

STARTERS = 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.pid"


@contextlib.contextmanager
def guarded(holdfast, path: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A guard whose command runs when the block begins, and is killed when it ends."""
    process = subprocess.Popen(holdfast.argv("guard", path, *(command or ("sleep", "600"))))
    try:
        eventually(
            lambda: ProcessIdentity.of(process.pid) == PidFile(path).read(),
            ignoring=(Exception,),
            why="the guard holds the file",
        )
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_command_takes_the_guards_place(holdfast, path):
    with subprocess.Popen(
        holdfast.argv("guard", path, "sh", "-c", f"echo $$ $PPID; cat {path}; cat"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate("hello\n", timeout=60)
    pid, parent, recorded, _token, rest = said.split(maxsplit=4)
    assert (int(pid), int(parent), int(recorded)) == (process.pid, os.getpid(), process.pid)
    assert rest.strip() == "hello"
    assert process.returncode == 0


def test_the_commands_own_code_and_words_are_its_own(holdfast, path):
    said = holdfast(
        "guard", path, "sh", "-c", 'printf "%s\\n" "$@"; exit 42', "sh", "--json", "-q", "--", "-v"
    )
    assert said.returncode == 42
    assert said.stdout.split() == ["--json", "-q", "--", "-v"]
    for words in ((path, "--", "echo", "--"), ("--", path, "echo", "--"), ("-q", path, "echo")):
        assert holdfast("guard", *words, expect=0).stdout.strip() in ("--", "")


@contextlib.contextmanager
def race(holdfast, path: Path, starters: int) -> Iterator[tuple[int, set[int], list[str]]]:
    """So many guards at once: the winner's PID while it lives, the losers' codes and words."""
    started = [
        subprocess.Popen(
            holdfast.argv("guard", path, "sleep", "600"), stderr=subprocess.PIPE, text=True
        )
        for _ in range(starters)
    ]
    try:
        eventually(
            lambda: sum(starter.poll() is not None for starter in started) == starters - 1,
            timeout=60,
            why="all but one have given up",
        )
        (winner,) = [starter for starter in started if starter.poll() is None]
        losers = [starter for starter in started if starter is not winner]
        said = [loser.stderr.read() for loser in losers if loser.stderr]
        yield winner.pid, {loser.returncode for loser in losers}, said
    finally:
        for starter in started:
            starter.kill()
            starter.wait()
            if starter.stderr:
                starter.stderr.close()


@pytest.mark.parametrize(("content", "starters"), [(None, STARTERS), ("2147483647\n", 24)])
def test_L2_of_many_concurrent_guards_one_wins_and_the_others_name_it(
    holdfast, path, content, starters
):
    if content:
        path.write_text(content)  # left by a process that is gone
    with race(holdfast, path, starters) as (winner, codes, said):
        assert codes == {4}
        assert [re.findall(r"held by (\d+)", text) for text in said] == [[str(winner)]] * len(said)
        assert [entry.name for entry in path.parent.iterdir()] == ["x.pid"]
        assert PidFile(path).read() == ProcessIdentity.of(winner)
    with guarded(holdfast, path) as next_one:
        assert next_one.pid != winner


def test_after_kill_9_the_next_starts_at_once(holdfast, path):
    with guarded(holdfast, path) as first:
        assert holdfast("guard", path, "true").returncode == 4
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert holdfast("check", path).returncode == 10
        holdfast("guard", path, "true", expect=0)


def test_a_command_that_closes_the_lock_is_still_guarded(holdfast, path):
    closing = "import os, time; os.closerange(3, 1000); time.sleep(600)"
    with guarded(holdfast, path, sys.executable, "-c", closing) as process:
        eventually(lambda: not _open_descriptors(process.pid, path), why="it closed the lock")
        refused = holdfast("guard", path, "true", expect=4)
        assert f"held by {process.pid}" in refused.stderr
        assert "which is alive" in refused.stderr
        (told,) = re.findall(r"`holdfast (signal TERM \S+)`", refused.stderr)
        holdfast(*told.split(), expect=0)
        process.wait(20)


def _open_descriptors(pid: int, path: Path) -> list[str]:
    directory, found = f"/proc/{pid}/fd", []
    for fd in os.listdir(directory):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            if os.readlink(f"{directory}/{fd}") == str(path):
                found.append(fd)
    return found


def test_a_library_user_behind_a_guard_may_hold_the_same_file(holdfast, path):
    code = f"from holdfast import PidFile\nwith PidFile({str(path)!r}).hold() as me: print(me.pid)"
    assert int(holdfast("guard", path, sys.executable, "-c", code, expect=0).stdout)


@pytest.mark.parametrize(
    ("command", "code"),
    [("no-such-command", 127), ("./missing", 127), ("./plain", 126), (".", 126)],
)
def test_L1_a_command_that_cannot_run_leaves_no_file(holdfast, path, command, code, tmp_path):
    (tmp_path / "plain").write_text("not executable")
    failed = holdfast("guard", path, command, cwd=tmp_path)
    assert failed.returncode == code
    assert command in failed.stderr
    assert not path.exists()


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(holdfast, path, tmp_path):
    (tmp_path / "script").write_text('echo "$1 $2"\n')
    (tmp_path / "script").chmod(0o755)
    said = holdfast("guard", path, "./script", "a b", "c", cwd=tmp_path, expect=0)
    assert said.stdout == "a b c\n"


def test_I5_a_live_legacy_pid_is_not_started_beside(holdfast, path):
    with sleeper() as process:
        path.write_text(f"{process.pid}\n")
        refused = holdfast("guard", path, "echo", "started", expect=4)
        assert refused.stdout == ""
        assert f"{process.pid}" in refused.stderr
        assert "unverified" in refused.stderr
        assert "hint:" in refused.stderr
    holdfast("guard", path, "true", expect=0)


@pytest.mark.parametrize("content", ["", "0", "-1", "nan", "x" * 5000, "1 hf1.broken"])
def test_I6_bad_content_is_never_started_over(holdfast, path, content):
    path.write_text(content)
    refused = holdfast("guard", path, "echo", "started", expect=2)
    assert refused.stdout == ""
    assert "remove it" in refused.stderr
    assert path.read_text() == content


def test_the_commands_signals_are_as_without_a_guard(holdfast, path):
    command = shlex.join(holdfast.argv("guard", path))
    script = f"trap '' USR1; exec {command} sh -c 'cat /proc/$$/status'"
    shown = subprocess.check_output(["sh", "-c", script], text=True)
    ignored = int(re.findall(r"SigIgn:\s*(\w+)", shown)[0], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    assert not ignored & (1 << (signal.SIGXFSZ - 1))
    assert ignored & (1 << (signal.SIGUSR1 - 1))


def test_a_closed_stdout_never_becomes_the_pid_file(holdfast, path):
    command = shlex.join(holdfast.argv("guard", path))
    script = f"{command} sh -c 'echo lost; cat {path} >&2' >&- <&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    recorded = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"\d+ hf1\.\S+", recorded)
    assert "lost" not in path.read_text()


def test_guard_has_no_json_form(holdfast, path):
    refused = holdfast("guard", "--json", path, "true", expect=2)
    assert refused.json["error"]["code"] == "wrong-use"
    assert not path.exists()
