"""`holdfast run`: what it prints, what its options do, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from holdfast.errors import InvalidOption
from tests.support import run_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in, start_in
from tests.support.recovering import kill_shim
from tests.support.running import (
    ended,
    environment_of,
    in_foreground,
    info_of,
    output_of,
    run_of,
    stop,
    wait_for,
    wait_for_output,
)
from tests.support.waiting import eventually, wait_for_exit
from tests.support.watched import PYTHON


def test_the_name_alone_is_on_stdout(holdfast):
    done = holdfast("run", "-n", "build", "true", expect=0)
    assert done.stdout == "build\n"
    assert done.stderr == ""
    assert re.fullmatch(r"true-[0-9a-z]{4}\n", holdfast("run", "true", expect=0).stdout)


def test_verbose_says_who_runs(holdfast):
    done = holdfast("run", "-v", "-n", "a", "sleep", "60", expect=0)
    info = info_of("a")
    assert info.workload is not None
    assert info.shim is not None
    said = f"started {info.id}: sleep {info.workload['pid']}, shim {info.shim['pid']}\n"
    assert done.stderr == said
    assert done.stdout == "a\n"
    stop(holdfast, "a")


def test_json_is_the_run(holdfast):
    document = holdfast("--json", "run", "-n", "a", "sleep", "60", expect=0).json
    assert document["schema"] == 1
    assert (document["name"], document["state"], document["outcome"]) == ("a", "running", None)
    assert document["command"] == ["sleep", "60"]
    assert document["workload"]["verdict"] == "SAME"
    stop(holdfast, "a")


def test_options_end_at_the_first_word_that_is_none(holdfast):
    for words in (["echo", "-n", "--json"], ["--", "echo", "-n", "--json"]):
        name = holdfast("run", *words, expect=0).stdout.strip()
        ended(name)
        assert output_of(name) == b"--json"


def test_the_command_is_needed_and_unknown_options_are_refused(holdfast):
    assert holdfast("run").returncode == 2
    done = holdfast("run", "--timeuot", "5", "true", expect=2)
    assert "did you mean --timeout" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--timeout", "soon"], "a duration"),
        (["--timeout", "0"], "more than 0"),
        (["--memory-max", "lots"], "a size"),
        (["--restart", "sometimes"], "on-failure"),
        (["--leftovers", "eat"], "stop or keep"),
        (["--stop-signal", "SIGFOO"], "signal"),
        (["--done-when", "("], "regular expression"),
        (["-n", "../x"], "can't name a run"),
        (["-e", "=x"], "K=V"),
        (["--tag", "=x"], "K=V"),
        (["--stdin", "/nonexistent"], "can't be read"),
        (["-P", "nope"], "no preset"),
    ],
)
def test_a_bad_value_is_refused_before_anything_starts(holdfast, tmp_path, words, expected):
    done = holdfast("run", *words, "true", expect=2)
    assert expected in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_agent_that_nobody_knows_is_refused(holdfast):
    assert "claude" in holdfast("run", "--agent", "nope", "true", expect=3).stderr


def test_directory_tags_and_options_are_recorded(holdfast, tmp_path):
    where = tmp_path / "a b"
    where.mkdir()
    words = ["-C", where, "--tag", "team=x", "--tag", "keep", "--timeout", "1h", "--grace", "3s"]
    words += ["--memory-max", "2G", "--log-max", "1M", "--sample-interval", "0", "--notify", "true"]
    holdfast("run", "-n", "a", *words, "pwd", expect=0)
    info = ended("a")
    assert output_of("a").decode().strip() == str(where)
    assert info.tags == {"team": "x", "keep": ""}
    assert info.wanted is not None
    wanted = {name: info.wanted[name] for name in ("timeout_seconds", "grace_seconds")}
    assert wanted == {"timeout_seconds": 3600.0, "grace_seconds": 3.0}
    assert info.wanted["memory_max_bytes"] == 2 << 30
    assert info.wanted["log_max_bytes"] == 1 << 20
    assert info.wanted["sample_interval_seconds"] == 0


def test_variables_are_set_kept_and_read_from_files(holdfast, tmp_path):
    file = tmp_path / "vars"
    file.write_text(
        "# a comment\n\nexport A=plain # not this\nB='single # quotes'\n"
        'C="double\\n\\"quotes\\"" # yes\nD=\nE=a=b=c\nF = spaced \nOVER=file\n'
    )
    words = ["--env-file", file, "-e", "OVER=typed", "-e", "CLAUDECODE", "-e", "NOT_HERE"]
    done = holdfast("run", "-n", "a", *words, "sleep", "60", env={"CLAUDECODE": "1"}, expect=0)
    assert "NOT_HERE" in done.stderr
    found = environment_of("a")
    assert {name: found[name] for name in "ABCDEF"} == {
        "A": "plain",
        "B": "single # quotes",
        "C": 'double\n"quotes"',
        "D": "",
        "E": "a=b=c",
        "F": "spaced",
    }
    assert (found["OVER"], found["CLAUDECODE"]) == ("typed", "1")
    stop(holdfast, "a")


@pytest.mark.parametrize("line", ["NOVALUE", "1A=x", "A B=x", "A='open", 'A="open', "A='x' y"])
def test_a_bad_line_of_an_env_file_is_named_by_its_number(holdfast, tmp_path, line):
    file = tmp_path / "vars"
    file.write_text(f"GOOD=1\n# x\n{line}\n")
    done = holdfast("run", "--env-file", file, "true", expect=2)
    assert f"{file}:3:" in done.stderr


def test_stdin_is_nothing_a_file_ours_or_a_pipe(holdfast, tmp_path):
    file = tmp_path / "input"
    file.write_bytes(b"from a file\0\n")
    for name, words, stdin, expected in (
        ("none", [], b"not this", b""),
        ("file", ["--stdin", file], b"", b"from a file\0\n"),
        ("ours", ["--stdin", "-"], b"piped \xff in" * 10000, b"piped \xff in" * 10000),
    ):
        holdfast("run", "-n", name, *words, "cat", stdin=stdin, expect=0)
        ended(name)
        assert output_of(name) == expected
    holdfast("run", "-n", "pipe", "--stdin", "pipe", "head", "-n", "2", expect=0)
    holdfast("send", "pipe", "one", expect=0)
    holdfast("send", "pipe", "--no-newline", "tw", expect=0)
    holdfast("send", "pipe", "o", expect=0)
    assert ended("pipe").outcome == "succeeded"
    assert output_of("pipe") == b"one\ntwo\n"


def test_stdin_from_a_terminal_is_refused(holdfast):
    main, end = os.openpty()
    with os.fdopen(main), os.fdopen(end, "rb") as terminal:
        done = subprocess.run(
            holdfast.argv("run", "--stdin", "-", "cat"),
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert "--stdin pipe" in done.stderr


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"LANG": "C", "LC_CTYPE": "POSIX"},
        {"LC_CTYPE": "C.UTF-8"},
        {"LC_ALL": "C"},
        {"LC_CTYPE": "C", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=str,
)
def test_a_command_has_the_locale_of_its_caller(holdfast, runs, tmp_path, given):
    """Python changes LC_CTYPE in its own environment where it is started in the C locale."""
    home = f"HOLDFAST_HOME={runs.home.path}"
    settings = [f"{name}={value}" for name, value in given.items()]
    words = ["run", "-n", "a", "-F", "-C", tmp_path, "env"]
    done = subprocess.run(
        ["env", "-i", home, *settings, *holdfast.argv(*words)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = {one for one in done.stdout.splitlines() if not one.startswith("HOLDFAST_")}
    assert found == {*settings, f"PWD={tmp_path}"}


@pytest.mark.parametrize(
    "words", [("run", "--stdin", "-", "cat"), ("run", "--batch", "-"), ("resume", "a", "-")]
)
def test_a_closed_stdin_is_not_called_a_terminal(holdfast, words):
    script = 'exec "$@" <&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *holdfast.argv(*words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "stdin is closed" in done.stderr
    assert "terminal" not in done.stderr.splitlines()[0]


def test_split_stderr_keeps_two_files(holdfast):
    holdfast("run", "-n", "a", "--split-stderr", "sh", "-c", "echo out; echo err >&2", expect=0)
    ended("a")
    directory = run_of("a").directory
    assert output_of("a") == b"out\n"
    with open(directory.stderr_path) as file:
        assert file.read() == "err\n"


def test_a_terminal_has_one_stream(holdfast, runs, config, tmp_path):
    said = holdfast("run", "--pty", "--split-stderr", "true", expect=2).stderr
    assert "a terminal has one stream" in said
    assert "leave out --pty or --split-stderr" in said
    with pytest.raises(InvalidOption):
        runs.start(["true"], pty=True, split_stderr=True)
    assert not (tmp_path / "runs").exists()
    config("[defaults]\nsplit_stderr = true\n")
    assert holdfast("run", "--json", "-n", "a", "--pty", "true", expect=0).json["pty"] is True
    ended("a")
    config("[defaults]\npty = true\n")
    holdfast("run", "-n", "b", "--split-stderr", "sh", "-c", "echo no >&2", expect=0)
    ended("b")
    assert holdfast("logs", "b", "--stderr", expect=0).stdout == "no\n"


def test_send_needs_a_stdin_to_write_to(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    done = holdfast("--json", "send", "a", "x", expect=4)
    assert done.json["error"]["code"] == "no-stdin"
    stop(holdfast, "a")
    assert holdfast("send", "a", "x").returncode == 4
    holdfast("run", "-n", "b", "--stdin", "pipe", "head", "-n1", expect=0)
    holdfast("send", "b", "x", expect=0)
    ended("b")
    assert "has ended" in holdfast("send", "b", "x", expect=4).stderr


def test_W3_how_long_a_required_workload_may_take_is_told(holdfast):
    words = ["--workload", "nope", "--require-workload", "--workload-within", "0.3s"]
    done = holdfast("run", "-F", *words, "sleep", "60", expect=125)
    assert "no workload nope appeared" in done.stderr
    assert "within 0.3 s" in done.stderr


# Configuration


def test_defaults_presets_and_what_is_typed_in_this_order(holdfast, config, tmp_path):
    vars_file = tmp_path / "config" / "vars"
    config(
        '[defaults]\ntimeout = "1h"\ngrace = 3\ntags = {team = "x"}\nenv = {A = "default"}\n'
        '[preset.agent]\ntimeout = "2h"\nidle-timeout = "15m"\nenv = {A = "preset", B = "b"}\n'
        f'env_file = "{vars_file}"\n'
    )
    vars_file.write_text("V=file\nB=file\n")
    holdfast("run", "-n", "a", "-P", "agent", "--idle-timeout", "9m", "sleep", "60", expect=0)
    wanted, found = info_of("a").wanted, environment_of("a")
    assert wanted is not None
    assert wanted["timeout_seconds"] == 7200
    assert wanted["idle_timeout_seconds"] == 540
    assert wanted["grace_seconds"] == 3
    assert info_of("a").tags == {"team": "x"}
    assert (found["A"], found["B"], found["V"]) == ("preset", "b", "file")
    stop(holdfast, "a")


def test_a_configuration_in_the_working_directory_is_not_read(holdfast, tmp_path):
    for place in (tmp_path / "config.toml", tmp_path / "holdfast" / "config.toml"):
        place.parent.mkdir(exist_ok=True)
        place.write_text("broken")
    holdfast("run", "true", cwd=tmp_path, env={"XDG_CONFIG_HOME": "."}, expect=0)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("nonsense = ", "not TOML"),
        ("defaults = 1", "defaults"),
        ("[surprise]", "surprise"),
        ("[defaults]\ntimeuot = 1", "defaults.timeuot"),
        ('[defaults]\ntimeout = "soon"', "defaults.timeout"),
        ("[defaults]\ntimeout = true", "defaults.timeout"),
        ("[defaults]\ntimeout = [1]", "defaults.timeout"),
        ("[preset.x]\npty = 1", "preset.x.pty"),
        ("[preset.x.env]\nA = 1", "preset.x.env.A"),
        ("[preset]\nx = 1", "preset.x"),
        ('[defaults]\nrestart = "sometimes"', "defaults.restart"),
        ('[defaults]\nrequire-workload = "yes"', "defaults.require-workload"),
        ("[retention]\nkeep = -1", "retention.keep"),
        ('[retention]\nkeep = "few"', "retention.keep"),
        ('[retention]\nolder-than = "soon"', "retention.older-than"),
        ("[retention]\nkeeep = 1", "retention.keeep"),
    ],
)
def test_a_mistake_in_the_configuration_names_the_file_and_the_key(holdfast, config, text, key):
    path = config(text)
    done = holdfast("--json", "run", "true", expect=2)
    error = done.json["error"]
    assert error["code"] == "invalid-profile"
    assert str(path) in error["message"]
    assert key in error["message"]


# In the foreground


def test_foreground_streams_every_byte_and_exits_with_the_runs_code(holdfast, tmp_path):
    data = bytes(range(256)) * 3000 + b"\r\nno newline at the end"
    (tmp_path / "data").write_bytes(data)
    done = holdfast("run", "-F", "sh", "-c", f"cat {tmp_path}/data; exit 42", expect=42)
    assert done.raw == data
    assert done.stderr == ""


def test_foreground_keeps_stderr_apart_when_it_is_split(holdfast):
    words = ["--split-stderr", "sh", "-c", "echo out; echo err >&2"]
    done = holdfast("run", "-F", *words, expect=0)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    assert holdfast("run", "-F", *words[1:], expect=0).stdout == "out\nerr\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sh", "-c", "kill -SEGV $$"], 139, "killed by SIGSEGV"),
        (["--timeout", "0.2s", "sleep", "60"], 124, "timed out"),
        (["/nonexistent/program"], 127, "no such file"),
        (["/etc/passwd"], 126, "ermission denied"),
        (["-C", "/nonexistent", "true"], 125, "can't be entered"),
        (["--done-when", "ready", "--drain", "0", "sh", "-c", "echo ready; sleep 60"], 0, ""),
    ],
)
def test_foreground_exits_as_the_contract_says(holdfast, words, code, said):
    done = holdfast("run", "-F", *words, expect=code)
    assert said in done.stderr


def test_output_that_nobody_takes_is_125_and_harms_no_run(holdfast):
    words = ["run", "-F", "-n", "a", "--stdin", "pipe", "sh", "-c", "echo hi; read go; exit 3"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            holdfast.argv(*words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 125
    assert "can't be written: No space left on device" in done.stderr
    holdfast("send", "a", "go", expect=0)
    assert (ended("a").outcome, ended("a").exit_code) == ("failed", 3)
    assert output_of("a") == b"hi\n"
    with open("/dev/full", "wb") as full:
        assert subprocess.call(holdfast.argv("wait", "a"), stdout=full, timeout=60) == 125


def test_a_failure_of_ours_does_not_look_like_the_runs(holdfast, tmp_path):
    (tmp_path / "file").touch()
    nowhere = {"HOLDFAST_HOME": str(tmp_path / "file")}
    assert "is not a directory" in holdfast("run", "-F", "true", env=nowhere, expect=125).stderr
    assert "is not a directory" in holdfast("wait", "a", env=nowhere, expect=125).stderr
    holdfast("run", "true", env=nowhere, expect=6)
    holdfast("run", "-F", "--grace", "x", "true", expect=2)
    holdfast("wait", "nobody", expect=3)


def test_foreground_has_no_json(holdfast):
    assert holdfast("--json", "run", "-F", "true", expect=2).json["error"]["code"] == "wrong-use"


def test_foreground_passes_signals_on(holdfast):
    script = (
        "trap 'echo got term' TERM; trap 'echo got usr1' USR1; trap 'echo got int; exit 5' INT;"
        " echo ready; while :; do sleep 0.05; done"
    )
    with in_foreground(holdfast, "-n", "a", "sh", "-c", script) as process:
        wait_for_output("a", b"ready\n")
        for number, word in ((signal.SIGUSR1, b"usr1"), (signal.SIGTERM, b"term")):
            process.send_signal(number)
            wait_for_output("a", b"got " + word)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=30)
    assert process.returncode == 5
    assert said == b"ready\ngot usr1\ngot term\ngot int\n"
    assert complained == b""
    assert ended("a").outcome == "failed"


def test_ctrl_c_twice_stops_the_tree(holdfast):
    script = (
        "trap 'echo got int' INT; trap '' TERM; (trap '' TERM INT; exec sleep 61) &"
        " echo ready; while :; do sleep 0.05; done"
    )
    with in_foreground(holdfast, "-n", "a", "--grace", "1", "bash", "-c", script) as process:
        wait_for_output("a", b"ready\n")
        process.send_signal(signal.SIGINT)
        wait_for_output("a", b"got int")
        assert info_of("a").state == "running"
        process.send_signal(signal.SIGINT)
        _, complained = process.communicate(timeout=30)
    info = ended("a")
    assert info.outcome == "stopped"
    assert info.cleanup is not None
    assert info.cleanup["complete"] is True
    assert process.returncode == 137
    assert b"stopping the run" in complained


def test_a_reader_that_does_not_read_delays_no_signal(holdfast):
    script = (
        "trap 'exit 9' TERM; head -c 4000000 /dev/zero; echo written >&2;"
        " while :; do sleep 0.05; done"
    )
    with in_foreground(holdfast, "-n", "a", "--split-stderr", "bash", "-c", script) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"written\n"
        process.send_signal(signal.SIGTERM)
        assert ended("a").exit_code == 9
        said, _ = process.communicate(timeout=30)
    assert len(said) == 4000000
    assert process.returncode == 9


def test_a_reader_that_left_leaves_the_run_alone(holdfast):
    script = "echo one; read go; echo two; sleep 60"
    with in_foreground(holdfast, "-n", "a", "--stdin", "pipe", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        holdfast("send", "a", "go", expect=0)
        assert process.wait(30) == 141
    assert info_of("a").state == "running"
    stop(holdfast, "a")


def test_foreground_survives_its_shim(holdfast):
    with in_foreground(
        holdfast, "-n", "a", "--stdin", "pipe", "sh", "-c", "read x; exit 4"
    ) as process:
        wait_for("a", lambda info: info.state == "running")
        shim = kill_shim("a")
        eventually(lambda: _has_another_shim("a", shim["token"]), why="it was adopted")
        holdfast("send", "a", "x", expect=0)
        assert process.wait(30) in (4, 125)  # 125 where only a parent can see the exit status
    assert ended("a").exit_code in (4, None)


def _has_another_shim(name: str, token: str) -> bool:
    info = info_of(name)
    return info.state == "running" and info.shim is not None and info.shim["token"] != token


def test_as_pid_1_only_in_the_foreground(holdfast, tmp_path):
    needs("root", "pid_namespace")
    here = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
    done = subprocess.run(
        [*here, *holdfast.argv("run", "true")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4
    assert "run -F" in done.stderr
    assert not (tmp_path / "runs").exists()
    script = "(sleep 0.1 &); echo hello; exit 3"
    done = subprocess.run(
        [*here, *holdfast.argv("run", "-F", "-n", "a", "sh", "-c", script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert info_of("a").exit_code == 3
    assert not (tmp_path / "active" / info_of("a").id).exists()


# Again


def test_rerun_is_the_same_command_environment_and_limits(holdfast, tmp_path):
    words = ["-e", "A=5", "--timeout", "1h", "--tag", "k=v", "--stdin", "-", "-C", tmp_path]
    holdfast("run", "-n", "a", *words, "sh", "-c", "echo $A $B $OTHER; cat", stdin=b"in", expect=0)
    first = ended("a")
    again = ["--timeout", "2h", "-e", "B=6", "--tag", "l=w"]
    done = holdfast("rerun", "a", *again, env={"OTHER": "not then"}, expect=0)
    assert done.stdout == "a\n"
    second = ended("a")
    assert second.id != first.id
    assert output_of("a") == b"5 6\nin"
    assert second.wanted is not None
    assert second.wanted["timeout_seconds"] == 7200
    assert second.tags == {"k": "v", "l": "w"}
    assert second.cwd == str(tmp_path)
    assert second.resumed_from is None


def test_rerun_beside_a_live_one_needs_another_name_or_replace(holdfast):
    holdfast("run", "-n", "a", "sleep", "60", expect=0)
    first = info_of("a").id
    assert holdfast("rerun", "a", expect=4).stderr.startswith("holdfast: a is already running")
    assert holdfast("rerun", "a", "-n", "b", expect=0).stdout == "b\n"
    assert first in holdfast("rerun", "a", "--replace", expect=0).stderr
    stop(holdfast, "a", "b")


def test_resume_of_what_is_no_agent_points_to_rerun(holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")
    error = holdfast("--json", "resume", "a", "go on", expect=4).json["error"]
    assert "holdfast rerun a" in error["hint"]


FAKE_AGENT = """\
import json, subprocess, sys, time
session = "1f0c2a00-0000-4000-8000-000000000001"
print(json.dumps({"type": "system", "subtype": "init", "session_id": session}), flush=True)
print(sys.argv[1:], flush=True)
prompt = " ".join(sys.argv)
if "stay" in prompt:
    time.sleep(60)
if "leave" in prompt:
    left = subprocess.Popen(["sleep", "60"], start_new_session=True)
    print("left", left.pid, flush=True)
"""


@pytest.fixture
def agent(tmp_path):
    """A program called claude that begins its stream as the real one does."""
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text(f"#!{PYTHON}\n{FAKE_AGENT}")
    path.chmod(0o755)
    return path


def test_resume_goes_on_with_the_session_and_one_at_a_time(holdfast, agent):
    words = ["-p", "first", "--output-format", "stream-json", "--verbose", "--model", "x"]
    holdfast("run", "-n", "a", agent, *words, expect=0)
    first = ended("a")
    assert first.agent == "claude"
    assert first.session is not None
    document = holdfast("--json", "resume", "a", "stay and go on", expect=0).json
    assert document["name"] == "a"
    assert document["resumed_from"] == first.id
    assert "--resume" in document["command"]
    assert first.session["id"] in document["command"]
    assert "stay and go on" in document["command"]
    assert "first" not in document["command"]
    assert document["command"][document["command"].index("--model") + 1] == "x"
    # One resumed run at a time: neither the first nor the second can be resumed now.
    for reference in (first.id, document["id"]):
        assert holdfast("--json", "resume", reference, expect=4).json["error"]["code"] in (
            "still-alive",
            "already-running",
        )
    stop(holdfast, "a")
    third = holdfast("--json", "resume", first.id, "-", stdin=b"from stdin\n", expect=0).json
    assert "from stdin" in third["command"]
    ended("a")


def test_resume_is_refused_while_anything_of_the_tree_lives(holdfast, agent):
    words = ["-p", "leave one", "--output-format", "stream-json", "--verbose"]
    holdfast("run", "-n", "a", "--leftovers", "keep", agent, *words, expect=0)
    assert ended("a").session is not None
    left = int(output_of("a").split()[-1])
    error = holdfast("--json", "resume", "a", expect=4).json["error"]
    assert error["code"] == "still-alive"
    assert str(left) in error["message"]
    os.kill(left, signal.SIGKILL)
    wait_for_exit(left)
    holdfast("resume", "a", expect=0)
    ended("a")


def test_I9_a_session_goes_on_in_another_container(agent, tmp_path):
    needs("root", "pid_namespace")
    words = [str(agent), "-p", "x", "--output-format", "stream-json", "--verbose"]
    first = [["run", "-n", "a", *words], ["wait", "a"]]
    assert run_in(Place(), run_scenes.call, home=str(tmp_path), calls=first) == [[0, ""], [0, ""]]
    # What was in the old namespace can't be looked at, but its shim had seen all of it end.
    again = [["resume", "a", "go on"], ["wait", "a"]]
    assert run_in(Place(), run_scenes.call, home=str(tmp_path), calls=again) == [[0, ""], [0, ""]]
    # What was left behind over there on purpose may be alive.
    kept = [["run", "-n", "b", "--leftovers", "keep", *words], ["wait", "b"]]
    with start_in(Place(), run_scenes.call_and_stay, home=str(tmp_path), calls=kept) as there:
        assert there.announced() == [[0, ""], [0, ""]]
        resume = [["resume", "b"]]
        ((code, said),) = run_in(Place(), run_scenes.call, home=str(tmp_path), calls=resume)
    assert code == 4
    assert "may be alive" in said


def test_the_record_keeps_secrets_from_the_shown_command(holdfast):
    done = holdfast("--json", "run", "-n", "a", "true", "--api-key", "s3cret-value-123", expect=0)
    assert "s3cret-value-123" not in json.dumps(done.json)
    ended("a")
